//! Checks whether a server is about to refuse clients, or pauses at times.

use std::time::Duration;

use super::super::{
    facts::{Facts, ServerFacts},
    finding::{Finding, Topic},
};

pub(super) fn judge(facts: &Facts, server: &ServerFacts) -> Vec<Finding> {
    let mut findings = vec![clients(server)];
    findings.extend(refused(server));
    findings.extend(forks(facts, server));
    findings.extend(slow(facts, server));
    findings
}

/// The command that keeps a server busy for the longest, on the average since it started: everybody
/// else waits meanwhile. Single calls that were slow are in its `SLOWLOG`, which is not asked.
fn slow(facts: &Facts, server: &ServerFacts) -> Option<Finding> {
    let costs = server.info.iter().filter_map(|(name, value)| {
        let name = name.strip_prefix("cmdstat_")?;
        let mut pairs = value.split(',');
        let cost: f64 = pairs.find_map(|it| it.strip_prefix("usec_per_call=")?.parse().ok())?;
        Some((Duration::try_from_secs_f64(cost / 1e6).ok()?, name))
    });
    let (cost, name) = costs.max()?;
    let what = format!(
        "`{}` takes {} ms a call on the average",
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
            .why("a server does one thing after the other: no lock is granted or renewed meanwhile")
            .advice("see `SLOWLOG GET` for who calls it with what"),
    )
}

fn clients(server: &ServerFacts) -> Finding {
    let told = |name| server.number::<u64>(name);
    let per_second = told("instantaneous_ops_per_sec")
        .map_or_else(String::new, |it| format!(", {it} commands per second"));
    let Some(connected) = told("connected_clients") else {
        return Finding::unknown(
            Topic::Load,
            "`INFO` does not tell how many clients there are",
        );
    };
    let Some(limit @ 1..) = told("maxclients") else {
        return Finding::ok(Topic::Load, format!("{connected} clients{per_second}"));
    };
    let what = format!("{connected} of {limit} clients{per_second}");
    if connected.saturating_mul(5) >= limit.saturating_mul(4) {
        return Finding::risk(Topic::Load, what)
            .why("at the limit new connections are refused: who has lost its own cannot renew its leases")
            .advice("raise `maxclients`, and look who has so many with `CLIENT LIST`");
    }
    Finding::ok(Topic::Load, what)
}

fn refused(server: &ServerFacts) -> Option<Finding> {
    let count = server
        .number::<u64>("rejected_connections")
        .filter(|&it| it > 0)?;
    Some(
        Finding::note(
            Topic::Load,
            format!("{count} connections refused since it started"),
        )
        .why("there were more clients than `maxclients` allows")
        .advice("raise `maxclients`"),
    )
}

/// A fork copies the page table, and the server serves no client meanwhile.
fn forks(facts: &Facts, server: &ServerFacts) -> Option<Finding> {
    let pause = Duration::from_micros(server.number("latest_fork_usec")?);
    let what = format!(
        "the last fork, for a snapshot or a rewrite, stopped it for {} ms",
        pause.as_millis()
    );
    if pause >= facts.ttl / 3 {
        return Some(
            Finding::risk(Topic::Load, what)
                .why("no lease is renewed meanwhile; this is a third of the TTL and more")
                .advice("use longer TTLs, or a server of their own for locks, which stays small"),
        );
    }
    (pause >= Duration::from_millis(100)).then(|| {
        Finding::note(Topic::Load, what)
            .why("every call waits for so long now and then")
            .advice("a server of their own for locks stays small, and forks at once")
    })
}
