//! Findings about one server, and about the locks in it.

use std::time::Duration;

use super::{Layout, check, facts, judge, no_answer, server, single};
use crate::{
    doctor::{LockFacts, Severity, Topic},
    model::Denied,
};

#[test]
fn a_server_as_it_should_be_has_nothing_worse_than_notes() {
    let findings = judge(&single(&[]));
    let bad: Vec<_> = findings.iter().filter(|it| it.counts()).collect();
    assert!(bad.is_empty(), "{bad:#?}");
    let unknown: Vec<_> = findings
        .iter()
        .filter(|it| it.severity == Severity::Unknown)
        .collect();
    assert!(unknown.is_empty(), "{unknown:#?}");
}

#[test]
fn version_and_role() {
    use Severity::{Broken, Ok, Unknown};
    use Topic::{Role, Version};
    for (changes, topic, severity, contains) in [
        (
            &[("redis_version", "6.0.16")][..],
            Version,
            Broken,
            "Redis 6.2 or later",
        ),
        (
            &[("redis_version", "5.0.7")],
            Version,
            Broken,
            "5.0.7 is too old",
        ),
        (&[("redis_version", "6.2.14")], Version, Ok, "Redis 6.2.14"),
        (&[("redis_version", "10.0.0")], Version, Ok, "Redis 10.0.0"),
        (
            &[("redis_version", "7.2.4"), ("valkey_version", "9.1.0")],
            Version,
            Ok,
            "Valkey 9.1.0",
        ),
        (&[("redis_version", "")], Version, Unknown, "no version"),
        (
            &[("redis_version", "unstable")],
            Version,
            Unknown,
            "`unstable`",
        ),
        (&[("role", "slave")], Role, Broken, "address of the master"),
        (&[("role", "")], Role, Unknown, "no role"),
        (
            &[("cluster_enabled", "1")],
            Role,
            Broken,
            "redis-cluster://",
        ),
        (
            &[("redis_mode", "sentinel")],
            Role,
            Broken,
            "redis-sentinel://",
        ),
        (&[("loading", "1")], Role, Broken, "loading"),
    ] {
        check(&single(changes), topic, severity, contains);
    }
}

#[test]
fn load() {
    use Severity::{Note, Ok, Risk, Unknown};
    use Topic::Load;
    for (changes, topic, severity, contains) in [
        (
            &[("connected_clients", "7999")][..],
            Load,
            Ok,
            "7999 of 10000 clients, 5 commands",
        ),
        (&[("connected_clients", "8000")], Load, Risk, "maxclients"),
        (&[("maxclients", "")], Load, Ok, "10 clients"),
        (&[("maxclients", "0")], Load, Ok, "10 clients"),
        (&[("rejected_connections", "0")], Load, Ok, "clients"),
        (
            &[("connected_clients", "")],
            Load,
            Unknown,
            "number of clients",
        ),
        (
            &[("rejected_connections", "3")],
            Load,
            Note,
            "3 connections refused",
        ),
        (
            &[("rejected_connections", "3")],
            Load,
            Note,
            "or the server is in its protected mode",
        ),
        (&[("latest_fork_usec", "99999")], Load, Ok, "clients"),
        (&[("latest_fork_usec", "100000")], Load, Note, "100 ms"),
        (&[("latest_fork_usec", "9999999")], Load, Note, "9999 ms"),
        (
            &[("latest_fork_usec", "10000000")],
            Load,
            Risk,
            "a third of the TTL",
        ),
        (
            &[("cmdstat_keys", "calls=2,usec=19998,usec_per_call=9999.00")],
            Load,
            Ok,
            "clients",
        ),
        (
            &[
                ("cmdstat_get", "calls=9,usec=9,usec_per_call=1.00"),
                ("cmdstat_keys", "calls=2,usec=20,usec_per_call=10000.00"),
            ],
            Load,
            Note,
            "`KEYS` takes 10 ms per call",
        ),
        (
            &[("cmdstat_eval", "calls=1,usec_per_call=9999000.00")],
            Load,
            Note,
            "`EVAL` takes 9999 ms per call",
        ),
        (
            &[("cmdstat_eval", "calls=1,usec_per_call=10000000.00")],
            Load,
            Risk,
            "SLOWLOG",
        ),
    ] {
        check(&single(changes), topic, severity, contains);
    }
}

#[test]
fn without_info_nothing_is_claimed() {
    let mut silent = server("a:1", &[]);
    silent.info.clear();
    let facts = facts(Layout::Single, vec![silent]);
    check(
        &facts,
        Topic::Permissions,
        Severity::Unknown,
        "ACL SETUSER app +info",
    );
    let findings = judge(&facts);
    let of_info = [
        Topic::Version,
        Topic::Role,
        Topic::Eviction,
        Topic::Persistence,
    ];
    assert!(
        !findings.iter().any(|it| of_info.contains(&it.topic)),
        "{findings:#?}"
    );
}

#[test]
fn a_server_without_an_answer_is_broken_and_nothing_else() {
    let mut dead = server("a:1", &[]);
    dead.failure = Some(no_answer("the server cannot be reached"));
    let facts = facts(Layout::Single, vec![dead]);
    check(
        &facts,
        Topic::Connection,
        Severity::Broken,
        "cannot be reached",
    );
    let about_it = judge(&facts).into_iter().filter(|it| it.server.is_some());
    assert_eq!(about_it.count(), 1);
}

#[test]
fn scripts_that_cannot_publish_are_a_note() {
    let mut sharded = server("a:1", &[]);
    sharded.unpublished = Some("another slot".to_owned());
    let of_messages = |sharded| {
        let findings = judge(&facts(Layout::Single, vec![sharded])).into_iter();
        let mut findings = findings.filter(|it| it.what.contains("scripts cannot publish"));
        findings.next()
    };
    let finding = of_messages(sharded).expect("there is a finding");
    assert_eq!(
        (finding.severity, finding.topic),
        (Severity::Note, Topic::Latency)
    );
    assert!(finding.what.ends_with("(another slot)"), "{}", finding.what);
    assert_eq!(of_messages(server("a:1", &[])), None);
}

#[test]
fn missing_permissions_come_with_the_words_that_grant_them() {
    let missing = |rule: &str, is_required| Denied::new(rule, "locking", is_required);
    let mut bare = server("a:1", &[]);
    bare.denied = vec![
        missing("+publish", true),
        missing("+info", false),
        missing("~dlock:*", true),
    ];
    let facts = facts(Layout::Single, vec![bare]);
    check(
        &facts,
        Topic::Permissions,
        Severity::Broken,
        "ACL SETUSER app +publish ~dlock:*",
    );
    // Settings with the same purpose have one finding.
    check(
        &facts,
        Topic::Permissions,
        Severity::Broken,
        "+publish ~dlock:*: locking. Users that only inspect",
    );
    let notes: Vec<_> = judge(&facts)
        .into_iter()
        .filter(|it| it.topic == Topic::Permissions && it.severity == Severity::Note)
        .collect();
    assert_eq!(notes.len(), 1);
    assert_eq!(notes[0].advice.as_deref(), Some("ACL SETUSER app +info"));
}

#[test]
fn latency_is_judged_by_the_ttl() {
    use Severity::{Ok, Risk, Unknown};
    let of = |ms: u64, ttl_ms| {
        let mut facts = single(&[]);
        facts.servers[0].round_trips[7] = Duration::from_millis(ms);
        facts.ttl = Duration::from_millis(ttl_ms);
        facts
    };
    check(
        &of(1, 100),
        Topic::Latency,
        Ok,
        "PING: median 100 µs, p99 1.0 ms",
    );
    check(&of(10, 30_000), Topic::Latency, Ok, "TTLs from 200 ms");
    check(
        &of(10, 199),
        Topic::Latency,
        Risk,
        "TTLs below 200 ms are risky",
    );
    check(
        &of(1_000, 3_600_000),
        Topic::Latency,
        Risk,
        "response_timeout",
    );
    let mut silent = single(&[]);
    silent.servers[0].round_trips.clear();
    check(&silent, Topic::Latency, Unknown, "+ping");
}

#[test]
fn locks_on_the_servers_are_counted() {
    use Severity::{Note, Ok, Risk, Unknown};
    let with = |locks| {
        let mut facts = single(&[]);
        facts.locks = Result::Ok(locks);
        facts
    };
    let keys = |count: usize| (1..=count).map(|it| format!("k:{it}")).collect::<Vec<_>>();
    let some = LockFacts {
        held: 1,
        waiters: 2,
        processes: Some(3),
        versions: [("0.1.0".to_owned(), 3)].into(),
        ..LockFacts::default()
    };
    check(
        &with(some.clone()),
        Topic::Locks,
        Ok,
        "1 lock held, 2 waiters, 3 processes",
    );
    let dead_waiters = 1;
    check(
        &with(LockFacts {
            dead_waiters,
            ..some.clone()
        }),
        Topic::Locks,
        Note,
        "1 waiter stopped polling",
    );
    let endless = LockFacts {
        without_ttl: keys(5),
        ..some.clone()
    };
    check(
        &with(endless),
        Topic::Locks,
        Risk,
        "`k:1`, `k:2`, `k:3` and 2 more",
    );
    let foreign = LockFacts {
        foreign: keys(1),
        ..some.clone()
    };
    check(
        &with(foreign.clone()),
        Topic::Locks,
        Risk,
        "not written by dlock: `k:1`",
    );
    let mut raw = with(foreign);
    raw.judge.raw_keys = true;
    check(&raw, Topic::Locks, Note, "--raw-keys");
    let partly = LockFacts {
        at_a_minority: keys(1),
        ..some.clone()
    };
    check(&with(partly), Topic::Locks, Note, "minority");
    let half = LockFacts {
        half_used_up: keys(1),
        ..some.clone()
    };
    check(&with(half), Topic::Locks, Risk, "`k:1`");
    let versions = [("0.1.0".to_owned(), 3), ("0.2.0".to_owned(), 1)].into();
    check(
        &with(LockFacts { versions, ..some }),
        Topic::Locks,
        Note,
        "0.1.0 (3), 0.2.0 (1)",
    );
    let mut unseen = single(&[]);
    unseen.locks = Err("NOPERM".to_owned());
    check(&unseen, Topic::Locks, Unknown, "NOPERM");
    let mut dead = unseen;
    dead.servers[0].failure = Some(no_answer("refused"));
    let about = judge(&dead)
        .into_iter()
        .filter(|it| it.topic == Topic::Locks);
    assert_eq!(about.count(), 0, "the missing answer has one finding");
}

#[test]
fn a_user_who_may_not_list_locks_is_that_of_a_service() {
    let mut facts = single(&[]);
    facts.locks = Err("NOPERM".to_owned());
    check(&facts, Topic::Locks, Severity::Unknown, "NOPERM");
    facts.servers[0].denied = vec![Denied::new("+scan", "lets operators list locks", false)];
    check(
        &facts,
        Topic::Locks,
        Severity::Note,
        "as the user of an operator",
    );
}

#[test]
fn a_server_without_a_password_is_open_to_all() {
    let mut facts = single(&[]);
    check(&facts, Topic::Permissions, Severity::Ok, "all permissions");
    facts.judge.is_open = true;
    let what = "the server asks for no password";
    check(&facts, Topic::Permissions, Severity::Note, what);
    facts.servers[0].failure = Some(no_answer("NOAUTH"));
    let open = judge(&facts);
    assert!(open.iter().all(|it| it.what != what), "{open:#?}");
}

#[test]
fn locks_that_are_held_for_long_are_named() {
    let mut facts = single(&[]);
    let minutes = |it| Duration::from_secs(60 * it);
    facts.locks = Ok(LockFacts {
        held_long: (1..=5_u64)
            .map(|it| (format!("job:{it}"), minutes(60 + it)))
            .collect(),
        ..LockFacts::default()
    });
    let what = "`job:5` for 65 min, `job:4` for 64 min, `job:3` for 63 min and 2 more";
    check(&facts, Topic::Locks, Severity::Note, what);
}
