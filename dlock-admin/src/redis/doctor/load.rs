//! Checks whether a server is close to refusing clients, or pauses for too long.

use std::time::Duration;

use crate::{
    doctor::{Facts, Finding, Topic},
    model::ServerReport,
};

pub(super) fn judge(facts: &Facts, server: &ServerReport) -> Vec<Finding> {
    let mut findings = vec![clients(server)];
    findings.extend(refused(server));
    findings.extend(forks(facts, server));
    findings.extend(slow(facts, server));
    findings
}

/// Checks the slowest command of the server, by its average since the start. All clients wait while the server runs
/// it. Single slow calls are only in its `SLOWLOG`, which is not read.
fn slow(facts: &Facts, server: &ServerReport) -> Option<Finding> {
    let costs = server.info.iter().filter_map(|(name, value)| {
        let name = name.strip_prefix("cmdstat_")?;
        let mut pairs = value.split(',');
        let cost: f64 = pairs.find_map(|it| it.strip_prefix("usec_per_call=")?.parse().ok())?;
        Some((Duration::try_from_secs_f64(cost / 1e6).ok()?, name))
    });
    let (cost, name) = costs.max()?;
    let what = format!(
        "`{}` takes {} ms per call on average",
        name.to_uppercase(),
        cost.as_millis()
    );
    let finding = if cost >= facts.ttl / 3 {
        Finding::risk(Topic::Load, what)
    } else if cost >= Duration::from_millis(10) {
        Finding::note(Topic::Load, what)
    } else {
        return None;
    };
    Some(
        finding
            .why("a server runs one command at a time: no lease is acquired or renewed meanwhile")
            .advice("find the calls with `SLOWLOG GET`"),
    )
}

fn clients(server: &ServerReport) -> Finding {
    let told = |name| server.number::<u64>(name);
    let per_second = told("instantaneous_ops_per_sec")
        .map_or_else(String::new, |it| format!(", {it} commands per second"));
    let Some(connected) = told("connected_clients") else {
        return Finding::unknown(Topic::Load, "`INFO` does not contain the number of clients");
    };
    let Some(limit @ 1..) = told("maxclients") else {
        return Finding::ok(Topic::Load, format!("{connected} clients{per_second}"));
    };
    let what = format!("{connected} of {limit} clients{per_second}");
    if connected.saturating_mul(5) >= limit.saturating_mul(4) {
        return Finding::risk(Topic::Load, what)
            .why("at the limit the server refuses new connections: a client that lost its connection cannot renew its leases")
            .advice("raise `maxclients`, and find the clients with `CLIENT LIST`");
    }
    Finding::ok(Topic::Load, what)
}

fn refused(server: &ServerReport) -> Option<Finding> {
    let count = server
        .number::<u64>("rejected_connections")
        .filter(|&it| it > 0)?;
    Some(
        Finding::note(
            Topic::Load,
            format!("{count} connections refused since the start"),
        )
        .why("the limit `maxclients` was reached, or the server is in its protected mode, which refuses other machines")
        .advice("if `maxclients` is close to the number of clients at the busiest time, raise it; if there is no password, set one"),
    )
}

/// Checks the duration of forks. The server serves no clients while a fork copies its page table.
fn forks(facts: &Facts, server: &ServerReport) -> Option<Finding> {
    let pause = Duration::from_micros(server.number("latest_fork_usec")?);
    let what = format!(
        "the last fork, for a snapshot or a rewrite, blocked the server for {} ms",
        pause.as_millis()
    );
    if pause >= facts.ttl / 3 {
        return Some(
            Finding::risk(Topic::Load, what)
                .why("no lease is renewed meanwhile, and this is at least a third of the TTL")
                .advice("use longer TTLs, or a separate server for locks, which stays small"),
        );
    }
    (pause >= Duration::from_millis(100)).then(|| {
        Finding::note(Topic::Load, what)
            .why("every request waits for this time during a fork")
            .advice("use a separate server for locks, which stays small and forks fast")
    })
}
