//! One node's view of a cluster.

use std::ops::RangeInclusive;

use super::SLOTS;

pub(super) struct View {
    is_ok: bool,
    members: Vec<Member>,
}

struct Member {
    id: String,
    flags: Vec<String>,
    master: String,
    is_linked: bool,
    slots: Vec<RangeInclusive<u16>>,
}

impl View {
    /// Reads what `CLUSTER INFO` and `CLUSTER NODES` answer.
    pub(super) fn parse(info: &str, nodes: &str) -> Self {
        Self {
            is_ok: info.contains("cluster_state:ok"),
            members: nodes.lines().map(Member::parse).collect(),
        }
    }

    /// `true` if there are so many nodes, and all can be talked to.
    pub(super) fn knows(&self, count: usize) -> bool {
        let usable = |member: &&Member| member.is_linked && !member.is("handshake");
        self.members.iter().filter(usable).count() >= count
    }

    pub(super) fn is_ok(&self) -> bool {
        self.is_ok && self.covers_all() && !self.members.iter().any(|it| it.is("handshake"))
    }

    pub(super) fn covers_all(&self) -> bool {
        let slots = self.members.iter().flat_map(|member| &member.slots);
        slots.map(ExactSizeIterator::len).sum::<usize>() == SLOTS
    }

    pub(super) fn has_slots(&self, id: &str) -> bool {
        let mut members = self.members.iter();
        members.any(|member| member.id == id && !member.slots.is_empty())
    }

    pub(super) fn is_master(&self, id: &str) -> bool {
        let mut members = self.members.iter();
        members.any(|member| member.id == id && member.is("master") && !member.slots.is_empty())
    }

    pub(super) fn master_of(&self, slot: u16) -> Option<&str> {
        let has = |member: &&Member| member.slots.iter().any(|range| range.contains(&slot));
        self.members.iter().find(has).map(|member| &*member.id)
    }

    pub(super) fn replica_of(&self, master: &str) -> Option<&str> {
        let mut members = self.members.iter();
        let is_one = |member: &&Member| member.master == master && !member.is("fail");
        members.find(is_one).map(|member| &*member.id)
    }

    pub(super) fn agrees_with(&self, other: &Self) -> bool {
        let owners = |view: &Self| {
            let mut owners: Vec<_> = view
                .members
                .iter()
                .filter(|member| !member.slots.is_empty())
                .map(|member| (member.id.clone(), member.slots.clone()))
                .collect();
            owners.sort_by(|one, other| one.0.cmp(&other.0));
            let mut replicas: Vec<_> = view
                .members
                .iter()
                .filter(|member| member.master != "-")
                .map(|member| (member.id.clone(), member.master.clone()))
                .collect();
            replicas.sort();
            (owners, replicas)
        };
        owners(self) == owners(other)
    }
}

impl Member {
    /// `id address flags master ping pong epoch link slot...`
    fn parse(line: &str) -> Self {
        let words: Vec<_> = line.split(' ').collect();
        // A slot on the move is in brackets, besides its range.
        let slots = words.iter().skip(8).filter(|word| !word.starts_with('['));
        Self {
            id: words[0].to_owned(),
            flags: words[2].split(',').map(ToOwned::to_owned).collect(),
            master: words[3].to_owned(),
            is_linked: words[7] == "connected",
            slots: slots.map(|word| range(word)).collect(),
        }
    }

    fn is(&self, flag: &str) -> bool {
        self.flags.iter().any(|it| it == flag)
    }
}

fn range(word: &str) -> RangeInclusive<u16> {
    let number = |text: &str| text.parse().expect("slots are numbers");
    match word.split_once('-') {
        Some((first, last)) => number(first)..=number(last),
        None => number(word)..=number(word),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read() {
        let nodes = "\
a 127.0.0.1:1@2,host myself,master - 0 0 1 connected 0-99 16383 [7->-b]
b 127.0.0.1:3@4 slave a 0 0 2 connected
c :0@0 master,fail - 0 0 3 disconnected 100-16382
";
        let view = View::parse("cluster_state:ok\r\n", nodes);
        assert!(view.is_ok() && view.knows(2) && !view.knows(3));
        assert_eq!(view.master_of(16_383), Some("a"));
        assert_eq!(view.master_of(100), Some("c"));
        assert_eq!(view.replica_of("a"), Some("b"));
        assert_eq!(view.replica_of("c"), None);
        assert!(view.is_master("a") && !view.is_master("b"));
        assert!(view.has_slots("c") && view.agrees_with(&view));
    }
}
