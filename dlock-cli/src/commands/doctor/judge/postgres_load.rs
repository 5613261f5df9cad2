//! Checks what wears a server of PostgreSQL out: connections, a pooler, long transactions, and rows that are not removed.

use super::super::{
    facts::{Facts, ServerFacts},
    finding::{Finding, Topic},
};

/// The number of free connections below which there is little room: a manager needs two.
const FEW: i64 = 10;

/// The number of dead rows that are normal between two runs of autovacuum.
const DEAD: i64 = 10_000;

pub(super) fn connections(server: &ServerFacts) -> Finding {
    let [most, used] = ["max_connections", "connections"].map(|it| server.number::<i64>(it));
    let reserved = server.number::<i64>("superuser_reserved_connections");
    let (Some(most), Some(used)) = (most, used) else {
        return Finding::unknown(Topic::Load, "the number of connections could not be read");
    };
    let most = most - reserved.unwrap_or(0);
    let what = format!("{used} of {most} connections");
    if most - used < FEW.max(most / 10) {
        return Finding::risk(Topic::Load, what)
            .why("a manager needs two connections, and cannot connect when none is left")
            .advice("raise `max_connections`, or put a pooler between clients and server");
    }
    Finding::ok(Topic::Load, what)
}

pub(super) fn pooler(server: &ServerFacts) -> Option<Finding> {
    if !server.is("pooled", "true") {
        return None;
    }
    Some(match server.told("listen") {
        Some("other") => Finding::ok(
            Topic::Pooler,
            "a pooler, and a server for messages beside it",
        ),
        Some("off") => Finding::ok(Topic::Pooler, "a pooler, and messages are switched off"),
        _ => Finding::note(Topic::Pooler, "a pooler without `listen=` in the URL")
            .why("waiters get no messages about grants: each polls every 1.25 s")
            .advice("add `listen=host:5432` to the URL, with the address of the server itself"),
    })
}

pub(super) fn transactions(facts: &Facts, server: &ServerFacts) -> Vec<Finding> {
    let mut findings = Vec::new();
    let most = i64::try_from(facts.ttl.as_secs()).unwrap_or(i64::MAX);
    let count = server.number::<usize>("relying").unwrap_or(0);
    let all = (0..count).filter_map(|index| server.told(&format!("relying{index}")));
    let all: Vec<_> = all.map(Relying::read).collect();
    let long: Vec<_> = all
        .iter()
        .filter(|it| it.seconds.is_some_and(|it| it > most))
        .collect();
    if !long.is_empty() {
        let named: Vec<_> = long.iter().map(|it| it.described()).collect();
        let what = format!(
            "transactions rely on leases for longer than the TTL: {}",
            named.join(", ")
        );
        findings.push(
            Finding::risk(Topic::Transactions, what)
                .why("no other process gets the key of such a lease before the transaction ends, even if its process hangs")
                .advice("end it with `SELECT pg_terminate_backend(pid)` if its process hangs; commit sooner after `fence`"),
        );
    }
    if all.iter().any(|it| it.seconds.is_none()) {
        findings.push(
            Finding::unknown(
                Topic::Transactions,
                "the age of some transactions could not be read",
            )
            .why("the user does not see since when the transactions of other users run")
            .advice(format!("GRANT pg_read_all_stats TO \"{}\"", facts.user)),
        );
    }
    if server.is("idle_in_transaction_session_timeout", "0") {
        findings.push(
            Finding::note(
                Topic::Transactions,
                "`idle_in_transaction_session_timeout` is not set for this user",
            )
            .why("a process that hangs after `fence`, with its connection open, keeps the key")
            .advice("ALTER ROLE … SET idle_in_transaction_session_timeout = '1min', for the role of your services"),
        );
    }
    if findings.is_empty() && server.is("reads_tables", "true") {
        let what = format!("{count} rely on leases, none for longer than the TTL");
        findings.push(Finding::ok(Topic::Transactions, what));
    }
    findings
}

/// A transaction that relies on a lease, as the report tells it.
struct Relying<'a> {
    pid: &'a str,
    /// `None` if the user may not see it.
    seconds: Option<i64>,
    application: &'a str,
}

impl<'a> Relying<'a> {
    /// Reads `pid=4711,seconds=12,state=active,user=shop,application=billing@host/1`.
    fn read(text: &'a str) -> Self {
        let field = |name: &str| {
            let (_, rest) = text.split_once(name)?;
            rest.split(',').next()
        };
        Self {
            pid: field("pid=").unwrap_or("?"),
            seconds: field("seconds=").and_then(|it| it.parse().ok()),
            // The last one, which may contain a comma.
            application: text.split_once("application=").map_or("", |it| it.1),
        }
    }

    fn described(&self) -> String {
        let seconds = self.seconds.unwrap_or_default();
        match self.application {
            "" => format!("pid {} for {seconds} s", self.pid),
            name => format!("pid {} ({name}) for {seconds} s", self.pid),
        }
    }
}

pub(super) fn tables(server: &ServerFacts) -> Vec<Finding> {
    const WHY: &str = "every lock changes rows. Old versions of rows that are not removed make each request slower";
    let mut findings = Vec::new();
    if server.is("autovacuum", "off") {
        findings.push(
            Finding::risk(Topic::Tables, "`autovacuum` is off")
                .why(WHY)
                .advice("set `autovacuum = on` in postgresql.conf"),
        );
    }
    let schema = server.told("schema").unwrap_or("dlock");
    for table in ["lock", "holder", "waiter"] {
        let number = |kind: &str| server.number::<i64>(&format!("{table}_{kind}"));
        let (Some(live), Some(dead)) = (number("live"), number("dead")) else {
            continue;
        };
        let is_off = server.is(&format!("{table}_unvacuumed"), "true");
        if is_off {
            findings.push(
                Finding::risk(Topic::Tables, format!("autovacuum is off for `{table}`"))
                    .why(WHY)
                    .advice(format!(
                        "ALTER TABLE \"{schema}\".{table} RESET (autovacuum_enabled)"
                    )),
            );
        }
        if dead > DEAD && dead > live.saturating_mul(10) {
            let what = format!("`{table}` has {dead} dead rows and {live} others");
            findings.push(
                Finding::risk(Topic::Tables, what)
                    .why(format!("{WHY}. A transaction that stays open for hours prevents their removal"))
                    .advice(format!(
                        "end long transactions, then VACUUM \"{schema}\".{table}; autovacuum may need more workers"
                    )),
            );
        }
    }
    if findings.is_empty() && server.is("has_schema", "true") {
        findings.push(Finding::ok(
            Topic::Tables,
            "old versions of rows are removed",
        ));
    }
    findings
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use dlock::admin::Layout;

    use super::*;
    use crate::commands::doctor::{
        facts::LockFacts,
        finding::Severity::{self, Note, Ok, Risk, Unknown},
        judge::judge,
    };

    const FINE: [(&str, &str); 19] = [
        ("product", "PostgreSQL"),
        ("server_version", "15.4"),
        ("server_version_num", "150004"),
        ("in_recovery", "off"),
        ("schema", "dlock"),
        ("schema_version", "1"),
        ("needed_version", "1"),
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
        let told = FINE.iter().chain(changes);
        let server = ServerFacts {
            server: "postgres://db/shop".to_owned(),
            info: told
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            round_trips: vec![Duration::from_micros(100); 20],
            ..ServerFacts::default()
        };
        judge(&Facts {
            layout: Layout::Single,
            ttl: Duration::from_secs(30),
            min_replicas: 0,
            sentinels: 0,
            user: "shop".to_owned(),
            raw_keys: false,
            servers: vec![server],
            locks: Result::Ok(LockFacts::default()),
        })
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
        let clock = |it: &&Finding| it.topic != Topic::Clock;
        assert!(
            fine.iter().filter(clock).all(|it| it.severity == Ok),
            "{fine:#?}"
        );
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
            (&[("schema_version", "2")], broken, Topic::Schema, "needs 1"),
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
                &[("lock_live", "100"), ("lock_dead", "20000")],
                Risk,
                Topic::Tables,
                "20000 dead rows",
            ),
        ]);
    }
}
