//! The findings about the servers, which `dlock doctor` prints too.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use dlock_admin::doctor::{Facts, Finding, Judge, LockFacts, findings};
use dlock_runtime::clock::{Clock as _, Moment, SystemClock};
use serde::Serialize;
use serde_json::json;
use tokio::sync::Mutex;

use super::{
    desk::{Desk, Shown},
    moment,
    picture::Picture,
    reply,
};

/// The time for which findings are shown again: an examination opens connections, and measures round trips.
const FRESH: Duration = Duration::from_secs(10);

/// The same for an examination that found no server, or came before the first picture. It is not zero: many may ask at
/// once.
const INCOMPLETE: Duration = Duration::from_secs(1);

/// The findings of the latest examination.
#[derive(Default)]
pub(super) struct Examination {
    /// The checks of the servers, if they are not those of the inspector.
    judge: Option<Arc<dyn Judge>>,
    latest: Mutex<Option<Examined>>,
}

#[derive(Clone, Debug)]
struct Examined {
    groups: Arc<[FindingGroup]>,
    is_complete: bool,
    at: Moment,
}

/// The findings about one server, or about all together.
#[derive(Debug, Serialize)]
struct FindingGroup {
    server: Option<String>,
    findings: Vec<View>,
}

#[derive(Debug, Serialize)]
struct View {
    grade: &'static str,
    topic: &'static str,
    text: String,
    why: Option<String>,
    remedy: Option<String>,
}

impl Examination {
    pub(super) fn by(judge: Option<Arc<dyn Judge>>) -> Self {
        Self {
            judge,
            latest: Mutex::default(),
        }
    }

    /// Returns the document, after an examination unless there was one a moment ago.
    pub(super) async fn document(&self, desk: &Desk, shown: &Shown) -> String {
        let mut latest = self.latest.lock().await;
        let fresh = latest.as_ref().filter(|it| {
            let time = if it.is_complete { FRESH } else { INCOMPLETE };
            it.at.elapsed(SystemClock.now()) < time
        });
        let examined = if let Some(fresh) = fresh {
            fresh.clone()
        } else {
            let examined = self.examine(desk, shown).await;
            latest.insert(examined).clone()
        };
        drop(latest);
        let age_ms = moment::milliseconds(examined.at.elapsed(SystemClock.now()));
        let checked_ms = shown.server.now_ms().saturating_sub(age_ms);
        reply::text(&json!({
            "server": &shown.server,
            "checked": moment::text(checked_ms),
            "age_ms": age_ms,
            "servers": &*examined.groups,
        }))
    }

    async fn examine(&self, desk: &Desk, shown: &Shown) -> Examined {
        let inspector = match desk.inspector().await {
            Ok(inspector) => inspector,
            Err(reason) => {
                let unreachable = View {
                    grade: "broken",
                    topic: "connection",
                    text: reason,
                    why: None,
                    remedy: None,
                };
                return Examined {
                    groups: Arc::new([FindingGroup {
                        server: None,
                        findings: vec![unreachable],
                    }]),
                    is_complete: false,
                    at: SystemClock.now(),
                };
            }
        };
        let mut facts = Facts::unknown();
        facts.servers = inspector.servers().await;
        facts.locks = match shown.picture.clone() {
            Some(picture) => {
                let count = shown.count();
                Ok(desk.work.about(count, move || lock_facts(&picture)).await)
            }
            None => Err("they are being read".to_owned()),
        };
        let judge = self.judge.clone().unwrap_or_else(|| inspector.judge());
        Examined {
            groups: grouped(findings(&*judge, &facts), &facts).into(),
            is_complete: facts.locks.is_ok(),
            at: SystemClock.now(),
        }
    }
}

fn grouped(findings: Vec<Finding>, facts: &Facts) -> Vec<FindingGroup> {
    let servers = facts.servers.iter().map(|it| Some(it.server.clone()));
    let mut groups: Vec<_> = std::iter::once(None)
        .chain(servers)
        .map(|server| FindingGroup {
            server,
            findings: Vec::new(),
        })
        .collect();
    let mut sorted = findings;
    // The worst first, and those of one grade in their order.
    sorted.sort_by_key(|it| std::cmp::Reverse(it.severity));
    for finding in sorted {
        let mut same = groups.iter_mut();
        if let Some(group) = same.find(|group| group.server == finding.server) {
            group.findings.push(View {
                grade: finding.severity.name(),
                topic: finding.topic.name(),
                text: finding.what,
                why: finding.why,
                remedy: finding.advice,
            });
        }
    }
    groups.retain(|group| !group.findings.is_empty());
    groups
}

/// Returns the facts about the locks of a picture.
fn lock_facts(picture: &Picture) -> LockFacts {
    let mut facts = LockFacts::default();
    facts.held = picture.totals.held;
    facts.waiters = picture.totals.waiters;
    facts.processes = picture.process_count;
    for lock in picture.locks() {
        facts.dead_waiters += lock.waiters().filter(|it| !it.is_alive()).count();
        let Some(holder) = lock.holder() else {
            continue;
        };
        let key = || lock.key().to_owned();
        if holder.ttl_ms().is_none() {
            facts.without_ttl.push(key());
        }
        if holder.owner().is_none() {
            facts.foreign.push(key());
        }
        if lock.held_at() * 2 <= lock.servers() {
            facts.at_a_minority.push(key());
        }
    }
    let mut versions: BTreeMap<String, usize> = BTreeMap::new();
    for process in picture.processes.iter().flatten() {
        *versions.entry(process.version.clone()).or_default() += 1;
    }
    facts.versions = versions;
    facts
}

#[cfg(test)]
mod tests {
    use std::time::{SystemTime, UNIX_EPOCH};

    use dlock_admin::{
        HolderInfo, LockInfo, Overview, ProcessInfo, ServerReport, WaiterInfo, doctor::Topic,
    };
    use dlock_runtime::{
        random::SystemRandom,
        store::{ClientId, LockMode, OwnerId},
    };

    use super::*;
    use crate::picture::Draft;

    #[test]
    fn findings_are_grouped_by_server_with_the_worst_first() {
        let mut facts = Facts::unknown();
        facts.servers = ["a", "b"].map(ServerReport::new).into();
        let found = vec![
            Finding::ok(Topic::Version, "1").at("a"),
            Finding::risk(Topic::Load, "2").at("a"),
            Finding::note(Topic::Clock, "3"),
            Finding::risk(Topic::Memory, "4")
                .why("a reason")
                .advice("a remedy")
                .at("a"),
        ];
        let told = serde_json::to_value(grouped(found, &facts)).unwrap();
        let view = |grade: &str, topic: &str, text: &str| {
            json!({
                "grade": grade,
                "topic": topic,
                "text": text,
                "why": null,
                "remedy": null,
            })
        };
        let mut memory = view("risk", "memory", "4");
        memory["why"] = json!("a reason");
        memory["remedy"] = json!("a remedy");
        let of_a = [
            view("risk", "load", "2"),
            memory,
            view("ok", "version", "1"),
        ];
        assert_eq!(
            told,
            json!([
                { "server": null, "findings": [view("note", "clock", "3")] },
                { "server": "a", "findings": of_a },
            ])
        );
    }

    #[test]
    fn a_picture_tells_the_locks_that_are_unusual() {
        let client = ClientId::new(&SystemRandom);
        let owner = OwnerId::new(client, 1);
        let held = |key: &str, owner| {
            let mut holder = HolderInfo::new(owner, 1, SystemTime::now());
            holder.ttl = Some(Duration::from_secs(30));
            let mut lock = LockInfo::new(key);
            lock.add_holder(holder);
            lock
        };
        let mut endless = held("endless", Some(owner));
        endless.holder.as_mut().unwrap().ttl = None;
        let (mut half, mut most) = (held("half", Some(owner)), held("most", Some(owner)));
        (half.held_at, half.servers) = (2, 4);
        (most.held_at, most.servers) = (2, 3);
        let mut awaited = LockInfo::new("awaited");
        for is_alive in [true, false, true] {
            let mut waiter = WaiterInfo::new(owner, LockMode::Exclusive);
            waiter.is_alive = is_alive;
            awaited.add_waiter(waiter);
        }
        let plain = held("plain", Some(owner));
        let foreign = held("foreign", None);
        let mut draft = Draft::like(None);
        for lock in [&awaited, &plain, &endless, &foreign, &half, &most] {
            draft.add(lock, 1000);
        }
        let mut rest = Overview::default();
        rest.process_count = Some(4);
        rest.processes = ["1.0", "2.0", "1.0"]
            .map(|version| ProcessInfo::new(client, "host/1", UNIX_EPOCH, version))
            .into();
        let facts = lock_facts(&draft.finish(rest, 1000, Duration::ZERO));
        assert_eq!((facts.held, facts.waiters, facts.dead_waiters), (5, 3, 1));
        assert_eq!(facts.without_ttl, ["endless"]);
        assert_eq!(facts.foreign, ["foreign"]);
        assert_eq!(facts.at_a_minority, ["half"]);
        assert_eq!(facts.processes, Some(4));
        let versions = [("1.0".to_owned(), 2), ("2.0".to_owned(), 1)];
        assert_eq!(facts.versions, BTreeMap::from(versions));
    }
}
