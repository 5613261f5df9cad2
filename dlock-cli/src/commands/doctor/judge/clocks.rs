//! Clocks against each other: what depends on whose is in `docs/book/src/explanation/guarantees.md`.

use super::super::{
    facts::{Facts, Layout, Reading, ServerFacts},
    finding::{Finding, Topic},
};

/// The smallest difference to this machine's clock that is reported.
const NOTABLE_US: i64 = 1_000_000;

pub(super) fn judge(facts: &Facts) -> Vec<Finding> {
    let mut findings: Vec<_> = facts
        .servers
        .iter()
        .filter(|it| it.answers())
        .map(|server| against_ours(facts, server).of(&server.server))
        .collect();
    findings.extend(among_servers(facts));
    for server in &facts.servers {
        let of_server = of_replicas(facts, server).into_iter();
        findings.extend(of_server.map(|it| it.of(&server.server)));
    }
    findings
}

/// The clocks of replicas that may take the place of a master, against its own.
fn of_replicas(facts: &Facts, server: &ServerFacts) -> Vec<Finding> {
    const WHY: &str =
        "after a fail-over leases end early by as much as the new master's clock is ahead";
    let Some(ours) = server.clock else {
        // Which is said of its clock.
        return Vec::new();
    };
    let mut findings = Vec::new();
    let mut together = Vec::new();
    for (address, clock) in &server.replica_clocks {
        let clock = match clock {
            Ok(clock) => *clock,
            Err(error) => {
                let what =
                    format!("the clock of its replica {address} could not be asked: {error}");
                let finding = Finding::unknown(Topic::Clock, what).why(WHY);
                findings.push(finding.advice(COMPARE));
                continue;
            }
        };
        let ahead = clock.ahead_us.saturating_sub(ours.ahead_us);
        let certain = ahead.saturating_abs() - micros(clock) - micros(ours);
        let apart = shown(ahead.saturating_abs());
        if certain > 0 && ahead > 0 && certain > drift(facts) {
            let what = format!("its replica {address} is {apart} ahead");
            findings.push(ends_early(facts, what));
        } else if certain > NOTABLE_US {
            let what = format!("its replica {address} is {apart} behind");
            findings.push(
                Finding::note(Topic::Clock, what)
                    .why("after a fail-over locks of dead holders stay for longer by that, and tokens may be smaller than earlier ones")
                    .advice(TOGETHER),
            );
        } else {
            together.push(address.as_str());
        }
    }
    let follows = matches!(facts.layout, Layout::Sentinel | Layout::Cluster);
    if follows && server.replicas().count() > server.replica_clocks.len() {
        let what = "the clocks of some of its replicas could not be asked";
        findings.push(
            Finding::unknown(Topic::Clock, what)
                .why(WHY)
                .advice(COMPARE),
        );
    }
    if !together.is_empty() {
        let what = format!("replicas that agree with it: {}", together.join(", "));
        findings.push(Finding::ok(Topic::Clock, what));
    }
    findings
}

/// The part of its TTL that a holder keeps for clocks that differ: a hundredth, and 2 ms.
fn drift(facts: &Facts) -> i64 {
    i64::try_from(facts.ttl.as_micros() / 100).unwrap_or(i64::MAX) + 2_000
}

/// Advice about a clock that could not be read.
const COMPARE: &str =
    "compare `TIME` on both, as a user and from a place that can, and then --accept unknown";

const TOGETHER: &str = "let NTP keep the servers' clocks together, to a few milliseconds";

fn ends_early(facts: &Facts, what: String) -> Finding {
    let why = format!(
        "after a fail-over to it leases end early by that, which is more than the {} that a TTL of {:?} \
         allows: a second holder enters until the next renewal",
        shown(drift(facts)),
        facts.ttl,
    );
    Finding::risk(Topic::Clock, what).why(why).advice(TOGETHER)
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

/// The two clocks that differ most. No failover leads from one to the other.
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
    Some(if certain > NOTABLE_US {
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
