//! The effect of a server's restart on leases.

use super::super::{
    facts::{Facts, Layout, ServerFacts},
    finding::{Finding, Topic},
};

/// The reason why not all data is lost.
const FENCES: &str = "Fencing tokens still grow, as they are never below the server's clock";

pub(super) fn judge(facts: &Facts, server: &ServerFacts) -> Vec<Finding> {
    let mut findings = failing(server);
    findings.push(match server.told("aof_enabled") {
        Some("1") => with_log(facts.layout, server.appendfsync.as_deref()),
        Some(_) => without_log(facts.layout),
        None => Finding::unknown(
            Topic::Persistence,
            "`INFO` does not tell of the append-only file",
        ),
    });
    if let Some(seconds) = server.number::<u64>("uptime_in_seconds")
        && seconds < facts.ttl.as_secs()
        && facts.layout == Layout::Quorum
    {
        let what = format!(
            "it started {seconds} s ago, less than a TTL of {:?}",
            facts.ttl
        );
        findings.push(
            Finding::risk(Topic::Persistence, what)
                .why("a server of a quorum that has forgotten leases helps a second holder to a majority")
                .advice("keep a restarted server out for one maximal TTL"),
        );
    }
    findings
}

fn with_log(layout: Layout, flushed: Option<&str>) -> Finding {
    let of_quorum = layout == Layout::Quorum;
    let lost = |what: &str| {
        let then = if of_quorum {
            "the server may help a second holder to a majority"
        } else {
            "a second holder may enter until the first one's next renewal"
        };
        format!("a power cut loses {what}, and {then}. {FENCES}")
    };
    let raise = |to: &str| {
        let or = if of_quorum {
            "or keep a restarted server out for one maximal TTL"
        } else {
            "or let the resource check tokens"
        };
        format!(
            "CONFIG SET appendfsync {to}, and the same in redis.conf; {or}, and accept this: --accept persistence"
        )
    };
    match flushed {
        Some("always") => Finding::ok(Topic::Persistence, "append-only file, flushed by each write"),
        Some("everysec") => {
            let what = "append-only file, flushed each second";
            let why = lost("the last second of leases");
            if of_quorum {
                let finding = Finding::risk(Topic::Persistence, what).why(why);
                finding.advice(raise("always"))
            } else {
                let finding = Finding::note(Topic::Persistence, what).why(why);
                finding.advice("`appendfsync always` loses none; let the resource check tokens")
            }
        }
        Some("no") => Finding::risk(
            Topic::Persistence,
            "append-only file, flushed when the machine sees fit",
        )
        .why(lost("the last half minute of leases or so"))
        .advice(raise(if of_quorum { "always" } else { "everysec" })),
        Some(other) => {
            let what = format!("append-only file; `appendfsync` is `{other}`");
            Finding::unknown(Topic::Persistence, what)
        }
        // `INFO` does not show it either.
        None => Finding::unknown(
            Topic::Persistence,
            "append-only file; how often it is flushed could not be asked",
        )
        .why(lost("the last second of leases, or far more"))
        .advice(
            "let somebody with the right for it look at `CONFIG GET appendfsync`, and then --accept unknown; \
             +config|get would do too, but whoever has it can read the server's passwords",
        ),
    }
}

fn without_log(layout: Layout) -> Finding {
    let what = "no append-only file: a restart forgets leases";
    let finding = Finding::risk(Topic::Persistence, what);
    if layout == Layout::Quorum {
        return finding
            .why(format!(
                "a server that returns empty helps a second holder to a majority. {FENCES}"
            ))
            .advice(
                "CONFIG SET appendonly yes, with appendfsync always, and the same in redis.conf; or keep \
                 a restarted server out for one maximal TTL",
            );
    }
    finding
        .why(format!(
            "after a crash a second holder enters while the first one believes in its lease, until its \
             next renewal; a snapshot has only what was held minutes ago. {FENCES}"
        ))
        .advice(
            "CONFIG SET appendonly yes, and the same in redis.conf; or let the resource check tokens, \
             and accept this: --accept persistence",
        )
}

/// Failures that make a server refuse writes.
fn failing(server: &ServerFacts) -> Vec<Finding> {
    let mut findings = Vec::new();
    if server.is("aof_last_write_status", "err") {
        findings.push(
            Finding::broken(Topic::Persistence, "the append-only file cannot be written")
                .why("the server refuses all writes until it can: locks are `Unavailable`")
                .advice("see its log; most often the disk is full"),
        );
    }
    if server.is("rdb_last_bgsave_status", "err") {
        findings.push(
            Finding::risk(Topic::Persistence, "the last snapshot failed")
                .why("with `stop-writes-on-bgsave-error`, its default, the server refuses writes until one succeeds")
                .advice("see its log; most often the disk or the memory is full"),
        );
    }
    if server.is("aof_last_bgrewrite_status", "err") {
        findings.push(
            Finding::risk(
                Topic::Persistence,
                "the append-only file could not be rewritten",
            )
            .why("it grows until the disk is full, and then the server refuses writes")
            .advice("see its log; most often the disk or the memory is full"),
        );
    }
    findings
}
