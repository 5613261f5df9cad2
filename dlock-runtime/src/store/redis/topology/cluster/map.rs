//! The map of a cluster: the known node of each slot, and the nodes.

use std::{
    collections::{HashMap, HashSet},
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use super::topology::Topology;
use crate::store::redis::{
    config::url::Address,
    net::{connection::Handle, node::Node, supervisor::ConnectionState},
    protocol::slot::SLOTS,
};

/// A master. All requests to its slots go over its connection.
pub(crate) struct Member {
    pub(super) address: Address,
    /// Its URL without the password.
    pub(super) shown: String,
    pub(super) node: Node,
    /// `true` if another node has named it since the last map: it may be about to get a slot.
    named: AtomicBool,
    gone: AtomicBool,
}

impl Member {
    pub(super) fn new(address: Address, shown: String, node: Node) -> Self {
        Self {
            address,
            shown,
            node,
            named: AtomicBool::new(false),
            gone: AtomicBool::new(false),
        }
    }

    #[cfg(feature = "admin")]
    pub(crate) fn node(&self) -> &Node {
        &self.node
    }

    /// Returns `true` if it was dropped from the map, which has ended its connection.
    pub(super) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }

    /// Returns `true` if its last attempt to connect has failed.
    pub(super) fn has_failed(&self) -> bool {
        matches!(&*self.node.state().borrow(), ConnectionState::Failed(_))
    }

    /// Returns its connection, if that works as far as is known.
    pub(super) fn link(&self) -> Option<Handle> {
        match &*self.node.state().borrow() {
            ConnectionState::Ready(handle) => Some(handle.clone()),
            ConnectionState::Connecting { .. } | ConnectionState::Failed(_) => None,
        }
    }

    fn leave(&self) {
        self.gone.store(true, Ordering::Release);
        self.node.close();
    }
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

#[derive(Default)]
pub(super) struct Map {
    /// Empty until a map is known.
    slots: Vec<Option<Arc<Member>>>,
    members: HashMap<Address, Arc<Member>>,
    /// Other nodes that may know the cluster, mostly replicas.
    others: HashSet<Address>,
    /// The number of redirections by which nodes have reported a moved slot.
    lessons: u64,
    /// The number of the last redirection for each slot since the last agreed map.
    learnt: HashMap<u16, u64>,
}

impl Map {
    pub(super) fn owner(&self, slot: u16) -> Option<Arc<Member>> {
        self.slots.get(usize::from(slot))?.clone()
    }

    pub(super) fn members(&self) -> impl Iterator<Item = &Arc<Member>> {
        self.members.values()
    }

    /// Returns the nodes that have slots, in the order of their names.
    #[cfg(feature = "admin")]
    pub(super) fn masters(&self) -> Vec<Arc<Member>> {
        let owners = self.slots.iter().flatten();
        let named: std::collections::BTreeMap<_, _> =
            owners.map(|member| (&member.shown, member)).collect();
        named.into_values().cloned().collect()
    }

    /// Returns all nodes that may know the cluster.
    pub(super) fn addresses(&self) -> impl Iterator<Item = &Address> {
        self.members.keys().chain(&self.others)
    }

    pub(super) fn at(&self, address: &Address) -> Option<&Arc<Member>> {
        self.members.get(address)
    }

    /// Returns the number of redirections so far. Later ones are newer than an answer to a request that is sent now.
    pub(super) fn lessons(&self) -> u64 {
        self.lessons
    }

    /// Returns the node at `address`. `start` creates it if it is new.
    pub(super) fn member(
        &mut self,
        address: &Address,
        start: impl FnOnce(&Address) -> Member,
    ) -> Arc<Member> {
        let known = self.members.entry(address.clone());
        known.or_insert_with(|| Arc::new(start(address))).clone()
    }

    /// Returns the node at `address`, to which another node has redirected a request.
    pub(super) fn named(
        &mut self,
        address: &Address,
        start: impl FnOnce(&Address) -> Member,
    ) -> Arc<Member> {
        let member = self.member(address, start);
        member.named.store(true, Ordering::Relaxed);
        member
    }

    /// Records that a node has redirected a request for the slot to `member`.
    pub(super) fn moved(&mut self, slot: u16, member: Arc<Member>) {
        self.slots.resize(SLOTS, None);
        self.slots[usize::from(slot)] = Some(member);
        self.lessons += 1;
        self.learnt.insert(slot, self.lessons);
    }

    /// Applies the answer of agreeing nodes to a request that was sent after `lessons` redirections. A node that is
    /// no longer a master is dropped with its connection.
    ///
    /// Returns `false` if some nodes were kept because others had named them in the meantime: the next map decides.
    pub(super) fn apply(
        &mut self,
        topology: Topology,
        lessons: u64,
        start: impl Fn(&Address) -> Member,
    ) -> bool {
        let mut slots = vec![None; SLOTS];
        let mut masters = HashSet::new();
        for (range, address) in topology.masters {
            let member = self.member(&address, &start);
            for slot in range {
                slots[usize::from(slot)] = Some(member.clone());
            }
            masters.insert(address);
        }
        self.learnt.retain(|_, lesson| *lesson > lessons);
        for &slot in self.learnt.keys() {
            let slot = usize::from(slot);
            if let Some(member) = &self.slots[slot] {
                masters.insert(member.address.clone());
            }
            slots[slot].clone_from(&self.slots[slot]);
        }
        self.slots = slots;
        self.others = topology.replicas;
        let mut is_settled = self.learnt.is_empty();
        self.members.retain(|address, member| {
            let was_named = member.named.swap(false, Ordering::Relaxed);
            if masters.contains(address) {
                return true;
            }
            if was_named {
                is_settled = false;
            } else {
                member.leave();
            }
            was_named
        });
        is_settled
    }

    /// Applies the answer of a single node, which may be outdated: only for slots that no node is known to serve. No
    /// node is dropped.
    pub(super) fn fill(&mut self, topology: Topology, start: impl Fn(&Address) -> Member) {
        self.slots.resize(SLOTS, None);
        self.others.extend(topology.replicas);
        for (range, address) in topology.masters {
            for slot in range.map(usize::from) {
                let owner = self.slots[slot].as_ref();
                let is_served = owner.is_some_and(|it| !it.is_gone() && !it.has_failed());
                if !is_served {
                    self.slots[slot] = Some(self.member(&address, &start));
                }
            }
            self.others.insert(address);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{ops::RangeInclusive, time::Duration};

    use dlock_testkit::eventually;

    use super::*;
    use crate::store::redis::{
        RedisConfig,
        config::url::Location,
        net::{events::Events, home::Home},
        topology::source::Source,
    };

    fn address(port: u16) -> Address {
        Address::Tcp("127.0.0.1".into(), port)
    }

    /// No server listens there.
    fn start(address: &Address) -> Member {
        let location = Location::parse("redis-cluster://127.0.0.1").unwrap();
        let config = Arc::new(RedisConfig::new("redis-cluster://127.0.0.1"));
        let source = Source::Fixed(location.endpoint(address.clone()));
        let events = Events::new(String::new());
        let home = Home::on(tokio::runtime::Handle::current(), config.response_timeout);
        let node = Node::start(source, &config, &Arc::default(), events, &home);
        Member::new(address.clone(), String::new(), node)
    }

    fn topology(masters: &[(RangeInclusive<u16>, u16)]) -> Topology {
        let master = |(range, port): &(RangeInclusive<u16>, u16)| (range.clone(), address(*port));
        Topology {
            masters: masters.iter().map(master).collect(),
            replicas: HashSet::new(),
        }
    }

    fn owner(map: &Map, slot: u16) -> Address {
        map.owner(slot).expect("all are served").address.clone()
    }

    #[tokio::test]
    async fn what_was_learnt_since_an_answer_was_asked_for_stays() {
        let old = || topology(&[(0..=100, 1), (101..=16_383, 2)]);
        let mut map = Map::default();
        assert!(map.apply(old(), map.lessons(), start));
        let asked = map.lessons();
        let new = map.named(&address(3), start);
        map.moved(5, new.clone());
        for _ in 0..2 {
            assert!(!map.apply(old(), asked, start), "the next map decides");
            assert_eq!(owner(&map, 5), address(3));
            assert_eq!(owner(&map, 6), address(1));
            assert!(!new.is_gone());
        }
        // Two nodes agree in an answer to a later request.
        assert!(map.apply(old(), map.lessons(), start));
        assert_eq!(owner(&map, 5), address(1));
        assert!(new.is_gone());
    }

    /// Its slots may be about to move there. A request follows each redirection.
    #[tokio::test]
    async fn a_node_that_another_one_has_named_stays_until_the_next_map() {
        let all = || topology(&[(0..=16_383, 1)]);
        let mut map = Map::default();
        assert!(map.apply(all(), map.lessons(), start));
        let named = map.named(&address(2), start);
        assert!(!map.apply(all(), map.lessons(), start), "not the last word");
        assert!(!named.is_gone());
        assert!(map.apply(all(), map.lessons(), start));
        assert!(named.is_gone());
        assert!(map.at(&address(2)).is_none());
    }

    #[tokio::test]
    async fn replicas_may_be_asked_as_long_as_the_nodes_name_them() {
        let with = |replica| Topology {
            replicas: HashSet::from([address(replica)]),
            ..topology(&[(0..=16_383, 1)])
        };
        let known = |map: &Map| map.addresses().cloned().collect::<HashSet<_>>();
        let mut map = Map::default();
        map.fill(with(2), start);
        map.fill(with(3), start);
        assert_eq!(known(&map), HashSet::from([1, 2, 3].map(address)));
        map.apply(with(4), map.lessons(), start);
        assert_eq!(known(&map), HashSet::from([1, 4].map(address)));
    }

    #[tokio::test]
    async fn what_one_node_says_leads_nobody_away_from_a_working_one() {
        let mut map = Map::default();
        map.fill(topology(&[(0..=16_383, 1)]), start);
        assert_eq!(owner(&map, 7), address(1), "it is better than nothing");
        map.apply(topology(&[(0..=16_383, 2)]), map.lessons(), start);
        let member = map.owner(7).expect("all are served");
        map.fill(topology(&[(0..=16_383, 1)]), start);
        assert_eq!(owner(&map, 7), address(2));
        assert!(!member.is_gone());
        assert!(
            map.addresses().any(|it| *it == address(1)),
            "it may be asked"
        );

        let limit = Duration::from_secs(60);
        eventually(limit, "the connection fails", async || member.has_failed()).await;
        map.fill(topology(&[(0..=16_383, 1)]), start);
        assert_eq!(owner(&map, 7), address(1), "no other node serves it");
    }
}
