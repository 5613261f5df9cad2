//! Tests of the checks that hold for every store.

mod together;

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use dlock_runtime::{
    random::SystemRandom,
    store::{ClientId, LockMode, OwnerId, StoreError, StoreErrorKind},
};

use super::{
    AnyStore, Facts, Finding, Judge as _, Known, LockFacts, LockRules, Severity, Topic, findings,
    latency, locks, permissions, permissions_on,
};
use crate::model::{
    ClockReading, Denied, HolderInfo, LockInfo, Overview, ProcessInfo, ServerReport, WaiterInfo,
};

/// The severities and the texts of findings.
fn told(findings: &[Finding]) -> Vec<(Severity, &str)> {
    let told = findings.iter().map(|it| (it.severity, it.what.as_str()));
    told.collect()
}

fn failure(kind: StoreErrorKind) -> StoreError {
    StoreError::new(kind, "down")
}

#[test]
fn round_trips_are_summed_up_by_their_median_and_their_slowest_hundredth() {
    let of = |round_trips: Vec<Duration>, ttl| {
        let mut facts = Facts::unknown();
        facts.ttl = ttl;
        let mut report = ServerReport::new("a");
        report.round_trips = round_trips;
        latency(&facts, &report)
    };
    let minute = Duration::from_secs(60);
    assert_eq!(of(Vec::new(), minute), None);
    let us = Duration::from_micros;
    for (round_trips, ttl, severity, what) in [
        (
            (1..=200).rev().map(us).collect(),
            Duration::from_millis(100),
            Severity::Ok,
            "median 101 µs, p99 198 µs, max 200 µs (200 samples): sufficient for TTLs from 100 ms",
        ),
        (
            vec![us(2_000), us(5_500), us(9_999)],
            us(9_999 * 20),
            Severity::Ok,
            "median 5.5 ms, p99 9.9 ms, max 9.9 ms (3 samples): sufficient for TTLs from 199 ms",
        ),
        (
            vec![us(2_000)],
            Duration::from_millis(99),
            Severity::Risk,
            "median 2.0 ms, p99 2.0 ms, max 2.0 ms (1 samples)",
        ),
        (
            vec![us(999_999), us(12_000)],
            minute,
            Severity::Ok,
            "median 999 ms, p99 999 ms, max 999 ms (2 samples): sufficient for TTLs from 19 s",
        ),
        (
            vec![us(12_000_000)],
            minute * 60,
            Severity::Risk,
            "median 12 s, p99 12 s, max 12 s (1 samples)",
        ),
    ] {
        let found = of(round_trips, ttl).expect("some were measured");
        let what = format!("round trip: {what}");
        assert_eq!((found.severity, found.what), (severity, what));
    }
    let slow = of(vec![Duration::from_secs(1)], Duration::from_secs(1)).unwrap();
    assert_eq!(
        slow.advice.as_deref(),
        Some("check the load of the server, swapping, and network problems")
    );
}

#[test]
fn the_permission_to_lock_is_worth_more_than_that_to_read() {
    let mut report = ServerReport::new("a");
    assert!(permissions(&report).is_empty());
    assert!(permissions_on(&report, "nodes", false).is_empty());
    assert_eq!(
        told(&permissions_on(&report, "nodes", true)),
        [(
            Severity::Ok,
            "the user has all permissions that locks and operators need"
        )]
    );
    report.denied = vec![
        Denied::new("grant read", "listing", false),
        Denied::new("grant write", "acquiring", true),
        Denied::new("grant delete", "releasing", true),
    ];
    let on_nodes = permissions_on(&report, "nodes", true);
    assert_eq!(
        told(&on_nodes),
        [
            (
                Severity::Broken,
                "the user may not write the nodes of locks"
            ),
            (Severity::Risk, "the user may not read the nodes of locks"),
        ]
    );
    let anywhere = permissions(&report);
    assert_eq!(
        told(&anywhere),
        [
            (
                Severity::Broken,
                "the user cannot lock without some permissions"
            ),
            (
                Severity::Note,
                "the user lacks permissions that operators need"
            ),
        ]
    );
    for found in [on_nodes, anywhere] {
        let whys = found.iter().map(|it| it.why.as_deref().unwrap());
        let advice = found.iter().map(|it| it.advice.as_deref().unwrap());
        assert_eq!(
            whys.collect::<Vec<_>>(),
            [
                "it is needed for acquiring, releasing. Users that only inspect locks do not need \
                 it: suppress this with --accept permissions",
                "it is needed for listing",
            ]
        );
        assert_eq!(
            advice.collect::<Vec<_>>(),
            ["grant write; grant delete", "grant read"]
        );
    }
}

#[test]
fn a_summary_names_the_locks_that_are_unusual() {
    let now = SystemTime::now();
    let client = ClientId::new(&SystemRandom);
    let owner = OwnerId::new(client, 1);
    let held = |key: &str, owner| {
        let mut holder = HolderInfo::new(owner, 1, now);
        holder.ttl = Some(Duration::from_secs(30));
        holder.since = Some(now - Duration::from_secs(1_800));
        let mut lock = LockInfo::new(key);
        lock.add_holder(holder);
        lock
    };
    let mut long = held("long", Some(owner));
    let mut endless = held("endless", Some(owner));
    long.holder.as_mut().unwrap().since = Some(now - Duration::from_secs(7_200));
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
    awaited.is_half_used_up = true;
    let processes = ["1.0", "2.0", "1.0"];
    let processes = processes.map(|it| ProcessInfo::new(client, "host/1", UNIX_EPOCH, it));
    let seen = Overview {
        locks: vec![
            held("plain", Some(owner)),
            long,
            endless,
            held("foreign", None),
            half,
            most,
            awaited,
        ],
        processes: processes.into(),
        process_count: Some(4),
    };
    let facts = LockFacts::of(&seen);
    assert_eq!((facts.held, facts.waiters, facts.dead_waiters), (6, 3, 1));
    let long: Vec<_> = facts.held_long.iter().map(|(key, _)| &**key).collect();
    assert_eq!(long, ["long"]);
    assert_eq!(facts.without_ttl, ["endless"]);
    assert_eq!(facts.foreign, ["foreign"]);
    assert_eq!(facts.at_a_minority, ["half"]);
    assert_eq!(facts.half_used_up, ["awaited"]);
    assert_eq!(facts.processes, Some(4));
    let versions = [("1.0".to_owned(), 2), ("2.0".to_owned(), 1)];
    assert_eq!(facts.versions, BTreeMap::from(versions));
}

#[test]
fn a_finding_counts_unless_it_is_one_that_is_accepted() {
    use Severity::{Broken, Note, Ok, Risk, Unknown};
    let (load, permissions) = (Topic::Load, Topic::Permissions);
    for (severity, topic, known, accepted, counts) in [
        (Ok, load, &["load"][..], false, false),
        (Note, load, &["load", "unknown"], false, false),
        (Note, load, &[], false, false),
        (Risk, load, &["load"], true, false),
        (Risk, load, &["locks", "unknown"], false, true),
        (Unknown, load, &["load"], true, false),
        (Unknown, load, &["unknown"], true, false),
        (Unknown, load, &["locks"], false, true),
        (Broken, load, &["load", "unknown"], false, true),
        (Broken, permissions, &["permissions"], true, false),
        (Broken, permissions, &["unknown", "load"], false, true),
    ] {
        let known: Vec<_> = known.iter().map(|it| Known::named(it).unwrap()).collect();
        let mut finding = Finding::new(severity, topic, "");
        finding.accept(&known);
        let found = (finding.accepted, finding.counts());
        assert_eq!(found, (accepted, counts), "{severity:?} {known:?}");
    }
    for name in Known::names() {
        assert!(Known::named(name).is_ok(), "{name}");
    }
    assert_eq!(
        Known::named("loud"),
        Err("there is no topic `loud`".to_owned())
    );
}

#[test]
fn processes_are_counted_if_the_store_can_tell() {
    let mut facts = Facts::unknown();
    for (processes, what) in [
        (None, "0 locks held, 0 waiters"),
        (Some(0), "0 locks held, 0 waiters, 0 processes"),
        (Some(1), "0 locks held, 0 waiters, 1 process"),
        (Some(2), "0 locks held, 0 waiters, 2 processes"),
    ] {
        facts.locks = Ok(LockFacts {
            processes,
            ..LockFacts::default()
        });
        let found = locks(&facts, LockRules::default());
        assert_eq!(told(&found), [(Severity::Ok, what)]);
    }
}

#[test]
fn a_store_without_checks_of_its_own_has_the_usual_ones() {
    let mut facts = Facts::unknown();
    assert_eq!(AnyStore.layout(), None);
    assert!(!AnyStore.is_available(&facts), "there is no server");
    facts.locks = Ok(LockFacts::default());
    let mut fine = ServerReport::new("ram://a");
    fine.clock = Some(ClockReading::new(0, Duration::from_micros(50)));
    fine.round_trips = vec![Duration::from_micros(100)];
    fine.denied = vec![Denied::new("grant read", "listing", false)];
    let mut down = fine.clone();
    (down.server, down.clock) = ("ram://b".to_owned(), None);
    down.failure = Some(failure(StoreErrorKind::TimedOut));
    facts.servers = vec![down, fine];
    let found = findings(&AnyStore, &facts);
    let places: Vec<_> = found
        .iter()
        .map(|it| (it.server.as_deref(), it.topic, it.severity))
        .collect();
    let (a, b) = (Some("ram://a"), Some("ram://b"));
    assert_eq!(
        places,
        [
            (a, Topic::Clock, Severity::Ok),
            (None, Topic::Locks, Severity::Ok),
            (b, Topic::Connection, Severity::Broken),
            (a, Topic::Permissions, Severity::Note),
            (a, Topic::Latency, Severity::Ok),
        ]
    );
    assert!(AnyStore.is_available(&facts), "one of them answers");
    facts.servers.truncate(1);
    assert!(!AnyStore.is_available(&facts));
    // It has answered.
    facts.servers[0].failure = Some(failure(StoreErrorKind::Denied));
    assert!(AnyStore.is_available(&facts));
}
