//! Judges if answers come fast enough for the TTLs in use.

use std::time::Duration;

use super::super::{
    facts::{Facts, ServerFacts},
    finding::{Finding, Topic},
};

/// A request that takes longer has failed.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(1);

/// The shortest TTL that dlock takes.
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
            Finding::unknown(Topic::Latency, "no answer to a PING was measured")
                .advice(format!("ACL SETUSER {} +ping", facts.user)),
        );
    };
    let median = sorted[sorted.len() / 2];
    let p99 = sorted[(sorted.len() * 99).div_ceil(100) - 1];
    // A renewal begins after a third of the TTL and has the rest of it for two tries and a lost
    // connection, which costs some round trips more.
    let safe = (p99 * 20).max(SHORTEST);
    let what = format!(
        "PING takes {}, p99 {}, at most {} ({} asked)",
        shown(median),
        shown(p99),
        shown(slowest),
        sorted.len(),
    );
    Some(if slowest >= RESPONSE_TIMEOUT {
        Finding::risk(Topic::Latency, what)
            .why("a request fails after a second without an answer, unless a manager sets another `response_timeout`: locks are `Unavailable` at times")
            .advice("look for slow commands (`SLOWLOG GET`), swapping, and the network")
    } else if facts.ttl < safe {
        Finding::risk(Topic::Latency, what)
            .why(format!(
                "TTLs below {} are risky here: a renewal begins after a third of the TTL, and needs some \
                 round trips if it has to be repeated; the shortest in use is {:?} (--ttl)",
                shown(safe),
                facts.ttl,
            ))
            .advice("use longer TTLs, or a server that is nearer")
    } else {
        Finding::ok(
            Topic::Latency,
            format!("{what}; enough for TTLs from {}", shown(safe)),
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

/// The time to wake a waiter.
pub(super) fn of_messages(server: &ServerFacts) -> Option<Finding> {
    let reason = server.unpublished.as_ref()?;
    let what = format!("scripts cannot publish here ({reason})");
    let why = "clients send each wake-up message themselves, so a hand-over to another process takes one \
               round trip more; a client that ends before it has sent one leaves the waiter to its poll, \
               which takes 1.25 s at most";
    let advice = "nothing, or use a server without sharded pub/sub";
    Some(Finding::note(Topic::Latency, what).why(why).advice(advice))
}
