//! Findings about the loss of locks on one server: eviction, restarts, power failures.

use super::{Layout, check, facts, server, single, worst};
use crate::doctor::{Severity, Topic};

#[test]
fn eviction_and_memory() {
    use Severity::{Broken, Note, Ok, Risk, Unknown};
    use Topic::{Eviction, Memory};
    for (changes, topic, severity, contains) in [
        (
            &[("maxmemory_policy", "allkeys-lru")][..],
            Eviction,
            Risk,
            "maxmemory-policy noeviction",
        ),
        (
            &[("maxmemory_policy", "volatile-ttl"), ("evicted_keys", "7")],
            Eviction,
            Risk,
            "evicted 7 keys",
        ),
        (
            &[("maxmemory_policy", "allkeys-lru"), ("maxmemory", "0")],
            Eviction,
            Note,
            "no memory limit",
        ),
        (&[("maxmemory", "")], Eviction, Unknown, "neither"),
        (
            &[("used_memory", "1536")],
            Memory,
            Ok,
            "1.5 KiB of 976.5 KiB used",
        ),
        (
            &[("used_memory", "5767168"), ("maxmemory", "3221225472")],
            Memory,
            Ok,
            "5.5 MiB of 3.0 GiB used",
        ),
        (&[("used_memory", "899999")], Memory, Ok, "used"),
        (&[("used_memory", "900000")], Memory, Risk, "nearly full"),
        (
            &[("used_memory", "1000000")],
            Memory,
            Broken,
            "refuses writes",
        ),
        (
            &[
                ("used_memory", "1000000"),
                ("maxmemory_policy", "allkeys-lru"),
            ],
            Memory,
            Ok,
            "used",
        ),
        (
            &[
                ("maxmemory", "0"),
                ("total_system_memory", "100"),
                ("used_memory_rss", "80"),
            ],
            Memory,
            Risk,
            "kills",
        ),
        (
            &[
                ("maxmemory", "0"),
                ("total_system_memory", "100"),
                ("used_memory_rss", "79"),
            ],
            Memory,
            Ok,
            "no limit",
        ),
        (&[("used_memory", "")], Memory, Unknown, "how much"),
    ] {
        check(&single(changes), topic, severity, contains);
    }
}

#[test]
fn effects_of_a_restart() {
    use Severity::{Broken, Risk, Unknown};
    use Topic::Persistence;
    for (changes, topic, severity, contains) in [
        (
            &[("aof_enabled", "0")][..],
            Persistence,
            Risk,
            "CONFIG SET appendonly yes",
        ),
        (&[("aof_enabled", "")], Persistence, Unknown, "append-only"),
        (
            &[("aof_last_write_status", "err")],
            Persistence,
            Broken,
            "disk is probably full",
        ),
        (
            &[("rdb_last_bgsave_status", "err")],
            Persistence,
            Risk,
            "snapshot",
        ),
        (
            &[("aof_last_bgrewrite_status", "err")],
            Persistence,
            Risk,
            "rewritten",
        ),
    ] {
        check(&single(changes), topic, severity, contains);
    }
}

#[test]
fn effects_of_a_power_failure() {
    use Layout::{Quorum, Sentinel, Single};
    use Severity::{Note, Ok, Risk, Unknown};
    for (layout, flushed, severity, contains) in [
        (Single, Some("always"), Ok, "after each write"),
        (Single, Some("everysec"), Note, "the last second"),
        (Single, Some("no"), Risk, "CONFIG SET appendfsync everysec"),
        (Single, None, Unknown, "CONFIG GET appendfsync"),
        (Single, Some("fortnightly"), Unknown, "`fortnightly`"),
        (Sentinel, Some("everysec"), Note, "the last second"),
        (Quorum, Some("always"), Ok, "after each write"),
        (
            Quorum,
            Some("everysec"),
            Risk,
            "CONFIG SET appendfsync always",
        ),
        (Quorum, Some("no"), Risk, "keep a restarted server out"),
        (Quorum, None, Unknown, "the last second of leases, or"),
    ] {
        let mut facts = facts(layout, vec![server("a:1", &[])]);
        facts.servers[0].appendfsync = flushed.map(str::to_owned);
        check(&facts, Topic::Persistence, severity, contains);
    }
}

#[test]
fn findings_about_lost_leases_mention_that_tokens_grow() {
    for layout in [Layout::Single, Layout::Sentinel, Layout::Quorum] {
        for logged in ["0", "1"] {
            let facts = facts(layout, vec![server("a:1", &[("aof_enabled", logged)])]);
            assert!(
                worst(&facts, Topic::Persistence)
                    .1
                    .contains("tokens still grow")
            );
        }
    }
}
