//! Compares clocks. `docs/book/src/explanation/guarantees.md` says what depends on which clock.

use crate::admin::doctor::facts::Arrangement;

use super::super::{
    facts::{Facts, Reading, ServerFacts},
    finding::{Finding, Topic},
};

/// The smallest difference from this machine's clock that is a finding.
const NOTABLE_US: i64 = 1_000_000;

pub(super) fn judge(facts: &Facts) -> Vec<Finding> {
    let mut findings: Vec<_> = facts
        .servers
        .iter()
        // Nothing depends on the clock of a member of etcd or ZooKeeper, and none can be read.
        .filter(|it| it.answers() && !it.is_etcd() && !it.is_zookeeper())
        .map(|server| against_ours(facts, server).of(&server.server))
        .collect();
    findings.extend(among_servers(facts));
    for server in &facts.servers {
        let of_server = of_replicas(facts, server).into_iter();
        findings.extend(of_server.map(|it| it.of(&server.server)));
    }
    findings
}

/// Compares the clocks of replicas that can replace a master with the clock of the master.
fn of_replicas(facts: &Facts, server: &ServerFacts) -> Vec<Finding> {
    const WHY: &str =
        "if the new master's clock is ahead, leases end early after a failover, by the same time";
    let Some(ours) = server.clock else {
        // The clock of the server has a finding of its own.
        return Vec::new();
    };
    let mut findings = Vec::new();
    let mut together = Vec::new();
    for (address, clock) in &server.replica_clocks {
        let clock = match clock {
            Ok(clock) => *clock,
            Err(error) => {
                let what = format!("the clock of replica {address} could not be read: {error}");
                let finding = Finding::unknown(Topic::Clock, what).why(WHY);
                findings.push(finding.advice(COMPARE));
                continue;
            }
        };
        let ahead = clock.ahead_us.saturating_sub(ours.ahead_us);
        let certain = ahead.saturating_abs() - micros(clock) - micros(ours);
        let apart = shown(ahead.saturating_abs());
        if certain > 0 && ahead > 0 && certain > drift(facts) {
            let what = format!("the clock of replica {address} is {apart} ahead");
            findings.push(ends_early(facts, what));
        } else if certain > NOTABLE_US {
            let what = format!("the clock of replica {address} is {apart} behind");
            findings.push(
                Finding::note(Topic::Clock, what)
                    .why("after a failover, locks of crashed holders stay longer by this time, and fencing tokens may be smaller than earlier ones")
                    .advice(TOGETHER),
            );
        } else {
            together.push(address.as_str());
        }
    }
    let follows = matches!(facts.layout, Arrangement::Sentinel | Arrangement::Cluster);
    if follows && server.replicas().count() > server.replica_clocks.len() {
        let what = "the clocks of some replicas could not be read";
        findings.push(
            Finding::unknown(Topic::Clock, what)
                .why(WHY)
                .advice(COMPARE),
        );
    }
    if !together.is_empty() {
        let what = format!("the clocks of its replicas agree: {}", together.join(", "));
        findings.push(Finding::ok(Topic::Clock, what));
    }
    findings
}

/// The drift that a holder subtracts from its TTL: a hundredth of the TTL plus 2 ms.
fn drift(facts: &Facts) -> i64 {
    i64::try_from(facts.ttl.as_micros() / 100).unwrap_or(i64::MAX) + 2_000
}

/// The remedy for a clock that could not be read.
const COMPARE: &str =
    "compare the answers to `TIME` on both servers by hand, then --accept unknown";

const TOGETHER: &str = "synchronize the servers' clocks with NTP, to a few milliseconds";

fn ends_early(facts: &Facts, what: String) -> Finding {
    let why = format!(
        "after a failover to this replica, leases end early by this time, which is more than the drift of {} \
         for a TTL of {:?}: a second client can acquire the lock before the first holder's next renewal",
        shown(drift(facts)),
        facts.ttl,
    );
    Finding::risk(Topic::Clock, what).why(why).advice(TOGETHER)
}

fn against_ours(facts: &Facts, server: &ServerFacts) -> Finding {
    let Some(clock) = server.clock else {
        return Finding::unknown(Topic::Clock, "the clock could not be read")
            .advice(format!("ACL SETUSER {} +time", facts.user));
    };
    let what = format!(
        "{} this machine's clock, ± {}",
        offset(clock),
        shown(micros(clock)),
    );
    if clock.ahead_us.saturating_abs() - micros(clock) < NOTABLE_US {
        return Finding::ok(Topic::Clock, what);
    }
    let why = if facts.layout == Arrangement::Quorum {
        "leases do not depend on this difference, but after a loss of data the fencing tokens of a quorum \
         depend on the clocks of the clients"
    } else {
        "leases do not depend on this difference. One of the two clocks is wrong; if the server's clock is \
         corrected in one step, leases end early or late"
    };
    Finding::note(Topic::Clock, what)
        .why(why)
        .advice("synchronize both clocks with NTP; slew the server's clock, do not step it")
}

/// Compares the two clocks that differ most. None of these servers replaces another one in a failover.
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
            .why("one of the servers probably lost its time source; a jump of its clock ends leases early")
            .advice("synchronize the servers' clocks with NTP")
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

/// Formats microseconds.
fn shown(us: i64) -> String {
    match us {
        ..1_000 => format!("{us} µs"),
        1_000..10_000_000 => format!("{}.{} ms", us / 1_000, us % 1_000 / 100),
        _ => format!("{} s", us / 1_000_000),
    }
}
