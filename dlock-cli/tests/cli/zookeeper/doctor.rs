//! `dlock doctor` over ZooKeeper.

use dlock_testkit::{Ensemble, ZooKeepers, eventually};
use serde_json::Value;

use super::{Namespace, SESSION};
use crate::{
    LIMIT, call,
    cases::{Place, at, json},
    until_answered,
};

/// The tests' servers are on one machine, and share its processors. Their version may have known faults.
const ACCEPTED: [&str; 2] = ["--accept", "latency,quorum,version"];

/// Returns the findings, after a check of the exit code.
async fn findings(url: &str, namespace: &str, code: i32) -> Value {
    let words = [&["doctor", "--json"][..], &ACCEPTED].concat();
    let ended = until_answered(async || call(&mut at(url, namespace, &words)).await).await;
    json(&ended.with(code).stdout)
}

fn has(told: &Value, severity: &str, topic: &str, part: &str) -> bool {
    told["findings"].as_array().unwrap().iter().any(|it| {
        let says = ["what", "why", "do"].map(|name| it[name].as_str().unwrap_or_default());
        it["topic"] == topic && it["severity"] == severity && says.join("|").contains(part)
    })
}

#[track_caller]
fn about(told: &Value, all: &[(&str, &str, &str)]) {
    for (severity, topic, part) in all {
        let found = has(told, severity, topic, part);
        assert!(found, "no {severity} {topic} with `{part}`: {told:#}");
    }
}

#[tokio::test]
async fn servers_are_examined_and_nothing_is_written() {
    let namespace = Namespace::new("doctor").await;
    let manager = namespace.manager("billing").await;
    let guard = manager.lock("order:1").acquire().await.unwrap();
    let nodes = async |path: &str| namespace.client.list_children(path).await.unwrap();
    let before = (nodes("/doctor").await, nodes("/doctor/fence").await);
    let told = findings(&namespace.servers.url(SESSION), "doctor", 0).await;
    let after = (nodes("/doctor").await, nodes("/doctor/fence").await);
    assert_eq!(before, after);
    about(
        &told,
        &[
            ("ok", "role", "leader"),
            ("ok", "role", "follower"),
            ("ok", "sessions", "sessions of 120s are allowed"),
            ("ok", "sessions", "the shortest session is 1s"),
            ("ok", "permissions", "all permissions"),
            ("note", "permissions", "belong to no user"),
            ("ok", "quorum", "3 of 3 members in the URL answer"),
            ("risk", "quorum", "3 servers on 1 host"),
            ("ok", "locks", "the base of fencing tokens is there"),
            ("ok", "locks", "1 lock held, 0 waiters"),
        ],
    );
    let is_judged = |(severity, part)| has(&told, severity, "version", part);
    let judged = [("ok", "ZooKeeper 3."), ("risk", "update to 3.9.4 or later")];
    assert!(judged.into_iter().any(is_judged), "{told:#}");
    assert_eq!(told["layout"], "ensemble");
    assert!(!told.to_string().contains("clock"), "{told:#}");
    // One address of three.
    let told = findings(&namespace.url(), "doctor", 0).await;
    about(&told, &[("note", "quorum", "does not name 2 members")]);
    guard.release().await.unwrap();
}

#[tokio::test]
async fn what_would_break_locks_is_named() {
    let namespace = Namespace::new("wrong").await;
    let host = format!("127.0.0.1:{}", namespace.servers.port(0));
    // The servers keep sessions for two minutes at most.
    let url = format!("zookeeper://{host}?session=300s&tick=200ms");
    let told = findings(&url, "wrong", 1).await;
    about(
        &told,
        &[
            ("broken", "sessions", "write `session=120000ms`"),
            ("unknown", "sessions", "may be 500ms, more than the 200ms"),
            ("note", "locks", "no base of fencing tokens"),
        ],
    );
    // Nodes of another user.
    let url = namespace.url();
    let login = url.replace("://", "://shop:hush@");
    let shop = super::builder("shop").namespace("wrong");
    let shop = shop.connect(&login).await.unwrap();
    let guard = shop.lock("order:1").acquire().await.unwrap();
    let told = findings(&url, "wrong", 1).await;
    about(
        &told,
        &[
            ("broken", "permissions", "may not write the nodes of locks"),
            ("risk", "permissions", "may not read the nodes of locks"),
            ("unknown", "locks", "permission denied"),
        ],
    );
    guard.release().await.unwrap();
}

#[tokio::test]
async fn servers_that_do_not_answer_and_a_missing_majority_are_named() {
    let servers = ZooKeepers::start().await;
    let url = servers.url(SESSION);
    let words = [&["doctor", "--json"][..], &ACCEPTED].concat();
    let told_with = async |code: i32, severity: &str, topic: &str, part: &str| {
        let ended = call(&mut at(&url, "dlock", &words)).await;
        ended.code == Some(code) && has(&json(&ended.stdout), severity, topic, part)
    };
    servers.kill(2);
    eventually(4 * LIMIT, "one is missing", async || {
        told_with(1, "risk", "quorum", "2 of 3 members in the URL answer").await
    })
    .await;
    servers.kill(1);
    // The last one is there, but makes no sessions: nobody can tell it from one that is down.
    eventually(4 * LIMIT, "none has a majority", async || {
        told_with(69, "broken", "connection", "have no majority").await
    })
    .await;
}
