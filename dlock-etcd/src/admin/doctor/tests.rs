//! Findings about members of etcd.

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

use super::{EtcdJudge, shown};

const FINE: &[(&str, &str)] = &[
    ("etcd_version", "3.5.21"),
    ("cluster_id", "c"),
    ("has_leader", "true"),
    ("is_leader", "false"),
    ("is_learner", "false"),
    ("members", "1,2,3"),
    ("revision", "77"),
    ("db_size", "1048576"),
    ("db_size_in_use", "524288"),
    ("db_size_quota", "2147483648"),
    ("alarms", ""),
    ("reads_locks", "true"),
];

fn member(id: &str, changes: &[(&str, &str)]) -> ServerReport {
    let own = [("member_id", id)];
    let mut report = ServerReport::new(format!("etcd://host-{id}:2379"));
    for &(name, value) in FINE.iter().chain(&own).chain(changes) {
        report.set(name, value);
    }
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
    let all = findings(&EtcdJudge, facts);
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
    let one = member("1", changes);
    facts(vec![one, member("2", &[]), member("3", &[])])
}

#[test]
fn a_member_is_judged_by_what_it_tells() {
    for (changes, topic, severity, part) in [
        (&[][..], Topic::Version, Ok, "etcd 3.5.21"),
        (&[("is_too_old", "true")], Topic::Version, Broken, "too old"),
        (
            &[("leases_fixed_in", "3.5.13 or later")],
            Topic::Version,
            Risk,
            "update to 3.5.13 or later",
        ),
        (
            &[("is_torn_by_kills", "true")],
            Topic::Persistence,
            Risk,
            "other data",
        ),
        (&[], Topic::Role, Ok, "follower"),
        (&[("is_learner", "true")], Topic::Role, Broken, "learner"),
        (&[("has_leader", "false")], Topic::Role, Broken, "no leader"),
        (&[("is_proxied", "true")], Topic::Role, Risk, "gRPC proxy"),
        (
            &[("alarms", "NOSPACE")],
            Topic::Database,
            Broken,
            "etcdctl compact 77",
        ),
        (
            &[("alarms", "CORRUPT")],
            Topic::Persistence,
            Broken,
            "disagree",
        ),
        (
            &[],
            Topic::Database,
            Ok,
            "1.0 MiB, of a quota of 2.0 GiB; 512.0 KiB in use",
        ),
        (
            &[("db_size_quota", "1200000")],
            Topic::Database,
            Risk,
            "etcdctl defrag",
        ),
        (
            &[("db_size_quota", "1200000"), ("db_size_in_use", "1000000")],
            Topic::Database,
            Risk,
            "raise `--quota-backend-bytes`",
        ),
        (
            &[("db_size_quota", ""), ("db_size", "2000000000")],
            Topic::Database,
            Unknown,
            "the quota could not be read",
        ),
        (
            &[("db_size", "")],
            Topic::Database,
            Unknown,
            "could not be read",
        ),
        (&[], Topic::Permissions, Ok, "all permissions"),
        (&[], Topic::Latency, Ok, "sufficient"),
    ] {
        check(&ensemble(changes), topic, severity, part);
    }
}

#[test]
fn a_user_that_only_looks_lacks_a_permission_that_can_be_accepted() {
    let mut reader = ensemble(&[]);
    reader.servers[0].denied.push(Denied::new(
        "etcdctl role grant-permission ROLE readwrite dlock/ --prefix",
        "acquiring and releasing locks",
        true,
    ));
    check(&reader, Topic::Permissions, Broken, "--accept permissions");
    reader.servers[0].denied[0].is_required = false;
    check(
        &reader,
        Topic::Permissions,
        Risk,
        "readwrite dlock/ --prefix",
    );
}

#[test]
fn members_are_judged_together() {
    check(
        &ensemble(&[]),
        Topic::Quorum,
        Ok,
        "3 of 3 members in the URL answer",
    );
    let mut even = ensemble(&[("members", "1,2,3,4")]);
    even.servers.push(member("4", &[]));
    check(&even, Topic::Quorum, Note, "an odd number");
    let alone = facts(vec![member("1", &[("members", "1")])]);
    check(&alone, Topic::Quorum, Note, "three or five members");
    check(
        &ensemble(&[("members", "1,2,3,4,5")]),
        Topic::Quorum,
        Note,
        "does not name 2 members",
    );
    check(
        &ensemble(&[("cluster_id", "d")]),
        Topic::Quorum,
        Broken,
        "2 ensembles",
    );
    check(
        &ensemble(&[("member_id", "2"), ("members", "2,3")]),
        Topic::Quorum,
        Note,
        "etcd://host-1:2379 and etcd://host-2:2379 are one member",
    );
    let mut silent = ensemble(&[]);
    for (index, part) in [(2, "if one more member fails"), (1, "if one more")] {
        let failure = StoreError::new(StoreErrorKind::Unreachable, "no answer");
        silent.servers[index].failure = Some(failure);
        check(&silent, Topic::Quorum, Risk, part);
        check(&silent, Topic::Connection, Broken, "no answer");
    }
    silent.servers[0] = member("1", &[("has_leader", "false")]);
    check(&silent, Topic::Quorum, Broken, "none has a leader");
    let clocks = findings(&EtcdJudge, &ensemble(&[]));
    let clocks = clocks.iter().filter(|it| it.topic == Topic::Clock);
    assert_eq!(clocks.count(), 0, "no lease depends on a clock of etcd");
}

#[test]
fn locks_need_a_member_that_may_be_among_a_majority() {
    let failed = |kind| {
        let mut server = member("1", &[]);
        server.failure = Some(StoreError::new(kind, "no answer"));
        facts(vec![server])
    };
    assert!(EtcdJudge.is_available(&ensemble(&[("has_leader", "false")])));
    assert!(EtcdJudge.is_available(&failed(StoreErrorKind::Denied)));
    assert!(!EtcdJudge.is_available(&failed(StoreErrorKind::Unreachable)));
    let alone = facts(vec![member("1", &[("has_leader", "false")])]);
    assert!(!EtcdJudge.is_available(&alone));
}

#[test]
fn each_fault_of_a_member_is_a_finding_of_its_own() {
    let count = |changes: &[(&str, &str)], topic: Topic, severity: Severity| {
        let all = findings(&EtcdJudge, &facts(vec![member("1", changes)]));
        let found = all.iter().filter(|it| it.topic == topic);
        found.filter(|it| it.severity == severity).count()
    };
    let both = [("alarms", "NOSPACE,CORRUPT")];
    assert_eq!(count(&both, Topic::Database, Broken), 1);
    assert_eq!(count(&both, Topic::Persistence, Broken), 1);
    // A version with a fault is not called sound as well.
    let faulty = [("leases_fixed_in", "later"), ("is_torn_by_kills", "true")];
    assert_eq!(count(&faulty, Topic::Version, Risk), 1);
    assert_eq!(count(&faulty, Topic::Persistence, Risk), 1);
    for changes in [&faulty[..], &faulty[..1], &faulty[1..]] {
        assert_eq!(count(changes, Topic::Version, Ok), 0, "{changes:?}");
    }
    assert_eq!(count(&[], Topic::Version, Ok), 1);
    let leader = facts(vec![member("1", &[("is_leader", "true")])]);
    check(&leader, Topic::Role, Ok, "leader");
    assert_eq!(EtcdJudge.layout(), Some("ensemble"));
}

#[test]
fn a_size_is_shown_in_the_largest_unit_of_which_it_has_one() {
    for (bytes, expected) in [
        (0, "0.0 KiB"),
        (1536, "1.5 KiB"),
        ((1 << 20) - 1024, "1023.0 KiB"),
        (1 << 20, "1.0 MiB"),
        (3 << 30, "3.0 GiB"),
        (5 << 40, "5.0 TiB"),
        (5 << 50, "5120.0 TiB"),
    ] {
        assert_eq!(shown(bytes), expected);
    }
}
