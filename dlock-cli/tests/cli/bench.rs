//! `dlock bench` on a separate server.

use dlock_testkit::{RedisServer, Worker, eventually};
use serde_json::Value;

use super::{LIMIT, call, dlock, ended, eventually_nothing_is_left};

#[tokio::test]
async fn everything_is_measured_and_nothing_is_left() {
    let server = RedisServer::start().await;
    let arguments = ["bench", "--seconds", "0.2", "--tasks", "4", "--json"];
    let ended = call(&mut dlock(&server, &arguments)).await.with(0);
    let told: Value = serde_json::from_str(&ended.stdout).expect("it is one JSON document");
    let measured = told["measurements"].as_array().expect("it is a list");
    let names = measured
        .iter()
        .map(|it| it["name"].as_str().unwrap_or_default());
    let names: Vec<_> = names.collect();
    let all = [
        "ping",
        "one_task",
        "tasks_apart",
        "tasks_together",
        "hand_over",
    ];
    assert_eq!(names, all);
    for measured in measured {
        let number = |name: &str| measured[name].as_f64().unwrap_or_default();
        assert!(number("count") >= 1.0, "{measured}");
        assert!(number("p50_us") > 0.0, "{measured}");
        assert!(number("p50_us") <= number("p95_us"), "{measured}");
        assert!(number("p99_us") <= number("max_us"), "{measured}");
        assert!(number("p50_to_ping") > 0.0, "{measured}");
    }
    assert!(
        ended.stderr.contains("dlock-bench:"),
        "it says what it does: {}",
        ended.stderr
    );
    eventually_nothing_is_left(&server).await;
}

#[tokio::test]
async fn people_get_a_table() {
    let server = RedisServer::start().await;
    let arguments = ["bench", "--seconds", "0.1", "--tasks", "2"];
    let stdout = call(&mut dlock(&server, &arguments)).await.with(0).stdout;
    assert_eq!(stdout.lines().count(), 6, "{stdout}");
    assert!(stdout.contains("p50/PING"), "{stdout}");
}

#[tokio::test]
async fn an_interrupted_benchmark_leaves_no_locks() {
    let server = RedisServer::start().await;
    let worker = Worker::spawn(&mut dlock(&server, &["bench", "--seconds", "600"]));
    // The PINGs come before the locks.
    eventually(LIMIT, "it takes locks", async || {
        !server.keys("dlock:{dlock-bench:*").await.is_empty()
    })
    .await;
    interrupt(&worker);
    ended(&worker).await.with(130);
    eventually_nothing_is_left(&server).await;
}

fn interrupt(worker: &Worker) {
    use rustix::process::{Pid, Signal, kill_process};
    let pid = i32::try_from(worker.id()).ok().and_then(Pid::from_raw);
    kill_process(pid.expect("it is a process id"), Signal::INT).expect("it runs");
}

#[tokio::test]
async fn a_server_that_is_down_is_unavailable() {
    let server = RedisServer::start().await;
    server.kill();
    let ended = call(&mut dlock(&server, &["bench"])).await.with(69);
    assert_eq!(ended.stdout, "");
}
