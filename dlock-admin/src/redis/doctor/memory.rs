//! Checks whether a server can evict locks, or runs out of memory.

use crate::{
    doctor::{Finding, Topic},
    model::ServerReport,
};

pub(super) fn judge(server: &ServerReport) -> Vec<Finding> {
    let (Some(limit), Some(policy)) = (
        server.number::<u64>("maxmemory"),
        server.field("maxmemory_policy"),
    ) else {
        let what = "`INFO` contains neither `maxmemory` nor its policy";
        return vec![Finding::unknown(Topic::Eviction, what)];
    };
    vec![eviction(server, limit, policy), room(server, limit)]
}

fn eviction(server: &ServerReport, limit: u64, policy: &str) -> Finding {
    if policy == "noeviction" {
        return Finding::ok(Topic::Eviction, "noeviction");
    }
    if limit == 0 {
        let what = format!("{policy}, but no memory limit is set");
        return Finding::note(Topic::Eviction, what)
            .why("if `maxmemory` is set later, the server can evict locks")
            .advice("CONFIG SET maxmemory-policy noeviction");
    }
    let evicted = match server.number::<u64>("evicted_keys") {
        Some(count @ 1..) => format!("; the server evicted {count} keys since its start"),
        _ => String::new(),
    };
    // Locks have a TTL, so the `volatile` policies can evict them too.
    let what = format!(
        "{policy} at {}: the server can evict locks{evicted}",
        size(limit)
    );
    Finding::risk(Topic::Eviction, what)
        .why("an evicted lock is free: a second client can acquire it before the first holder's next renewal")
        .advice(
            "CONFIG SET maxmemory-policy noeviction, and the same in redis.conf; use a separate server \
             for caches",
        )
}

fn room(server: &ServerReport, limit: u64) -> Finding {
    let Some(used) = server.number::<u64>("used_memory") else {
        return Finding::unknown(
            Topic::Memory,
            "`INFO` does not contain how much memory is used",
        );
    };
    if limit > 0 {
        let what = format!("{} of {} used", size(used), size(limit));
        let share = percent(used, limit);
        // A server that evicts keys at its limit has a finding about eviction.
        let keeps = server.is("maxmemory_policy", "noeviction");
        return match share {
            100.. if keeps => Finding::broken(Topic::Memory, format!("full: {what}"))
                .why("a server without free memory refuses writes: locks are `Unavailable`")
                .advice("raise `maxmemory`, or remove other data"),
            90.. if keeps => Finding::risk(Topic::Memory, format!("nearly full: {what}"))
                .why("at the limit the server refuses writes: locks are `Unavailable`")
                .advice("raise `maxmemory`, or remove other data"),
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
                        "the operating system kills the server when memory runs out, and its leases are lost",
                    )
                    .advice("set `maxmemory`, with the policy `noeviction`");
            }
            Finding::ok(Topic::Memory, what)
        }
        _ => Finding::ok(Topic::Memory, format!("{} used, no limit", size(used))),
    }
}

fn percent(part: u64, whole: u64) -> u64 {
    part.saturating_mul(100) / whole
}

/// Formats a number of bytes.
fn size(bytes: u64) -> String {
    let (unit, name) = match bytes {
        0..1_048_576 => (1 << 10, "KiB"),
        1_048_576..1_073_741_824 => (1 << 20, "MiB"),
        _ => (1 << 30, "GiB"),
    };
    let tenths = bytes.saturating_mul(10) / unit;
    format!("{}.{} {name}", tenths / 10, tenths % 10)
}
