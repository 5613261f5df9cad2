//! Clocks against each other: what depends on whose is in `docs/guarantees.md`.

use super::super::{
    facts::{Facts, Layout, Reading, ServerFacts},
    finding::{Finding, Topic},
};

/// What a clock may differ from this machine's before it is worth a word.
const NOTABLE_US: i64 = 1_000_000;

pub(super) fn judge(facts: &Facts) -> Vec<Finding> {
    let mut findings: Vec<_> = facts
        .servers
        .iter()
        .filter(|it| it.answers())
        .map(|server| against_ours(facts, server).of(&server.server))
        .collect();
    findings.extend(among_servers(facts));
    findings.extend(of_replicas(facts));
    findings
}

/// Nobody has asked them: clients talk to masters only.
fn of_replicas(facts: &Facts) -> Option<Finding> {
    let follows = matches!(facts.layout, Layout::Sentinel | Layout::Cluster);
    let replicas = facts.servers.iter().flat_map(ServerFacts::replicas).count();
    (follows && replicas > 0).then(|| {
        Finding::unknown(
            Topic::Clock,
            "the clocks of the replicas: only masters were asked",
        )
        .why("after a fail-over leases end early by as much as the new master's clock is ahead")
        .advice("let NTP keep the servers' clocks together, and compare `TIME` on each")
    })
}

fn against_ours(facts: &Facts, server: &ServerFacts) -> Finding {
    let Some(clock) = server.clock else {
        return Finding::unknown(Topic::Clock, "its clock could not be asked")
            .advice(format!("ACL SETUSER {} +time", facts.user));
    };
    let what = format!(
        "{} this machine's, give or take {}",
        offset(clock),
        shown(micros(clock)),
    );
    if clock.ahead_us.saturating_abs() - micros(clock) < NOTABLE_US {
        return Finding::ok(Topic::Clock, what);
    }
    let why = if facts.layout == Layout::Quorum {
        "leases do not depend on that, but after a loss of data the tokens of a quorum depend on the \
         clocks of clients"
    } else {
        "leases do not depend on that; which of the two is wrong is not known, and a server's clock \
         that is set right in one step ends leases early or late"
    };
    Finding::note(Topic::Clock, what)
        .why(why)
        .advice("let NTP slew both clocks, and never step the server's")
}

/// The two clocks that differ most, if a fail-over leads from one to the other.
fn among_servers(facts: &Facts) -> Option<Finding> {
    let readings: Vec<_> = facts
        .servers
        .iter()
        .filter_map(|it| Some((it.server.as_str(), it.clock?)))
        .collect();
    let first = readings.iter().min_by_key(|(_, it)| it.ahead_us)?;
    let last = readings.iter().max_by_key(|(_, it)| it.ahead_us)?;
    if readings.len() < 2 || first.0 == last.0 {
        return None;
    }
    let apart = last.1.ahead_us.saturating_sub(first.1.ahead_us);
    let certain = apart - micros(first.1) - micros(last.1);
    let what = format!("{} is {} ahead of {}", last.0, shown(apart), first.0);
    // What a holder leaves of its TTL for clocks that differ: a hundredth, and 2 ms.
    let drift = i64::try_from(facts.ttl.as_micros() / 100).unwrap_or(i64::MAX) + 2_000;
    let follows = matches!(facts.layout, Layout::Sentinel | Layout::Cluster);
    Some(if follows && certain > drift {
        Finding::risk(Topic::Clock, what)
            .why(format!(
                "after a fail-over to it leases end early by that, which is more than the {} that a \
                 TTL of {:?} allows: a second holder enters until the next renewal",
                shown(drift),
                facts.ttl,
            ))
            .advice("let NTP keep the servers' clocks together, to a few milliseconds")
    } else if certain > NOTABLE_US {
        Finding::note(Topic::Clock, what)
            .why("one of the servers has lost its source of time; a step of its clock ends leases early")
            .advice("let NTP keep the servers' clocks together")
    } else {
        Finding::ok(Topic::Clock, what)
    })
}

fn micros(reading: Reading) -> i64 {
    i64::try_from(reading.uncertainty.as_micros()).unwrap_or(i64::MAX)
}

fn offset(clock: Reading) -> String {
    let apart = clock.ahead_us.saturating_abs();
    if apart <= micros(clock) {
        return "agrees with".to_owned();
    }
    match clock.ahead_us {
        ..0 => format!("{} behind", shown(apart)),
        _ => format!("{} ahead of", shown(apart)),
    }
}

/// Microseconds as people say them.
fn shown(us: i64) -> String {
    match us {
        ..1_000 => format!("{us} µs"),
        1_000..10_000_000 => format!("{}.{} ms", us / 1_000, us % 1_000 / 100),
        _ => format!("{} s", us / 1_000_000),
    }
}
