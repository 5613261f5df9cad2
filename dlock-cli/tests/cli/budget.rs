//! Scans of a server with many other keys: they are slow, report their progress, and miss nothing.

use std::{path::Path, time::Duration};

use dlock::{LockManager, Wait};
use dlock_testkit::{RedisServer, Worker, eventually, python};
use rustix::process::Signal;

use super::{LIMIT, call, clean, dlock, ended, reads::manager, run_signals::send, until_answered};

/// A scan of this many keys takes 200 steps and some seconds.
const KEYS: u32 = 200_000;

/// So many keys are written at a time.
const PART: u32 = 5000;

/// On a loaded machine each step takes longer, and the pause after it is twenty times as long.
const SLOWLY: Duration = Duration::from_secs(300);

/// A scan of this many keys takes longer than an interval of `top`.
const SOME_KEYS: u32 = 100_000;

async fn server_with_keys_of_others(keys: u32) -> RedisServer {
    let server = RedisServer::start().await;
    let fill = "for i = ARGV[1], ARGV[2] do redis.call('SET', 'other:' .. i, 'x') end";
    let mut connection = server.connection().await;
    // In parts: on a loaded machine, one script for all takes longer than its answer is waited for.
    for first in (1..=keys).step_by(PART as usize) {
        redis::cmd("EVAL")
            .arg(fill)
            .arg(0)
            .arg(first)
            .arg(keys.min(first + PART - 1))
            .exec_async(&mut connection)
            .await
            .expect("it has room");
    }
    server
}

/// Starts the program in a terminal, which waits for texts and presses keys.
fn in_terminal(server: &RedisServer, words: &[&str], steps: &[&str]) -> Worker {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/terminal.py");
    let mut command = python();
    clean(&mut command);
    command
        .env("DLOCK_URL", server.url())
        .env("TERM", "xterm-256color")
        .arg(script)
        .arg("140x24")
        .args(steps)
        .args(["--", env!("CARGO_BIN_EXE_dlock")])
        .args(words);
    Worker::spawn(&mut command)
}

/// Returns the number of steps of scans that the server has counted.
async fn scans(server: &RedisServer) -> u32 {
    let mut info = redis::cmd("INFO");
    let info = info.arg("commandstats");
    let mut connection = server.connection().await;
    let told: String = info.query_async(&mut connection).await.expect("it tells");
    let told = told.split_once("cmdstat_scan:calls=");
    let count = told.and_then(|(_, rest)| rest.split(',').next());
    count.map_or(0, |it| it.parse().expect("it is a number"))
}

#[tokio::test]
async fn a_slow_list_shows_its_progress_at_a_terminal() {
    let server = server_with_keys_of_others(KEYS).await;
    let steps = [
        "see:% of the keys; slow to spare the server, use `--fast` for full speed",
        "see:no locks are held or waited for",
    ];
    // The two processes have independent paces.
    let at_terminal = in_terminal(&server, &["ls"], &steps);
    let elsewhere = until_answered(async || {
        let list = Worker::spawn(&mut dlock(&server, &["ls"]));
        list.wait(SLOWLY).await;
        ended(&list).await
    });
    let (_, slow) = tokio::join!(at_terminal.wait(SLOWLY), elsewhere);
    let shown = ended(&at_terminal).await.with(0);
    assert!(shown.stdout.contains("code 0"), "{}", shown.stdout);
    let slow = slow.with(0);
    let begun = scans(&server).await;
    let fast = call(&mut dlock(&server, &["ls", "--fast"])).await.with(0);
    assert_eq!(fast.stderr, "dlock: no locks are held or waited for\n");
    assert!(scans(&server).await - begun >= KEYS / 1000);
    assert_eq!(slow.stderr, fast.stderr, "there is no terminal");
}

#[tokio::test]
async fn top_reports_slow_scans() {
    let server = server_with_keys_of_others(SOME_KEYS).await;
    let billing = manager(&server, "billing").await;
    let guard = billing
        .lock("order:42")
        .acquire()
        .await
        .expect("it is free");
    let steps = ["see:full scan every", "press:q"];
    let worker = in_terminal(&server, &["top", "--interval", "200ms"], &steps);
    let shown = ended(&worker).await.with(0);
    assert!(shown.stdout.contains("code 0"), "{}", shown.stdout);
    guard.release().await.expect("it was held");
}

/// Changes of known locks, and grants, appear before the end of the scan.
#[tokio::test]
async fn a_watch_reads_known_locks_and_grants_during_a_scan() {
    let server = server_with_keys_of_others(KEYS).await;
    let billing = manager(&server, "billing").await;
    let known = billing.lock("known").acquire().await.expect("it is free");
    call(&mut dlock(&server, &["ls", "--fast"])).await.with(0);
    let walk = scans(&server).await;
    let watch = Worker::spawn(&mut dlock(&server, &["watch", "-i", "50ms"]));
    watch.line("held      known", SLOWLY).await;
    begins(&server, walk).await;
    let begun = scans(&server).await;
    known.release().await.expect("it was held");
    watch.line("released  known", SLOWLY).await;
    let passed = scans(&server).await - begun;
    assert!(passed < walk / 2, "after {passed} steps of {walk}");

    let mail = manager(&server, "mail").await;
    begins(&server, walk).await;
    let begun = scans(&server).await;
    handed_on(&server, &billing, &mail).await;
    watch.line("heard  mail@", SLOWLY).await;
    let passed = scans(&server).await - begun;
    assert!(passed < walk / 2, "after {passed} steps of {walk}");
    send(&watch, Signal::INT);
    let said = ended(&watch).await.with(0).stderr;
    assert!(said.contains("a scan of all keys takes"), "{said}");
}

/// Waits for the start of a scan with this number of steps.
async fn begins(server: &RedisServer, walk: u32) {
    eventually(SLOWLY, "a walk begins", async || {
        (1..walk / 8).contains(&(scans(server).await % walk))
    })
    .await;
}

/// Grants a lock that no scan has found, from one manager to another, which keeps it.
async fn handed_on(server: &RedisServer, from: &LockManager, to: &LockManager) {
    let guard = from.lock("heard").acquire().await.expect("it is free");
    let waits = to.lock("heard").wait(Wait::Forever).acquire();
    let waits = tokio::spawn(waits);
    eventually(LIMIT, "there is a waiter", async || {
        let mut exists = redis::cmd("EXISTS");
        let exists = exists.arg("dlock:{heard}:q");
        let mut connection = server.connection().await;
        exists.query_async(&mut connection).await.expect("it tells")
    })
    .await;
    guard.release().await.expect("it was held");
    let next = waits.await.expect("no panic").expect("it is its turn");
    std::mem::forget(next);
}
