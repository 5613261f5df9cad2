//! Tests of the findings for each state of servers.

mod durability;
mod one_server;
mod several;

use std::{
    ops::{Deref, DerefMut},
    time::Duration,
};

use dlock_runtime::store::{StoreError, StoreErrorKind};

use super::{Layout, RedisJudge};
use crate::{
    doctor::{Facts, Finding, LockFacts, Severity, Topic, findings},
    model::{ClockReading, ServerReport},
};

/// Servers, and what the configuration says about them.
#[derive(Clone)]
struct Case {
    judge: RedisJudge,
    facts: Facts,
}

impl Deref for Case {
    type Target = Facts;

    fn deref(&self) -> &Facts {
        &self.facts
    }
}

impl DerefMut for Case {
    fn deref_mut(&mut self) -> &mut Facts {
        &mut self.facts
    }
}

fn judge(case: &Case) -> Vec<Finding> {
    findings(&case.judge, &case.facts)
}

const FINE: &[(&str, &str)] = &[
    ("redis_version", "7.0.15"),
    ("redis_mode", "standalone"),
    ("role", "master"),
    ("cluster_enabled", "0"),
    ("loading", "0"),
    ("maxmemory", "1000000"),
    ("maxmemory_policy", "noeviction"),
    ("used_memory", "1000"),
    ("aof_enabled", "1"),
    ("aof_last_write_status", "ok"),
    ("rdb_last_bgsave_status", "ok"),
    ("connected_clients", "10"),
    ("maxclients", "10000"),
    ("instantaneous_ops_per_sec", "5"),
    ("latest_fork_usec", "200"),
    ("uptime_in_seconds", "86400"),
];

fn server(name: &str, changes: &[(&str, &str)]) -> ServerReport {
    let own = [("run_id", name)];
    let mut report = ServerReport::new(format!("redis://{name}"));
    for &(name, value) in own.iter().chain(FINE).chain(changes) {
        report.set(name, value);
    }
    // A test removes a field by setting it to an empty text.
    report.info.retain(|_, value| !value.is_empty());
    report.appendfsync = Some("everysec".to_owned());
    report.clock = Some(clock(0));
    report.round_trips = vec![Duration::from_micros(100); 20];
    report
}

fn clock(ahead_ms: i64) -> ClockReading {
    ClockReading::new(ahead_ms * 1000, Duration::from_micros(50))
}

/// A failure of a server that did not answer.
fn no_answer(text: &str) -> StoreError {
    StoreError::new(StoreErrorKind::Unreachable, text)
}

fn facts(layout: Layout, servers: Vec<ServerReport>) -> Case {
    Case {
        judge: RedisJudge {
            layout,
            min_replicas: 0,
            sentinels: 3,
            is_open: false,
            names_user: true,
            user: "app".to_owned(),
            raw_keys: false,
        },
        facts: Facts {
            servers,
            locks: Ok(LockFacts::default()),
            ..Facts::unknown()
        },
    }
}

fn single(changes: &[(&str, &str)]) -> Case {
    facts(Layout::Single, vec![server("a:1", changes)])
}

/// Returns the worst finding about a topic: its severity and its text.
fn worst(facts: &Case, topic: Topic) -> (Severity, String) {
    let findings = judge(facts);
    let about = findings.iter().filter(|it| it.topic == topic);
    let worst = about.max_by_key(|it| it.severity);
    let worst = worst.unwrap_or_else(|| panic!("nothing about {topic:?}: {findings:#?}"));
    let Finding {
        what, why, advice, ..
    } = worst;
    let text = [Some(what), why.as_ref(), advice.as_ref()];
    let text = text.map(|it| it.map_or("", String::as_str)).join(" | ");
    (worst.severity, text)
}

#[track_caller]
fn check(facts: &Case, topic: Topic, severity: Severity, contains: &str) {
    let (found, text) = worst(facts, topic);
    assert_eq!(found, severity, "{topic:?}: {text}");
    assert!(text.contains(contains), "{topic:?}: {text}");
}
