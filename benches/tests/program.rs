//! The program as a user starts it: words in, one line of JSON out.

use std::process::Command;
use std::time::Duration;

use dlock_testkit::{RedisServer, Worker};
use serde_json::Value;

/// Work is all that is waited for.
const DEADLINE: Duration = Duration::from_secs(600);

fn start(words: &[&str]) -> Worker {
    Worker::spawn(Command::new(env!("CARGO_BIN_EXE_dlock-bench")).args(words))
}

/// The result that a process prints at its end.
async fn line(words: &[&str]) -> Value {
    end(start(words)).await
}

async fn end(worker: Worker) -> Value {
    let status = worker.wait(DEADLINE).await;
    assert!(status.success(), "{status}: {}", worker.stderr());
    let stdout = worker.stdout();
    let line = stdout.lines().last().expect("it says something");
    serde_json::from_str(line).expect("its last line is JSON")
}

/// That it went well, and has every number.
fn whole(outcome: &Value) {
    assert_eq!(
        outcome["overlaps"], 0,
        "broken promise: two holders: {outcome}"
    );
    assert_eq!(outcome["failed"], 0, "{outcome}");
    assert_eq!(outcome["drained"], true, "{outcome}");
    for number in [
        "tasks",
        "cycles",
        "hold_us",
        "elapsed_s",
        "cps",
        "wait_p50_us",
        "wait_p99_us",
        "wait_max_us",
        "cycle_p50_us",
        "cycle_p99_us",
        "task_min",
        "task_max",
        "held_s",
        "cpu_user_s",
        "cpu_sys_s",
    ] {
        assert!(outcome[number].is_number(), "{number} in {outcome}");
    }
}

#[tokio::test]
async fn every_peer_prints_what_the_runner_reads() {
    let server = RedisServer::start().await;
    let url = format!("url={}", server.url());
    let words = ["tasks=2", "seconds=0.2", "poll_ms=10", "drain_s=30"];
    for peer in ["dlock", "raw", "scripts", "rslock@10ms", "memory", "mutex"] {
        let name = format!("peer={peer}");
        let outcome = line(&[&words[..], &[&name, &url, "mode=wait"]].concat()).await;
        assert_eq!(outcome["peer"], peer);
        assert_eq!(outcome["cycles"], 2, "{outcome}");
        whole(&outcome);
    }
    let outcome = line(&[&words[..], &[&url, "rt=ct"]].concat()).await;
    assert_eq!(outcome["peer"], "dlock");
    whole(&outcome);
    let outcome = line(&["peer=publish", &url, "seconds=0.1"]).await;
    assert!(outcome["cycles"].as_u64() > Some(0), "{outcome}");
    whole(&outcome);
    assert_eq!(
        server.keys("dlock:{*").await,
        [""; 0],
        "all has been given back"
    );
}

#[tokio::test]
async fn waiters_get_the_lock_when_the_holder_is_through() {
    let server = RedisServer::start().await;
    let url = format!("url={}", server.url());
    let holder = start(&["mode=hold", &url, "seconds=0.5"]);
    holder.line("HELD", DEADLINE).await;
    let waiters = line(&["mode=wait", &url, "tasks=5", "seconds=0.1", "drain_s=30"]).await;
    let given = end(holder).await;
    assert!(given["rel_ns"].is_u64(), "{given}");
    assert_eq!(
        (&waiters["cycles"], &waiters["task_min"]),
        (&5.into(), &1.into())
    );
}

#[tokio::test]
async fn very_many_of_something_are_counted() {
    let server = RedisServer::start().await;
    let url = format!("url={}", server.url());
    let words = ["mode=many", "n=50", &url, "seconds=0"];
    let waiters = line(&[&words[..], &["what=waiters"]].concat()).await;
    assert_eq!(
        (&waiters["left"], &waiters["active"]),
        (&0.into(), &0.into())
    );
    let distinct = line(&[&words[..], &["what=distinct"]].concat()).await;
    assert_eq!(distinct["active"], 0);
}

#[tokio::test]
async fn very_many_of_something_are_in_a_cluster() {
    let sizes = ["--ttl=5", "--leases=50", "--waiters=50", "--keys=200"];
    let words = [&["--cluster", "--side-by-side"], &sizes[..]].concat();
    // It would fail if anything but fences was left on any node.
    let worker = start(&[&["many"], &words[..]].concat());
    let status = worker.wait(DEADLINE).await;
    assert!(status.success(), "{status}: {}", worker.stderr());
    let table = worker.stdout();
    assert!(table.contains("fences in the server"), "{table}");
}

#[tokio::test]
async fn peers_are_compared_over_several_processes() {
    let folder = tempfile::tempdir().expect("a directory can be made");
    let json = folder.path().join("all.json");
    let file = format!("--json={}", json.display());
    let words = ["--only=memory,w4a", "--reps=1", "--seconds=0.2", &file];
    let worker = start(&[&["compare"], &words[..]].concat());
    // It would fail if two had the lock at once.
    let status = worker.wait(DEADLINE).await;
    assert!(status.success(), "{status}: {}", worker.stderr());
    assert!(
        worker.stdout().contains("than a tokio mutex"),
        "{}",
        worker.stdout()
    );
    let all = std::fs::read_to_string(json).expect("the file was written");
    let all: Value = serde_json::from_str(&all).expect("it is JSON");
    let results = all["results"].as_array().expect("results are a list");
    assert_eq!(
        results.len(),
        5,
        "three peers in W4a and two in memory: {all}"
    );
    assert_eq!(
        (&results[0]["workload"], &results[0]["peer"]),
        (&"W4a".into(), &"publish".into())
    );
}

#[tokio::test]
async fn locks_in_postgresql_are_compared_with_those_by_hand() {
    let folder = tempfile::tempdir().expect("a directory can be made");
    let json = folder.path().join("all.json");
    let file = format!("--json={}", json.display());
    let sizes = [
        "--rounds=1",
        "--sections=2",
        "--turns=2",
        "--locks=100",
        "--grants=10",
    ];
    // A TTL that outlasts a busy machine: the program fails if a lease is lost, or if it has a third connection.
    let words = [&["postgres", "--ttl=60", "--held=0", &file], &sizes[..]].concat();
    let worker = start(&words);
    let status = worker.wait(DEADLINE).await;
    assert!(status.success(), "{status}: {}", worker.stderr());
    let all = std::fs::read_to_string(json).expect("the file was written");
    let all: Value = serde_json::from_str(&all).expect("it is JSON");
    let aims = all["report"]["aims"].as_array().expect("aims are a list");
    let measured = |what: &str| {
        let aim = aims.iter().find(|aim| aim["what"] == what);
        let measured = aim.unwrap_or_else(|| panic!("no `{what}` in {all}"));
        measured["measured"]["median"].as_f64().expect("a number")
    };
    for what in [
        "cycle / by hand, with fsync",
        "`fence` / `SELECT 1`",
        "hand-off / commit with NOTIFY, with fsync",
        "hand-off / that of an advisory lock, without fsync",
        "last quarter / first",
    ] {
        assert!(measured(what) > 0.0, "{what}");
    }
    assert_eq!(measured("connections for 100 locks").to_string(), "2");
}

#[tokio::test]
async fn locks_in_etcd_are_compared_with_those_by_hand_and_with_its_own() {
    let folder = tempfile::tempdir().expect("a directory can be made");
    let json = folder.path().join("all.json");
    let file = format!("--json={}", json.display());
    let worker = start(&[
        "etcd",
        "--rounds=1",
        "--sections=2",
        "--turns=2",
        "--waiters=20",
        "--waits=3",
        &file,
    ]);
    let status = worker.wait(DEADLINE).await;
    assert!(status.success(), "{status}: {}", worker.stderr());
    let all = std::fs::read_to_string(json).expect("the file was written");
    let all: Value = serde_json::from_str(&all).expect("it is JSON");
    let aims = all["report"]["aims"].as_array().expect("aims are a list");
    for what in [
        "cycle / two transactions by hand, with fsync",
        "cycle / by etcd's own lock, without fsync",
        "hand-off / event of a watch, without fsync",
        "hand-off / by etcd's own lock, with fsync",
        "requests a beat of 20 waiters in one process",
    ] {
        let aim = aims.iter().find(|aim| aim["what"] == what);
        let aim = aim.unwrap_or_else(|| panic!("no `{what}` in {all}"));
        assert!(aim["measured"]["median"].as_f64() > Some(0.0), "{what}");
    }
}

#[tokio::test]
async fn what_is_wrong_ends_with_2_and_a_reason() {
    for (words, reason) in [
        ("taks=1", "unknown argument `taks`"),
        ("url=redis://a,redis://b", "write `redlock://host1"),
        ("--fast", "--fast"),
        ("tasks", "not of the form `key=value`"),
    ] {
        let worker = start(&[words]);
        assert_eq!(worker.wait(DEADLINE).await.code(), Some(2), "{words}");
        assert!(worker.stderr().contains(reason), "{}", worker.stderr());
    }
    let unreachable = start(&["url=redis://127.0.0.1:1", "peer=raw"]);
    assert_eq!(unreachable.wait(DEADLINE).await.code(), Some(1));
    assert!(
        unreachable.stderr().contains("error: "),
        "{}",
        unreachable.stderr()
    );
}
