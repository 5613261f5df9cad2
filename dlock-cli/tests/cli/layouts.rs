//! Every command with every kind of URL: Sentinels, clusters, quorums, TLS and sockets.

use std::process::Command;

use dlock_testkit::{Authority, Cluster, RedisServer, Sentinels, Worker, eventually};
use serde_json::Value;

use super::{Ended, LIMIT, call, clean, ended, quorum, until_answered};

fn at(url: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dlock"));
    clean(&mut command);
    command.env("DLOCK_URL", url).args(arguments);
    command
}

fn json(ended: &Ended) -> Value {
    serde_json::from_str(&ended.stdout).expect("it is JSON")
}

/// Runs the usual commands in the usual order, with keys in different slots of a cluster.
async fn assert_usable(url: &str, servers: u64) {
    let keys = ["job:1", "job:2", "job:3", "job:4"];
    let holders = keys.map(|key| {
        let words = ["run", key, "--", "sh", "-c", "echo in; exec sleep 600"];
        Worker::spawn(&mut at(url, &words))
    });
    for holder in &holders {
        holder.line("in", LIMIT).await;
    }
    let busy = ["run", "--no-wait", "job:1", "echo", "ran"];
    let busy = call(&mut at(url, &busy)).await.with(75);
    assert!(busy.stderr.contains("dlock-run:sh@"), "{}", busy.stderr);
    let waits = ["run", "--wait", "forever", "job:1", "echo", "next"];
    let waiter = Worker::spawn(&mut at(url, &waits));
    let inspect = ["inspect", "--json", "job:1"];
    eventually(LIMIT, "there is a waiter", async || {
        let lock = json(&call(&mut at(url, &inspect)).await.with(0));
        lock["waiter_count"] == 1
    })
    .await;

    let listed = json(&call(&mut at(url, &["ls", "--json"])).await.with(0));
    let listed = listed.as_array().expect("it is a list");
    // Where it takes more than a second, the list has several pages.
    let mut names: Vec<_> = listed.iter().map(|it| it["key"].as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, keys.map(Some));
    let lock = json(&call(&mut at(url, &inspect)).await.with(0));
    assert_eq!(lock, lock_of(listed, &lock), "they are told alike");
    assert_eq!(
        (&lock["held_at"], &lock["servers"]),
        (&servers.into(), &servers.into())
    );
    let shown = call(&mut at(url, &["ls", "job:[12]"])).await.with(0);
    assert_eq!(shown.stdout.lines().count(), 3, "{}", shown.stdout);
    let once = call(&mut at(url, &["top", "--once", "--json"]))
        .await
        .with(0);
    assert_eq!(json(&once)["locks"].as_array().map(Vec::len), Some(4));

    let unlocked = ["unlock", "--json", "--yes", "job:1"];
    let unlocked = json(&call(&mut at(url, &unlocked)).await.with(0));
    assert_eq!(unlocked["holder"]["label"], lock["holder"]["label"]);
    ended(&holders[0]).await.with(76);
    assert_eq!(ended(&waiter).await.with(0).stdout, "next\n");
    call(&mut at(url, &inspect)).await.with(1);
    for (key, holder) in keys.iter().zip(&holders).skip(1) {
        call(&mut at(url, &["unlock", "--yes", key])).await.with(0);
        ended(holder).await.with(76);
    }
    let nothing = call(&mut at(url, &["ls", "--json"])).await.with(0);
    assert_eq!(json(&nothing), Value::Array(Vec::new()));

    let bench = ["bench", "--seconds", "0.1", "--tasks", "2", "--json"];
    call(&mut at(url, &bench)).await.with(0);
    let doctor = ["doctor", "--json"];
    let examined = until_answered(async || call(&mut at(url, &doctor)).await);
    let examined = json(&examined.await.with(1));
    let findings = examined["findings"].as_array().expect("it is a list");
    let broken = findings.iter().find(|it| it["severity"] == "broken");
    assert_eq!(broken, None);
}

/// Returns the listed lock with the key of `other`, with the times of `other`, which change.
fn lock_of(listed: &[Value], other: &Value) -> Value {
    let found = listed.iter().find(|it| it["key"] == other["key"]);
    let mut found = found.expect("it is listed").clone();
    for time in ["held_ms", "ttl_ms", "since"] {
        found["holder"][time] = other["holder"][time].clone();
        found["holders"][0][time] = other["holders"][0][time].clone();
    }
    found["waiters"][0]["waiting_ms"] = other["waiters"][0]["waiting_ms"].clone();
    found
}

#[tokio::test]
async fn behind_sentinels() {
    let sentinels = Sentinels::pooled().await;
    assert_usable(&format!("{}?min_replicas=1", sentinels.url()), 1).await;
}

#[tokio::test]
async fn in_a_cluster() {
    let cluster = Cluster::start(3, 0).await;
    assert_usable(&cluster.url(), 1).await;
}

#[tokio::test]
async fn at_a_quorum() {
    let (_servers, url) = quorum().await;
    assert_usable(&url, 3).await;
}

#[tokio::test]
async fn over_tls() {
    let authority = Authority::new();
    let identity = authority.issue(&["127.0.0.1"]);
    let server = RedisServer::start_with_tls(&identity, None, &[]).await;
    assert_usable(&server.tls_url(&authority), 1).await;
    let strange = call(&mut at(&server.tls_url(&Authority::new()), &["ls"]))
        .await
        .with(69);
    let port = server.tls_port().to_string();
    assert!(strange.stderr.contains(&port), "{}", strange.stderr);
}

#[tokio::test]
async fn by_a_socket() {
    let server = RedisServer::start().await;
    let socket = server.socket();
    assert_usable(&format!("redis+unix://{}", socket.display()), 1).await;
}
