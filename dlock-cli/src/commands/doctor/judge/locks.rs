//! The locks in the servers.

use super::super::{
    facts::{Facts, LockFacts, ServerFacts},
    finding::{Finding, Topic},
};
use crate::text::counted;

/// So many keys are named.
const NAMED: usize = 3;

pub(super) fn judge(facts: &Facts) -> Vec<Finding> {
    match &facts.locks {
        // Then that has been said for each of them.
        Err(_) if !facts.servers.iter().any(ServerFacts::answers) => Vec::new(),
        Err(reason) => {
            let what = format!("the locks could not be looked at: {reason}");
            vec![Finding::unknown(Topic::Locks, what)]
        }
        Ok(locks) => of(facts, locks),
    }
}

fn of(facts: &Facts, locks: &LockFacts) -> Vec<Finding> {
    let processes = locks.versions.values().sum();
    let what = format!(
        "{} held, {}, {}",
        counted(locks.held, "lock"),
        counted(locks.waiters, "waiter"),
        match processes {
            1 => "1 process".to_owned(),
            _ => format!("{processes} processes"),
        },
    );
    let mut findings = vec![Finding::ok(Topic::Locks, what)];
    if locks.dead_waiters > 0 {
        let what = format!(
            "{} gave no sign of life in time",
            counted(locks.dead_waiters, "waiter")
        );
        findings.push(
            Finding::note(Topic::Locks, what)
                .why("the processes were killed or are cut off; they are passed over, and removed when it is their turn"),
        );
    }
    if !locks.without_ttl.is_empty() {
        let what = format!("held without an end: {}", named(&locks.without_ttl));
        findings.push(
            Finding::risk(Topic::Locks, what)
                .why("if their client is gone, nobody ever gets them; dlock sets a TTL on all of its own")
                .advice("make sure that nobody is in there, then delete them by hand"),
        );
    }
    if !locks.foreign.is_empty() {
        let what = format!("not by dlock: {}", named(&locks.foreign));
        findings.push(if facts.raw_keys {
            Finding::note(Topic::Locks, what)
                .why("clients of another make hold them, which raw keys are for")
        } else {
            Finding::risk(Topic::Locks, what)
                .why("somebody else writes where dlock has its locks; they count as busy, and are never overwritten")
                .advice("find out who writes there, or choose another --namespace")
        });
    }
    if !locks.at_a_minority.is_empty() {
        let what = format!(
            "held at a minority of the servers: {}",
            named(&locks.at_a_minority)
        );
        findings.push(
            Finding::note(Topic::Locks, what)
                .why("usual for a moment, while somebody asks or leaves; what stays is forgotten after its TTL"),
        );
    }
    if locks.versions.len() > 1 {
        let versions: Vec<_> = locks
            .versions
            .iter()
            .map(|(version, count)| format!("{version} ({count})"))
            .collect();
        let what = format!(
            "processes with different versions of dlock: {}",
            versions.join(", ")
        );
        findings.push(Finding::note(Topic::Locks, what).why("usual during a roll-out"));
    }
    findings
}

fn named(keys: &[String]) -> String {
    let first: Vec<_> = keys
        .iter()
        .take(NAMED)
        .map(|it| format!("`{it}`"))
        .collect();
    let more = keys.len().saturating_sub(NAMED);
    match more {
        0 => first.join(", "),
        _ => format!("{} and {more} more", first.join(", ")),
    }
}
