//! Judges if a server may evict locks, or has no room for them.

use super::super::{
    facts::ServerFacts,
    finding::{Finding, Topic},
};

pub(super) fn judge(server: &ServerFacts) -> Vec<Finding> {
    let (Some(limit), Some(policy)) = (
        server.number::<u64>("maxmemory"),
        server.told("maxmemory_policy"),
    ) else {
        let what = "`INFO` tells neither the limit nor the policy";
        return vec![Finding::unknown(Topic::Eviction, what)];
    };
    vec![eviction(server, limit, policy), room(server, limit)]
}

fn eviction(server: &ServerFacts, limit: u64, policy: &str) -> Finding {
    if policy == "noeviction" {
        return Finding::ok(Topic::Eviction, "noeviction");
    }
    if limit == 0 {
        let what = format!("{policy}, but no limit to apply it at");
        return Finding::note(Topic::Eviction, what)
            .why("who sets `maxmemory` one day lets the server throw locks away")
            .advice("CONFIG SET maxmemory-policy noeviction");
    }
    let evicted = match server.number::<u64>("evicted_keys") {
        Some(count @ 1..) => format!("; it has evicted {count} keys since it started"),
        _ => String::new(),
    };
    // Locks have a TTL, so the `volatile` policies reach them as well.
    let what = format!("{policy} at {}: locks may be evicted{evicted}", size(limit));
    Finding::risk(Topic::Eviction, what)
        .why("an evicted lock is free: a second holder enters while the first one believes in its lease")
        .advice(
            "CONFIG SET maxmemory-policy noeviction, and the same in redis.conf; caches belong in \
             a server of their own",
        )
}

fn room(server: &ServerFacts, limit: u64) -> Finding {
    let Some(used) = server.number::<u64>("used_memory") else {
        return Finding::unknown(Topic::Memory, "`INFO` does not tell how much is used");
    };
    if limit > 0 {
        let what = format!("{} of {} used", size(used), size(limit));
        let share = percent(used, limit);
        // An evicting server at its limit throws other keys out, which has a finding of its own.
        let keeps = server.is("maxmemory_policy", "noeviction");
        return match share {
            100.. if keeps => Finding::broken(Topic::Memory, format!("full: {what}"))
                .why("a server without room refuses to write: locks are `Unavailable`")
                .advice("raise `maxmemory`, or remove what else is in there"),
            90.. if keeps => Finding::risk(Topic::Memory, format!("nearly full: {what}"))
                .why("at the limit it refuses to write, and locks are `Unavailable`")
                .advice("raise `maxmemory`, or remove what else is in there"),
            _ => Finding::ok(Topic::Memory, what),
        };
    }
    let resident = server.number::<u64>("used_memory_rss").unwrap_or(used);
    match server.number::<u64>("total_system_memory") {
        Some(machine @ 1..) => {
            let what = format!(
                "{} of the machine's {}, no limit",
                size(resident),
                size(machine)
            );
            if percent(resident, machine) >= 80 {
                return Finding::risk(Topic::Memory, what)
                    .why(
                        "a machine that runs out of memory kills the server, and leases go with it",
                    )
                    .advice("set `maxmemory` with the policy `noeviction`");
            }
            Finding::ok(Topic::Memory, what)
        }
        _ => Finding::ok(Topic::Memory, format!("{} used, no limit", size(used))),
    }
}

fn percent(part: u64, whole: u64) -> u64 {
    part.saturating_mul(100) / whole
}

/// Bytes as people say them.
fn size(bytes: u64) -> String {
    let (unit, name) = match bytes {
        0..1_048_576 => (1 << 10, "KiB"),
        1_048_576..1_073_741_824 => (1 << 20, "MiB"),
        _ => (1 << 30, "GiB"),
    };
    let tenths = bytes.saturating_mul(10) / unit;
    format!("{}.{} {name}", tenths / 10, tenths % 10)
}
