//! Findings about servers of ZooKeeper.

use std::time::Duration;

use dlock_admin::{
    Denied, ServerReport,
    doctor::{
        Facts, Finding, Judge as _, LockFacts,
        Severity::{self, Broken, Note, Ok, Risk, Unknown},
        Topic, findings,
    },
};
use dlock_runtime::store::{StoreError, StoreErrorKind};

use super::ZooKeeperJudge;

const FINE: &[(&str, &str)] = &[
    ("zookeeper_version", "3.9.4"),
    ("mode", "follower"),
    ("has_leader", "true"),
    ("members", "1,2,3"),
    ("session_wanted_ms", "40000"),
    ("session_granted_ms", "40000"),
    ("session_shortest_ms", "4000"),
    ("tick_wanted_ms", "2000"),
    ("reads_locks", "true"),
    ("is_open", "false"),
    ("fence_base", "fine"),
];

fn server(id: &str, changes: &[(&str, &str)]) -> ServerReport {
    let own = [("member_id", id)];
    let mut report = ServerReport::new(format!("zookeeper://host-{id}:2181"));
    for &(name, value) in FINE.iter().chain(&own).chain(changes) {
        report.set(name, value);
    }
    // A test removes a field by setting it to an empty text.
    report.info.retain(|_, value| !value.is_empty());
    report.round_trips = vec![Duration::from_micros(900); 20];
    report
}

fn facts(servers: Vec<ServerReport>) -> Facts {
    let mut facts = Facts::unknown();
    facts.servers = servers;
    facts.locks = Result::Ok(LockFacts::default());
    facts
}

/// Checks the worst finding about a topic: its severity, and a part of its text.
#[track_caller]
fn check(facts: &Facts, topic: Topic, severity: Severity, part: &str) {
    let all = findings(&ZooKeeperJudge, facts);
    let about = all.iter().filter(|it| it.topic == topic);
    let worst = about.max_by_key(|it| it.severity);
    let worst = worst.unwrap_or_else(|| panic!("nothing about {topic:?}: {all:#?}"));
    let Finding {
        what, why, advice, ..
    } = worst;
    let text = [Some(what), why.as_ref(), advice.as_ref()];
    let text = text.map(|it| it.map_or("", String::as_str)).join(" | ");
    assert_eq!(worst.severity, severity, "{topic:?}: {text}");
    assert!(text.contains(part), "{topic:?}: {text}");
}

fn ensemble(changes: &[(&str, &str)]) -> Facts {
    let one = server("1", changes);
    facts(vec![one, server("2", &[]), server("3", &[])])
}

#[test]
fn a_server_is_judged_by_what_it_tells() {
    for (changes, topic, severity, part) in [
        (&[][..], Topic::Version, Ok, "ZooKeeper 3.9.4"),
        (
            &[("zookeeper_version", "3.10.1")],
            Topic::Version,
            Ok,
            "3.10.1",
        ),
        (
            &[("zookeeper_version", "3.4.14")],
            Topic::Version,
            Broken,
            "too old",
        ),
        (
            &[("zookeeper_version", ""), ("version_at_least", "3.7")],
            Topic::Version,
            Note,
            "3.7 or later; the exact version and the mode are unknown",
        ),
        (&[], Topic::Role, Ok, "follower"),
        (&[("mode", "standalone")], Topic::Role, Note, "stands alone"),
        (&[], Topic::Sessions, Ok, "the shortest session is 4s"),
        (
            &[("session_granted_ms", "20000")],
            Topic::Sessions,
            Broken,
            "write `session=20000ms`",
        ),
        (
            &[("session_shortest_ms", "6000")],
            Topic::Sessions,
            Unknown,
            "may be 3s, more than the 2s",
        ),
        (
            &[("session_shortest_ms", "")],
            Topic::Sessions,
            Unknown,
            "`tickTime` is unknown",
        ),
        (&[], Topic::Permissions, Ok, "all permissions"),
        (&[("is_open", "true")], Topic::Permissions, Note, "no user"),
        (&[("is_open", "")], Topic::Permissions, Note, "no nodes yet"),
        (&[("fence_base", "missing")], Topic::Locks, Note, "no base"),
        (
            &[("fence_base", "hidden")],
            Topic::Locks,
            Unknown,
            "another user",
        ),
        (
            &[("fence_base", "foreign")],
            Topic::Locks,
            Broken,
            "locks are refused",
        ),
        (&[], Topic::Latency, Ok, "sufficient"),
    ] {
        let one = facts(vec![server("1", changes)]);
        check(&one, topic, severity, part);
    }
}

#[test]
fn a_version_with_known_faults_is_a_risk() {
    let [log, queue, early, gap] = [4394, 4712, 4785, 4925];
    for (version, faults) in [
        ("3.5.10", &[early][..]),
        ("3.7.2", &[early]),
        ("3.8.0", &[log, queue, early]),
        ("3.8.4", &[log, queue, early]),
        ("3.8.5", &[log, queue]),
        ("3.9.1", &[log, queue, early]),
        ("3.9.2", &[log, queue]),
        ("3.9.3", &[gap]),
    ] {
        let changes = [("zookeeper_version", version)];
        let one = facts(vec![server("1", &changes)]);
        let numbers = faults.iter().map(|it| format!("ZOOKEEPER-{it}"));
        let all = numbers.collect::<Vec<_>>().join(", ") + ":";
        let what = format!("ZooKeeper {version} can lose confirmed writes");
        for part in [&what, &all, "update to 3.9.4 or later"] {
            check(&one, Topic::Version, Risk, part);
        }
    }
    for version in ["3.9.4", "3.9.5", "3.10.0", "4.0.0"] {
        let changes = [("zookeeper_version", version)];
        let one = facts(vec![server("1", &changes)]);
        check(&one, Topic::Version, Ok, version);
    }
}

#[test]
fn a_user_that_only_looks_lacks_a_permission_that_can_be_accepted() {
    let mut reader = ensemble(&[]);
    reader.servers[0].denied.push(Denied::new(
        "use the login of the processes that lock",
        "acquiring and releasing locks",
        true,
    ));
    let part = "may not write the nodes of locks";
    check(&reader, Topic::Permissions, Broken, part);
    check(&reader, Topic::Permissions, Broken, "--accept permissions");
    reader.servers[0].denied[0].is_required = false;
    check(&reader, Topic::Permissions, Risk, "use the login");
}

#[test]
fn servers_are_judged_together() {
    let part = "3 of 3 members in the URL answer";
    check(&ensemble(&[]), Topic::Quorum, Ok, part);
    check(
        &ensemble(&[("members", "1,2,3,4,5")]),
        Topic::Quorum,
        Note,
        "does not name 2 members",
    );
    check(
        &ensemble(&[("member_id", "2"), ("members", "2,3")]),
        Topic::Quorum,
        Note,
        "zookeeper://host-1:2181 and zookeeper://host-2:2181 are one member",
    );
    let clocks = findings(&ZooKeeperJudge, &ensemble(&[]));
    let clocks = clocks.iter().filter(|it| it.topic == Topic::Clock);
    assert_eq!(
        clocks.count(),
        0,
        "no lease depends on a clock of ZooKeeper"
    );
}

#[test]
fn locks_need_a_member_that_may_be_among_a_majority() {
    let failed = |kind| {
        let mut server = server("1", &[]);
        server.failure = Some(StoreError::new(kind, "no answer"));
        facts(vec![server])
    };
    assert!(ZooKeeperJudge.is_available(&ensemble(&[("has_leader", "false")])));
    assert!(ZooKeeperJudge.is_available(&failed(StoreErrorKind::Denied)));
    assert!(!ZooKeeperJudge.is_available(&failed(StoreErrorKind::Unreachable)));
    let alone = facts(vec![server("1", &[("has_leader", "false")])]);
    assert!(!ZooKeeperJudge.is_available(&alone));
}
