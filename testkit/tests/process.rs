//! Another process is watched, stopped and killed.

use std::process::Command;
use std::time::Duration;

use dlock_testkit::{Worker, eventually};

const SOON: Duration = Duration::from_secs(20);

fn shell(script: &str) -> Worker {
    Worker::spawn(Command::new("sh").args(["-c", script]))
}

#[tokio::test]
async fn the_output_is_complete_when_the_process_has_ended() {
    let worker = shell("echo one; echo two >&2; echo three; exit 3");
    let status = worker.wait(SOON).await;
    assert_eq!(status.code(), Some(3));
    assert_eq!(worker.stdout(), "one\nthree\n");
    assert_eq!(worker.stderr(), "two\n");
    assert_eq!(worker.line("th", SOON).await, "three");
}

#[tokio::test]
async fn a_killed_process_does_not_tidy_up() {
    let worker = shell("trap 'echo tidy' EXIT; echo ready; while :; do sleep 0.01; done");
    worker.line("ready", SOON).await;
    worker.kill();
    let status = worker.wait(SOON).await;
    assert!(!status.success());
    assert_eq!(worker.stdout(), "ready\n");
}

#[tokio::test]
async fn a_paused_process_says_nothing() {
    let worker = shell("while echo tick; do sleep 0.01; done");
    worker.line("tick", SOON).await;
    worker.pause();
    // What it wrote before may still be on its way through the pipe.
    let mut before = String::new();
    eventually(SOON, "the pipe is empty", async || {
        tokio::time::sleep(Duration::from_millis(50)).await;
        std::mem::replace(&mut before, worker.stdout()) == worker.stdout()
    })
    .await;
    worker.resume();
    eventually(SOON, "it goes on", async || {
        worker.stdout().len() > before.len()
    })
    .await;
}

#[tokio::test]
#[should_panic(expected = "no line with `never` within")]
async fn a_missing_line_is_reported_with_the_output() {
    let worker = shell("echo something else; exec sleep 100");
    worker.line("never", Duration::from_millis(50)).await;
}

#[tokio::test]
#[should_panic(expected = "ended without a line with `never`")]
async fn an_ended_process_is_not_waited_for() {
    shell("echo something else").line("never", SOON).await;
}

#[tokio::test]
#[should_panic(expected = "run `cargo build --example no-such-example` first")]
async fn a_missing_example_names_the_remedy() {
    let _worker = Worker::example("no-such-example", &[]);
}
