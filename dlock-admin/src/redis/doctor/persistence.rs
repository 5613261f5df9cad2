//! Checks which leases survive a restart of the server.

use super::Layout;
use crate::{
    doctor::{Facts, Finding, Topic},
    model::ServerReport,
};

/// The guarantees that a loss of data does not affect.
const FENCES: &str = "Fencing tokens still grow, because they contain the server's clock";

pub(super) fn judge(layout: Layout, facts: &Facts, server: &ServerReport) -> Vec<Finding> {
    let mut findings = failing(server);
    findings.push(match server.field("aof_enabled") {
        Some("1") => with_log(layout, server.appendfsync.as_deref()),
        Some(_) => without_log(layout),
        None => Finding::unknown(
            Topic::Persistence,
            "`INFO` does not contain the state of the append-only file",
        ),
    });
    if let Some(seconds) = server.number::<u64>("uptime_in_seconds")
        && seconds < facts.ttl.as_secs()
        && layout == Layout::Quorum
    {
        let what = format!(
            "the server started {seconds} s ago, less than the TTL of {:?}",
            facts.ttl
        );
        findings.push(
            Finding::risk(Topic::Persistence, what)
                .why("a server of a quorum that lost leases can give a second client a majority")
                .advice("keep a restarted server out of the quorum for one maximum TTL"),
        );
    }
    findings
}

fn with_log(layout: Layout, flushed: Option<&str>) -> Finding {
    let of_quorum = layout == Layout::Quorum;
    let lost = |what: &str| {
        let then = if of_quorum {
            "then the server can give a second client a majority"
        } else {
            "then a second client can hold the lock until the first holder's next renewal"
        };
        format!("a power failure loses {what}, and {then}. {FENCES}")
    };
    let raise = |to: &str| {
        let or = if of_quorum {
            "or keep a restarted server out of the quorum for one maximum TTL"
        } else {
            "or let the resource check fencing tokens"
        };
        format!(
            "CONFIG SET appendfsync {to}, and the same in redis.conf; {or}, and accept this risk: --accept persistence"
        )
    };
    match flushed {
        Some("always") => Finding::ok(Topic::Persistence, "append-only file, flushed after each write"),
        Some("everysec") => {
            let what = "append-only file, flushed every second";
            let why = lost("the last second of leases");
            if of_quorum {
                let finding = Finding::risk(Topic::Persistence, what).why(why);
                finding.advice(raise("always"))
            } else {
                let finding = Finding::note(Topic::Persistence, what).why(why);
                finding.advice("`appendfsync always` loses no leases; or let the resource check fencing tokens")
            }
        }
        Some("no") => Finding::risk(
            Topic::Persistence,
            "append-only file, flushed by the operating system",
        )
        .why(lost("about the last 30 seconds of leases"))
        .advice(raise(if of_quorum { "always" } else { "everysec" })),
        Some(other) => {
            let what = format!("append-only file; `appendfsync` is `{other}`");
            Finding::unknown(Topic::Persistence, what)
        }
        // `INFO` does not contain the setting.
        None => Finding::unknown(
            Topic::Persistence,
            "append-only file; `appendfsync` could not be read",
        )
        .why(lost("the last second of leases, or much more"))
        .advice(
            "check `CONFIG GET appendfsync` as a user with that permission, then --accept unknown. Granting \
             +config|get works too, but that user can then read the server's passwords",
        ),
    }
}

fn without_log(layout: Layout) -> Finding {
    let what = "no append-only file: a restart loses leases";
    let finding = Finding::risk(Topic::Persistence, what);
    if layout == Layout::Quorum {
        return finding
            .why(format!(
                "a server that restarts empty can give a second client a majority. {FENCES}"
            ))
            .advice(
                "CONFIG SET appendonly yes, with appendfsync always, and the same in redis.conf; or keep \
                 a restarted server out of the quorum for one maximum TTL",
            );
    }
    finding
        .why(format!(
            "after a crash a second client can acquire the lock before the first holder's next renewal; \
             snapshots contain only the locks of some minutes ago. {FENCES}"
        ))
        .advice(
            "CONFIG SET appendonly yes, and the same in redis.conf; or let the resource check fencing \
             tokens, and accept this risk: --accept persistence",
        )
}

/// Failures that make a server refuse writes.
fn failing(server: &ServerReport) -> Vec<Finding> {
    let mut findings = Vec::new();
    if server.is("aof_last_write_status", "err") {
        findings.push(
            Finding::broken(Topic::Persistence, "the append-only file cannot be written")
                .why("the server refuses all writes until this is fixed: locks are `Unavailable`")
                .advice("check the server's log; the disk is probably full"),
        );
    }
    if server.is("rdb_last_bgsave_status", "err") {
        findings.push(
            Finding::risk(Topic::Persistence, "the last snapshot failed")
                .why("with `stop-writes-on-bgsave-error`, the default, the server refuses writes until a snapshot succeeds")
                .advice("check the server's log; the disk or the memory is probably full"),
        );
    }
    if server.is("aof_last_bgrewrite_status", "err") {
        findings.push(
            Finding::risk(
                Topic::Persistence,
                "the append-only file could not be rewritten",
            )
            .why("the file grows until the disk is full, and then the server refuses writes")
            .advice("check the server's log; the disk or the memory is probably full"),
        );
    }
    findings
}
