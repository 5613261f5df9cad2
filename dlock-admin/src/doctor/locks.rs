//! Checks the locks on the servers.

use std::time::Duration;

use super::{
    facts::{Facts, LockFacts},
    finding::{Finding, Topic},
    text::counted,
};
use crate::model::ServerReport;

/// The facts about a store that the check of its locks needs.
#[derive(Clone, Copy, Debug, Default)]
pub struct LockRules {
    /// `true` if the reports say that the user may lock, and not list locks.
    pub are_hidden: bool,
    /// `true` if other programs may keep locks of their own there, as with raw keys in Redis.
    pub has_others: bool,
}

/// The number of keys in a message.
const NAMED: usize = 3;

/// Judges the locks: those that are held for long, have no TTL, or were not written by dlock.
///
/// ```
/// use dlock::admin::{ServerReport, doctor::{Facts, LockRules, locks}};
///
/// let mut facts = Facts::unknown();
/// facts.servers.push(ServerReport::new("postgres://db.internal/shop"));
/// let rules = LockRules { are_hidden: true, ..LockRules::default() };
/// assert_eq!(locks(&facts, rules)[0].what, "the locks were not read: the user may not list them");
/// ```
#[must_use]
pub fn locks(facts: &Facts, rules: LockRules) -> Vec<Finding> {
    match &facts.locks {
        // Each server has a finding about its connection.
        Err(_) if !facts.servers.iter().any(ServerReport::answers) => Vec::new(),
        Err(_) if rules.are_hidden => {
            let what = "the locks were not read: the user may not list them";
            vec![
                Finding::note(Topic::Locks, what)
                    .why("the user of a service does not need it")
                    .advice(
                        "run `dlock doctor` as the user of an operator, too, to check the locks",
                    ),
            ]
        }
        Err(reason) => {
            let what = format!("the locks could not be read: {reason}");
            vec![Finding::unknown(Topic::Locks, what)]
        }
        Ok(locks) => findings(rules, locks),
    }
}

fn findings(rules: LockRules, locks: &LockFacts) -> Vec<Finding> {
    let what = format!(
        "{} held, {}{}",
        counted(locks.held, "lock"),
        counted(locks.waiters, "waiter"),
        match locks.processes {
            None => String::new(),
            Some(1) => ", 1 process".to_owned(),
            Some(processes) => format!(", {processes} processes"),
        },
    );
    let mut findings = vec![Finding::ok(Topic::Locks, what)];
    if locks.dead_waiters > 0 {
        let what = format!("{} stopped polling", counted(locks.dead_waiters, "waiter"));
        findings.push(
            Finding::note(Topic::Locks, what)
                .why("their processes crashed or cannot reach the server; they are skipped, and removed when it is their turn"),
        );
    }
    if !locks.held_long.is_empty() {
        let mut longest = locks.held_long.clone();
        longest.sort_by_key(|it| std::cmp::Reverse(it.1));
        let of =
            |(key, held): &(String, Duration)| format!("`{key}` for {} min", held.as_secs() / 60);
        let what = format!(
            "locks that are held for long: {}",
            some(longest.iter().map(of))
        );
        findings.push(
            Finding::note(Topic::Locks, what)
                .why("a body that hangs keeps its lock, because its lease is renewed; a leader holds one by design")
                .advice("see the holder with `dlock inspect KEY`; `max_hold` ends a body that hangs"),
        );
    }
    if !locks.without_ttl.is_empty() {
        let what = format!("locks without a TTL: {}", named(&locks.without_ttl));
        findings.push(
            Finding::risk(Topic::Locks, what)
                .why("if their client crashed, these locks stay held forever; dlock itself always sets a TTL")
                .advice("make sure that no client uses these locks, then remove them with `dlock unlock`"),
        );
    }
    if !locks.foreign.is_empty() {
        let what = format!("not written by dlock: {}", named(&locks.foreign));
        findings.push(if rules.has_others {
            Finding::note(Topic::Locks, what)
                .why("third-party clients hold these locks, as intended with --raw-keys")
        } else {
            Finding::risk(Topic::Locks, what)
                .why("another program writes keys in the namespace of dlock. These locks are busy; dlock never overwrites them")
                .advice("find the program that writes these keys, or use another --namespace")
        });
    }
    if !locks.at_a_minority.is_empty() {
        let what = format!(
            "held at a minority of the servers: {}",
            named(&locks.at_a_minority)
        );
        findings.push(
            Finding::note(Topic::Locks, what)
                .why("normal for a short time, during an acquire or a release; the rest expires with its TTL"),
        );
    }
    if !locks.half_used_up.is_empty() {
        let what = format!(
            "keys that have used more than half of their numbers for claims: {}",
            named(&locks.half_used_up)
        );
        findings.push(
            Finding::risk(Topic::Locks, what)
                .why("ZooKeeper has 2^31 for a key; at the end, a key lets in no more until it was free for a moment")
                .advice("let the key be free for a moment, without a holder and without waiters: then it begins anew"),
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
        findings.push(Finding::note(Topic::Locks, what).why("normal during a rollout"));
    }
    findings
}

fn named(keys: &[String]) -> String {
    some(keys.iter().map(|it| format!("`{it}`")))
}

fn some(mut all: impl ExactSizeIterator<Item = String>) -> String {
    let first: Vec<_> = all.by_ref().take(NAMED).collect();
    let more = all.len();
    match more {
        0 => first.join(", "),
        _ => format!("{} and {more} more", first.join(", ")),
    }
}
