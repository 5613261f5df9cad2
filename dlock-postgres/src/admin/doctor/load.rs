//! Checks what wears a server of PostgreSQL out: connections, a pooler, long transactions, and rows that are not removed.

use dlock_admin::{
    ServerReport,
    doctor::{Facts, Finding, Topic},
};

/// The number of free connections below which there is little room: a manager needs two.
const FEW: i64 = 10;

/// The number of dead rows that are normal between two runs of autovacuum.
const DEAD: i64 = 10_000;

pub(super) fn connections(server: &ServerReport) -> Finding {
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

pub(super) fn pooler(server: &ServerReport) -> Option<Finding> {
    if !server.is("pooled", "true") {
        return None;
    }
    Some(match server.field("listen") {
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

pub(super) fn transactions(facts: &Facts, server: &ServerReport) -> Vec<Finding> {
    let mut findings = Vec::new();
    let most = i64::try_from(facts.ttl.as_secs()).unwrap_or(i64::MAX);
    let count = server.number::<usize>("relying").unwrap_or(0);
    let all = (0..count).filter_map(|index| server.field(&format!("relying{index}")));
    let all: Vec<_> = all.map(Relying::read).collect();
    let (prepared, open): (Vec<_>, Vec<_>) = all
        .iter()
        .filter(|it| it.seconds.is_some_and(|it| it > most))
        .partition(|it| it.prepared.is_some());
    let named = |some: &[&Relying<'_>]| -> String {
        let named: Vec<_> = some.iter().map(|it| it.described()).collect();
        named.join(", ")
    };
    if !open.is_empty() {
        let what = format!(
            "transactions rely on leases for longer than the TTL: {}",
            named(&open)
        );
        findings.push(
            Finding::risk(Topic::Transactions, what)
                .why("no other process gets the key of such a lease before the transaction ends, even if its process hangs")
                .advice("end it with `SELECT pg_terminate_backend(pid)` if its process hangs; commit sooner after `fence`"),
        );
    }
    if !prepared.is_empty() {
        let what = format!(
            "prepared transactions rely on leases for longer than the TTL: {}",
            named(&prepared)
        );
        findings.push(
            Finding::risk(Topic::Transactions, what)
                .why("a prepared transaction keeps the key until it is ended, also when its process and the server have restarted")
                .advice("end it with `ROLLBACK PREPARED` or `COMMIT PREPARED` and its name, as its coordinator has decided"),
        );
    }
    if all.iter().any(|it| it.seconds.is_none()) {
        let user = server.field("user").unwrap_or_default();
        findings.push(
            Finding::unknown(
                Topic::Transactions,
                "the age of some transactions could not be read",
            )
            .why("the user does not see since when the transactions of other users run")
            .advice(format!("GRANT pg_read_all_stats TO \"{user}\"")),
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
    /// The name of a prepared transaction, which has no process.
    prepared: Option<&'a str>,
    /// `None` if the user may not see it.
    seconds: Option<i64>,
    application: &'a str,
}

impl<'a> Relying<'a> {
    /// Reads `pid=4711,seconds=12,state=active,user=shop,application=billing@host/1`, or
    /// `seconds=12,state=prepared,user=shop,prepared=order-42`.
    fn read(text: &'a str) -> Self {
        let field = |name: &str| {
            let (_, rest) = text.split_once(name)?;
            rest.split(',').next()
        };
        let last = |name: &str| text.split_once(name).map(|it| it.1);
        let pid = text.starts_with("pid=").then(|| field("pid=")).flatten();
        Self {
            pid: pid.unwrap_or("?"),
            prepared: pid.is_none().then(|| last(",prepared=")).flatten(),
            seconds: field("seconds=").and_then(|it| it.parse().ok()),
            // The last one, which may contain a comma.
            application: last("application=").unwrap_or_default(),
        }
    }

    fn described(&self) -> String {
        let seconds = self.seconds.unwrap_or_default();
        if let Some(name) = self.prepared {
            return format!("\"{name}\" for {seconds} s");
        }
        match self.application {
            "" => format!("pid {} for {seconds} s", self.pid),
            name => format!("pid {} ({name}) for {seconds} s", self.pid),
        }
    }
}

pub(super) fn tables(server: &ServerReport) -> Vec<Finding> {
    const WHY: &str = "every lock changes rows. Old versions of rows that are not removed make each request slower";
    let mut findings = Vec::new();
    if server.is("autovacuum", "off") {
        findings.push(
            Finding::risk(Topic::Tables, "`autovacuum` is off")
                .why(WHY)
                .advice("set `autovacuum = on` in postgresql.conf"),
        );
    }
    let schema = server.field("schema").unwrap_or("dlock");
    for table in ["turn", "holder", "waiter"] {
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
