//! Checks whether answers are fast enough, and whether scripts can wake waiters.

use super::{RedisJudge, is_master};
use crate::{
    doctor::{Facts, Finding, Topic, of_requests},
    model::ServerReport,
};

pub(super) fn judge(judge: &RedisJudge, facts: &Facts, server: &ServerReport) -> Option<Finding> {
    // Locks are not acquired at a replica.
    if !is_master(server) {
        return None;
    }
    let advice = "check for slow commands (`SLOWLOG GET`), swapping, and network problems";
    let measured = of_requests(facts, server, "PING", advice);
    Some(measured.unwrap_or_else(|| {
        Finding::unknown(Topic::Latency, "the latency could not be measured")
            .advice(format!("ACL SETUSER {} +ping", judge.user))
    }))
}

/// Checks whether scripts can publish wake-up messages.
pub(super) fn of_messages(server: &ServerReport) -> Option<Finding> {
    let reason = server.unpublished.as_ref()?;
    let what = format!("scripts cannot publish on this server ({reason})");
    let why = "clients send each wake-up message themselves, so a grant to another process takes one more \
               round trip; if a client ends before it has sent the message, the waiter finds the grant at its \
               next poll, within 1.25 s";
    let advice = "no change is required; a server without sharded pub/sub avoids the round trip";
    Some(Finding::note(Topic::Latency, what).why(why).advice(advice))
}
