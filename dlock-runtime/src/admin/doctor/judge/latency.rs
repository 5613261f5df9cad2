//! Checks whether answers are fast enough for the TTLs in use.

use std::time::Duration;

use super::super::{
    facts::{Facts, ServerFacts},
    finding::{Finding, Topic},
};

/// The default limit of a request.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(1);

/// The shortest TTL that dlock accepts.
const SHORTEST: Duration = Duration::from_millis(100);

pub(super) fn judge(facts: &Facts, server: &ServerFacts) -> Option<Finding> {
    // Locks are not acquired at a replica.
    if !server.is_master() {
        return None;
    }
    let mut sorted = server.round_trips.clone();
    sorted.sort_unstable();
    let Some(&slowest) = sorted.last() else {
        return Some(
            Finding::unknown(Topic::Latency, "the latency could not be measured")
                .advice(format!("ACL SETUSER {} +ping", facts.user)),
        );
    };
    let median = sorted[sorted.len() / 2];
    let p99 = sorted[(sorted.len() * 99).div_ceil(100) - 1];
    // A lease is renewed after a third of its TTL. The rest of the TTL must suffice for two attempts and a
    // reconnection, which takes a few more round trips.
    let safe = (p99 * 20).max(SHORTEST);
    let what = format!(
        "PING: median {}, p99 {}, max {} ({} samples)",
        shown(median),
        shown(p99),
        shown(slowest),
        sorted.len(),
    );
    Some(if slowest >= RESPONSE_TIMEOUT {
        Finding::risk(Topic::Latency, what)
            .why("a request without an answer fails after one second, unless `response_timeout` is set: locks are sometimes `Unavailable`")
            .advice("check for slow commands (`SLOWLOG GET`), swapping, and network problems")
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

/// Checks whether scripts can publish wake-up messages.
pub(super) fn of_messages(server: &ServerFacts) -> Option<Finding> {
    let reason = server.unpublished.as_ref()?;
    let what = format!("scripts cannot publish on this server ({reason})");
    let why = "clients send each wake-up message themselves, so a grant to another process takes one more \
               round trip; if a client ends before it has sent the message, the waiter finds the grant at its \
               next poll, within 1.25 s";
    let advice = "no change is required; a server without sharded pub/sub avoids the round trip";
    Some(Finding::note(Topic::Latency, what).why(why).advice(advice))
}
