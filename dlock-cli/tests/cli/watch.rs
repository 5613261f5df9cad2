//! `dlock watch`: it prints changes until it is interrupted.

use std::{
    io::{BufRead, BufReader, pipe},
    process::Stdio,
};

use dlock_testkit::{RedisServer, Worker};
use rustix::process::Signal;
use serde_json::Value;

use super::{
    LIMIT, call, dlock, ended,
    reads::{manager, scene, set},
    run_signals::send,
    without_pace,
};

/// Reads lines of JSON.
fn events(stdout: &str) -> Vec<Value> {
    let lines = stdout.lines().map(serde_json::from_str);
    lines.map(Result::unwrap).collect()
}

#[tokio::test]
async fn changes_of_locks_are_printed() {
    let server = RedisServer::start().await;
    set(&server, b"dlock:{before}", b"foreign").await;
    let watch = Worker::spawn(&mut dlock(&server, &["watch", "-i", "20ms"]));
    watch
        .line("held      before  (third-party client)", LIMIT)
        .await;
    let scene = scene(&server).await;
    watch.line("acquired  order:1  billing@", LIMIT).await;
    watch.line("waits     order:1  mail@", LIMIT).await;
    scene.done.send(()).unwrap();
    watch.line("granted   order:1  mail@", LIMIT).await;
    scene
        .waiter
        .await
        .unwrap()
        .unwrap()
        .release()
        .await
        .unwrap();
    watch.line("released  order:1  mail@", LIMIT).await;
    send(&watch, Signal::INT);
    assert_eq!(without_pace(&ended(&watch).await.with(0).stderr), "");
}

#[tokio::test]
async fn every_line_of_json_is_a_document() {
    let server = RedisServer::start().await;
    set(&server, b"dlock:{a:0}", b"foreign").await;
    let words = ["--json", "watch", "a:*", "-i", "20ms"];
    let watch = Worker::spawn(&mut dlock(&server, &words));
    watch.line("a:0", LIMIT).await;
    let manager = manager(&server, "billing").await;
    let other = manager.lock("b:1").acquire().await.unwrap();
    let guard = manager.lock("a:1").acquire().await.unwrap();
    watch.line("\"event\":\"acquired\"", LIMIT).await;
    other.release().await.unwrap();
    guard.release().await.unwrap();
    watch.line("\"event\":\"released\"", LIMIT).await;
    send(&watch, Signal::INT);
    let ended = ended(&watch).await.with(0);
    let events = events(&ended.stdout);
    // A server that is too slow is an outage without a key.
    let of_locks = events.iter().filter(|event| !event["key"].is_null());
    let events: Vec<_> = of_locks
        .map(|event| {
            (
                event["event"].as_str().unwrap(),
                event["key"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        events,
        [("held", "a:0"), ("acquired", "a:1"), ("released", "a:1")]
    );
}

#[tokio::test]
async fn an_outage_is_reported_and_survived() {
    let server = RedisServer::start().await;
    set(&server, b"dlock:{before}", b"foreign").await;
    let watch = Worker::spawn(&mut dlock(&server, &["watch", "--json", "-i", "20ms"]));
    watch.line("before", LIMIT).await;
    server.kill();
    watch.line("\"event\":\"outage\"", LIMIT).await;
    server.restart().await;
    watch.line("\"event\":\"back\"", LIMIT).await;
    watch.line("\"event\":\"released\"", LIMIT).await;
    let events = events(&watch.stdout());
    let is_release = |event: &Value| event["event"] == "released";
    let released = events.iter().position(is_release).unwrap();
    let before = events[..released].iter().rev();
    // No reading found it since the last outage; one before it may be that of a server that was too slow.
    let outage = before
        .clone()
        .find(|event| event["event"] == "outage")
        .unwrap();
    let released = &events[released];
    let last_seen = released["last_seen"].as_str().unwrap();
    assert!(last_seen < outage["time"].as_str().unwrap(), "{released}");
    assert_eq!(outage["last_seen"], Value::Null);
    set(&server, b"dlock:{after}", b"foreign").await;
    watch.line("\"key\":\"after\"", LIMIT).await;
}

#[tokio::test]
async fn a_closed_output_ends_the_watch() {
    let server = RedisServer::start().await;
    set(&server, b"dlock:{before}", b"foreign").await;
    let mut command = dlock(&server, &["watch"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut first = String::new();
    lines.read_line(&mut first).unwrap();
    assert!(first.contains("before"), "{first}");
    drop(lines);
    // There are no more changes, so the program must notice the closed output by itself.
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(
        (output.status.code(), &*without_pace(&stderr)),
        (Some(0), "")
    );
}

#[tokio::test]
async fn a_closed_pipe_is_no_panic() {
    let server = RedisServer::start().await;
    set(&server, b"dlock:{job}", b"foreign").await;
    for words in [
        &["ls"][..],
        &["ls", "--json"],
        &["inspect", "job"],
        &["completions", "bash"],
        &["watch"],
    ] {
        let (reader, writer) = pipe().unwrap();
        drop(reader);
        let child = dlock(&server, words)
            .stdout(writer)
            .stderr(Stdio::piped())
            .spawn();
        let output = child.unwrap().wait_with_output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(
            (output.status.code(), &*without_pace(&stderr)),
            (Some(0), ""),
            "{words:?}"
        );
    }
}

#[tokio::test]
async fn an_interval_has_bounds() {
    let server = RedisServer::start().await;
    for interval in ["0s", "1ms", "25h", "soon"] {
        let refused = call(&mut dlock(&server, &["watch", "-i", interval]))
            .await
            .with(2);
        assert!(refused.stderr.contains("--interval"), "{}", refused.stderr);
    }
}

#[tokio::test]
async fn a_missing_permission_to_scan_is_an_error() {
    let server = RedisServer::start().await;
    let user = "SETUSER blind on >s3cret ~* &* +@all -scan";
    redis::cmd("ACL")
        .arg(user.split(' ').collect::<Vec<_>>())
        .exec_async(&mut server.connection().await)
        .await
        .expect("the server takes it");
    let mut command = dlock(&server, &["watch"]);
    let login = [("DLOCK_USER", "blind"), ("DLOCK_PASSWORD", "s3cret")];
    let ended = call(command.envs(login)).await.with(69);
    assert!(ended.stderr.contains("'scan'"), "{}", ended.stderr);
}

#[tokio::test]
async fn those_who_share_a_lock_come_and_go() {
    let server = RedisServer::start().await;
    let watch = Worker::spawn(&mut dlock(&server, &["watch", "-i", "20ms"]));
    let (one, other) = (
        manager(&server, "billing").await,
        manager(&server, "mail").await,
    );
    let first = one.lock("catalog").shared().acquire().await.unwrap();
    let line = watch.line("catalog  billing@", LIMIT).await;
    assert!(line.ends_with(", shared by 1"), "{line}");
    let second = other.lock("catalog").shared().acquire().await.unwrap();
    let line = watch.line("acquired  catalog  mail@", LIMIT).await;
    assert!(line.ends_with(", shared by 2"), "{line}");
    first.release().await.unwrap();
    let line = watch.line("released  catalog  billing@", LIMIT).await;
    assert!(line.ends_with(", shared by 1"), "{line}");
    second.release().await.unwrap();
    watch.line("released  catalog  mail@", LIMIT).await;
    send(&watch, Signal::INT);
    ended(&watch).await.with(0);
}
