//! A server of PostgreSQL: each state has its finding.

use std::time::Duration;

use dlock_admin::{
    Denied, ServerReport,
    doctor::{
        Facts, Finding, LockFacts,
        Severity::{self, Note, Ok, Risk, Unknown},
        Topic, findings,
    },
};

use super::PostgresJudge;

const FINE: [(&str, &str); 21] = [
    ("user", "shop"),
    ("server_version", "15.4"),
    ("server_version_num", "150004"),
    ("in_recovery", "off"),
    ("schema", "dlock"),
    ("schema_version", "3"),
    ("needed_version", "3"),
    ("oldest_version", "2"),
    ("processes_behind", ""),
    ("has_schema", "true"),
    ("reads_tables", "true"),
    ("fsync", "on"),
    ("full_page_writes", "on"),
    ("synchronous_commit", "on"),
    ("max_connections", "100"),
    ("superuser_reserved_connections", "3"),
    ("connections", "9"),
    ("idle_in_transaction_session_timeout", "60000"),
    ("relying", "0"),
    ("autovacuum", "on"),
    ("pooled", "false"),
];

fn found(changes: &[(&str, &str)]) -> Vec<Finding> {
    found_without(Vec::new(), changes)
}

/// The findings for a user who lacks these permissions.
fn found_without(denied: Vec<Denied>, changes: &[(&str, &str)]) -> Vec<Finding> {
    let mut server = ServerReport::new("postgres://db/shop");
    for &(name, value) in FINE.iter().chain(changes) {
        server.set(name, value);
    }
    server.denied = denied;
    server.round_trips = vec![Duration::from_micros(100); 20];
    let mut facts = Facts::unknown();
    facts.servers = vec![server];
    facts.locks = Result::Ok(LockFacts::default());
    findings(&PostgresJudge, &facts)
}

/// Changes of a healthy server, and a part of the finding that they cause.
type Case = (
    &'static [(&'static str, &'static str)],
    Severity,
    Topic,
    &'static str,
);

fn check(cases: &[Case]) {
    for (changes, severity, topic, part) in cases {
        let all = found(changes);
        let is_it = |it: &Finding| {
            let texts = [Some(&it.what), it.why.as_ref(), it.advice.as_ref()];
            let says = texts.into_iter().flatten().any(|text| text.contains(part));
            it.severity == *severity && it.topic == *topic && says
        };
        assert!(
            all.iter().any(is_it),
            "no {severity:?} {topic:?} `{part}`: {all:#?}"
        );
    }
}

#[test]
fn every_state_of_a_server_has_its_finding() {
    let fine = found(&[]);
    assert!(fine.iter().all(|it| it.severity == Ok), "{fine:#?}");
    let broken = Severity::Broken;
    check(&[
        (
            &[("server_version_num", "130010")],
            broken,
            Topic::Version,
            "too old",
        ),
        (&[("in_recovery", "on")], broken, Topic::Role, "standby"),
        (
            &[("has_schema", "false")],
            broken,
            Topic::Schema,
            "postgres migrate",
        ),
        (&[("schema_version", "4")], broken, Topic::Schema, "needs 3"),
        (
            &[("schema_version", "1")],
            broken,
            Topic::Schema,
            "use the version of dlock that",
        ),
        (
            &[("schema_version", "2")],
            broken,
            Topic::Schema,
            "postgres migrate",
        ),
        (
            &[("processes_behind", "billing@a/7, shop@b/9")],
            Note,
            Topic::Schema,
            "an earlier one only: billing@a/7, shop@b/9",
        ),
        (
            &[("distrust", "execute: REVOKE CREATE")],
            broken,
            Topic::Schema,
            "REVOKE CREATE",
        ),
        (
            &[("owner", "admin"), ("owner_is_superuser", "true")],
            Note,
            Topic::Schema,
            "belongs to a superuser, `admin`",
        ),
        (
            &[("fsync", "off")],
            Risk,
            Topic::Persistence,
            "`fsync` is off",
        ),
        (
            &[("full_page_writes", "off")],
            Risk,
            Topic::Persistence,
            "`full_page_writes`",
        ),
        (
            &[("synchronous_commit", "off")],
            Note,
            Topic::Persistence,
            "nevertheless",
        ),
        (
            &[
                ("synchronous_commit", "local"),
                ("synchronous_standby_names", "two"),
            ],
            Risk,
            Topic::Persistence,
            "failover",
        ),
        (&[("connections", "90")], Risk, Topic::Load, "90 of 97"),
        (
            &[("pooled", "true"), ("listen", "direct")],
            Note,
            Topic::Pooler,
            "listen=",
        ),
        (
            &[("pooled", "true"), ("listen", "other")],
            Ok,
            Topic::Pooler,
            "beside it",
        ),
    ]);
}

#[test]
fn each_topic_has_a_finding_when_all_is_well() {
    check(&[
        (&[], Ok, Topic::Version, "PostgreSQL 15.4"),
        (&[], Ok, Topic::Role, "primary"),
        (&[], Ok, Topic::Schema, "schema `dlock` has version 3"),
        (&[], Ok, Topic::Permissions, "has all permissions"),
        (&[], Ok, Topic::Persistence, "keep commits"),
        (&[], Ok, Topic::Load, "9 of 97 connections"),
        (&[], Ok, Topic::Transactions, "0 rely on leases"),
        (&[], Ok, Topic::Tables, "old versions of rows are removed"),
        (
            &[("pooled", "true"), ("listen", "off")],
            Ok,
            Topic::Pooler,
            "messages are switched off",
        ),
    ]);
}

#[test]
fn a_finding_begins_at_its_bound() {
    check(&[
        (
            &[("server_version_num", "140000")],
            Ok,
            Topic::Version,
            "PostgreSQL",
        ),
        (
            &[("server_version_num", "139999")],
            Severity::Broken,
            Topic::Version,
            "too old",
        ),
        (
            &[("server_version_num", "?")],
            Unknown,
            Topic::Version,
            "is unknown",
        ),
        (&[("connections", "87")], Ok, Topic::Load, "87 of 97"),
        (&[("connections", "88")], Risk, Topic::Load, "88 of 97"),
        // A tenth of many.
        (
            &[("max_connections", "1000"), ("connections", "898")],
            Ok,
            Topic::Load,
            "898 of 997",
        ),
        (
            &[("max_connections", "1000"), ("connections", "899")],
            Risk,
            Topic::Load,
            "899 of 997",
        ),
        (
            &[("superuser_reserved_connections", "?")],
            Ok,
            Topic::Load,
            "9 of 100",
        ),
        (
            &[("connections", "?")],
            Unknown,
            Topic::Load,
            "could not be read",
        ),
        (
            &[("turn_live", "0"), ("turn_dead", "10000")],
            Ok,
            Topic::Tables,
            "are removed",
        ),
        (
            &[("turn_live", "0"), ("turn_dead", "10001")],
            Risk,
            Topic::Tables,
            "10001 dead rows",
        ),
        (
            &[("turn_live", "1001"), ("turn_dead", "10010")],
            Ok,
            Topic::Tables,
            "are removed",
        ),
        (
            &[("turn_live", "1001"), ("turn_dead", "10011")],
            Risk,
            Topic::Tables,
            "10011 dead rows",
        ),
        // Without a standby, it is what `on` is.
        (
            &[
                ("synchronous_commit", "local"),
                ("synchronous_standby_names", ""),
            ],
            Ok,
            Topic::Persistence,
            "keep commits",
        ),
        (
            &[
                ("relying", "1"),
                ("relying0", "pid=7,seconds=31,state=,user=a,application="),
            ],
            Risk,
            Topic::Transactions,
            "pid 7 for 31 s",
        ),
    ]);
}

#[test]
fn a_permission_that_is_missing_is_a_fault_if_locks_need_it() {
    let rule = |function: &str| format!("GRANT EXECUTE ON FUNCTION {function} TO shop;");
    let lacks = |function: &str, purpose: &str, is_required| {
        Denied::new(rule(function), purpose, is_required)
    };
    for (is_required, severity) in [(true, Severity::Broken), (false, Note)] {
        let denied = vec![
            lacks("a", "locks", is_required),
            lacks("b", "locks", is_required),
            lacks("c", "lists", is_required),
        ];
        let all = found_without(denied, &[]);
        let about = all.iter().filter(|it| it.topic == Topic::Permissions);
        let about: Vec<_> = about.collect();
        let [one] = &*about else {
            panic!("{about:#?}");
        };
        assert_eq!(one.severity, severity);
        let why = one.why.as_deref().unwrap_or_default();
        assert!(why.contains("for: locks, lists. "), "{why}");
        let rules = ["a", "b", "c"].map(rule).join(" ");
        assert_eq!(one.advice.as_deref(), Some(&*rules));
    }
}

#[test]
fn transactions_and_tables_have_their_findings() {
    check(&[
        (
            &[
                ("relying", "1"),
                ("relying0", "pid=7,seconds=31,state=,user=a,application=x,y"),
            ],
            Risk,
            Topic::Transactions,
            "pid 7 (x,y) for 31 s",
        ),
        (
            &[
                ("relying", "1"),
                (
                    "relying0",
                    "seconds=31,state=prepared,user=pid=8,prepared=x,y",
                ),
            ],
            Risk,
            Topic::Transactions,
            "prepared transactions rely on leases for longer than the TTL: \"x,y\" for 31 s",
        ),
        (
            &[
                ("relying", "1"),
                ("relying0", "pid=7,seconds=30,state=,user=a,application="),
            ],
            Ok,
            Topic::Transactions,
            "1 rely",
        ),
        (
            &[
                ("relying", "1"),
                ("relying0", "pid=7,seconds=?,state=,user=a,application="),
            ],
            Unknown,
            Topic::Transactions,
            "GRANT pg_read_all_stats TO \"shop\"",
        ),
        (
            &[("idle_in_transaction_session_timeout", "0")],
            Note,
            Topic::Transactions,
            "is not set",
        ),
        (
            &[("autovacuum", "off")],
            Risk,
            Topic::Tables,
            "`autovacuum` is off",
        ),
        (
            &[
                ("holder_live", "10"),
                ("holder_dead", "1"),
                ("holder_unvacuumed", "true"),
            ],
            Risk,
            Topic::Tables,
            "RESET (autovacuum_enabled)",
        ),
        (
            &[("holder_unlogged", "true")],
            Risk,
            Topic::Persistence,
            "ALTER TABLE \"dlock\".holder SET LOGGED",
        ),
        (
            &[("waiter_unlogged", "false")],
            Risk,
            Topic::Persistence,
            "ALTER TABLE \"dlock\".waiter SET UNLOGGED",
        ),
        (
            &[("turn_live", "100"), ("turn_dead", "20000")],
            Risk,
            Topic::Tables,
            "20000 dead rows",
        ),
    ]);
}
