//! Findings about servers of ZooKeeper.

use std::time::Duration;

use crate::admin::doctor::facts::{Arrangement, Facts, Missing, ServerFacts};

use super::{
    super::super::finding::{
        Severity::{Broken, Note, Ok, Risk, Unknown},
        Topic,
    },
    check, facts,
};

const FINE: &[(&str, &str)] = &[
    ("product", "ZooKeeper"),
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

fn server(id: &str, changes: &[(&str, &str)]) -> ServerFacts {
    let own = [("member_id", id)];
    let told = FINE.iter().chain(&own).chain(changes);
    let mut info: std::collections::BTreeMap<_, _> = told
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    // A test removes a field by setting it to an empty text.
    info.retain(|_, value| !value.is_empty());
    ServerFacts {
        server: format!("zookeeper://host-{id}:2181"),
        info,
        round_trips: vec![Duration::from_micros(900); 20],
        ..ServerFacts::default()
    }
}

fn ensemble(changes: &[(&str, &str)]) -> Facts {
    let one = server("1", changes);
    facts(
        Arrangement::Ensemble,
        vec![one, server("2", &[]), server("3", &[])],
    )
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
        let one = facts(Arrangement::Ensemble, vec![server("1", changes)]);
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
        let one = facts(Arrangement::Ensemble, vec![server("1", &changes)]);
        let numbers = faults.iter().map(|it| format!("ZOOKEEPER-{it}"));
        let all = numbers.collect::<Vec<_>>().join(", ") + ":";
        let what = format!("ZooKeeper {version} can lose confirmed writes");
        for part in [&what, &all, "update to 3.9.4 or later"] {
            check(&one, Topic::Version, Risk, part);
        }
    }
    for version in ["3.9.4", "3.9.5", "3.10.0", "4.0.0"] {
        let changes = [("zookeeper_version", version)];
        let one = facts(Arrangement::Ensemble, vec![server("1", &changes)]);
        check(&one, Topic::Version, Ok, version);
    }
}

#[test]
fn a_user_that_only_looks_lacks_a_permission_that_can_be_accepted() {
    let mut reader = ensemble(&[]);
    reader.servers[0].denied.push(Missing {
        rule: "use the login of the processes that lock".to_owned(),
        purpose: "acquiring and releasing locks".to_owned(),
        is_required: true,
    });
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
    let clocks = super::judge(&ensemble(&[]));
    let clocks = clocks.iter().filter(|it| it.topic == Topic::Clock);
    assert_eq!(
        clocks.count(),
        0,
        "no lease depends on a clock of ZooKeeper"
    );
}
