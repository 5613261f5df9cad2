//! Compares clocks. `docs/book/src/explanation/guarantees.md` says what depends on which clock.

use super::{
    facts::Facts,
    finding::{Finding, Topic},
};
use crate::model::ClockReading;

/// The smallest difference from this machine's clock that is a finding.
pub(crate) const NOTABLE_US: i64 = 1_000_000;

/// Compares the clocks that were read, with this machine's clock and with each other. A server without a reading has no finding:
/// nothing depends on its clock, or the store's own judge says why there is none.
#[must_use]
pub fn clocks(facts: &Facts) -> Vec<Finding> {
    const WHY: &str = "leases do not depend on this difference. One of the two clocks is wrong; if the server's clock is \
                       corrected in one step, leases end early or late";
    let answering = facts.servers.iter().filter(|it| it.answers());
    let mut findings: Vec<_> = answering
        .filter_map(|server| Some(against_ours(server.clock?, WHY).at(&server.server)))
        .collect();
    findings.extend(among_servers(facts));
    findings
}

/// Compares one clock with this machine's. `why` says what follows from a difference.
pub(crate) fn against_ours(clock: ClockReading, why: &str) -> Finding {
    let what = format!(
        "{} this machine's clock, ± {}",
        offset(clock),
        shown(micros(clock)),
    );
    if clock.ahead_us.saturating_abs() - micros(clock) < NOTABLE_US {
        return Finding::ok(Topic::Clock, what);
    }
    Finding::note(Topic::Clock, what)
        .why(why)
        .advice("synchronize both clocks with NTP; slew the server's clock, do not step it")
}

/// Compares the two clocks that differ most. None of these servers replaces another one in a failover.
pub(crate) fn among_servers(facts: &Facts) -> Option<Finding> {
    let readings: Vec<_> = facts
        .servers
        .iter()
        .filter_map(|it| Some((it.server.as_str(), it.clock?)))
        .collect();
    let first = readings.iter().min_by_key(|(_, it)| it.ahead_us)?;
    let last = readings.iter().max_by_key(|(_, it)| it.ahead_us)?;
    if first.0 == last.0 {
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

pub(crate) fn micros(reading: ClockReading) -> i64 {
    i64::try_from(reading.uncertainty.as_micros()).unwrap_or(i64::MAX)
}

fn offset(clock: ClockReading) -> String {
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
pub(crate) fn shown(us: i64) -> String {
    match us {
        ..1_000 => format!("{us} µs"),
        1_000..10_000_000 => format!("{}.{} ms", us / 1_000, us % 1_000 / 100),
        _ => format!("{} s", us / 1_000_000),
    }
}
