//! Checks whether answers are fast enough for the TTLs in use.

use std::time::Duration;

use super::{
    facts::Facts,
    finding::{Finding, Topic},
};
use crate::model::ServerReport;

/// The default limit of a request.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(1);

/// The shortest TTL that dlock accepts.
const SHORTEST: Duration = Duration::from_millis(100);

/// Judges the round trips of a server by the shortest TTL in use. Returns `None` if none was measured.
#[must_use]
pub fn latency(facts: &Facts, server: &ServerReport) -> Option<Finding> {
    let advice = "check the load of the server, swapping, and network problems";
    of_requests(facts, server, "round trip", advice)
}

/// Does the same for the requests that are called `name`. `advice` is for answers that take more than a second.
pub(crate) fn of_requests(
    facts: &Facts,
    server: &ServerReport,
    name: &str,
    advice: &str,
) -> Option<Finding> {
    let mut sorted = server.round_trips.clone();
    sorted.sort_unstable();
    let &slowest = sorted.last()?;
    let median = sorted[sorted.len() / 2];
    let p99 = sorted[(sorted.len() * 99).div_ceil(100) - 1];
    // A lease is renewed after a third of its TTL. The rest of the TTL must suffice for two attempts and a
    // reconnection, which takes a few more round trips.
    let safe = (p99 * 20).max(SHORTEST);
    let what = format!(
        "{name}: median {}, p99 {}, max {} ({} samples)",
        shown(median),
        shown(p99),
        shown(slowest),
        sorted.len(),
    );
    Some(if slowest >= RESPONSE_TIMEOUT {
        Finding::risk(Topic::Latency, what)
            .why("a request without an answer fails after one second, unless `response_timeout` is set: locks are sometimes `Unavailable`")
            .advice(advice)
    } else if facts.ttl < safe {
        Finding::risk(Topic::Latency, what)
            .why(format!(
                "TTLs below {} are risky here: a lease is renewed after a third of its TTL, and a repeated \
                 renewal takes several round trips. The shortest TTL in use is {:?} (--ttl)",
                shown(safe),
                facts.ttl,
            ))
            .advice("use longer TTLs or a closer server")
    } else {
        Finding::ok(
            Topic::Latency,
            format!("{what}: sufficient for TTLs from {}", shown(safe)),
        )
    })
}

fn shown(duration: Duration) -> String {
    let us = duration.as_micros();
    match us {
        0..1_000 => format!("{us} µs"),
        1_000..10_000 => format!("{}.{} ms", us / 1_000, us % 1_000 / 100),
        10_000..10_000_000 => format!("{} ms", us / 1_000),
        _ => format!("{} s", us / 1_000_000),
    }
}
