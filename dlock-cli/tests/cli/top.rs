//! `dlock top`: with `--once`, and in a terminal.

use std::{path::Path, process::Command};

use dlock_testkit::{RedisServer, Worker, eventually, python};
use serde_json::Value;

use super::{
    LIMIT, call, clean, dlock, ended,
    reads::{manager, write_many},
};

const DLOCK: &str = env!("CARGO_BIN_EXE_dlock");

/// Starts `top` in a terminal of this size, which waits for texts and presses keys.
fn terminal(server: &RedisServer, size: &str, steps: &[&str]) -> Worker {
    terminal_at(&server.url(), size, steps)
}

/// Starts `top` for this URL.
pub(super) fn terminal_at(url: &str, size: &str, steps: &[&str]) -> Worker {
    let words = [DLOCK, "top", "--interval", "100ms"];
    in_terminal(url, size, steps, &words)
}

/// Starts a program in a terminal.
pub(super) fn in_terminal(url: &str, size: &str, steps: &[&str], words: &[&str]) -> Worker {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/terminal.py");
    let mut command: Command = python();
    clean(&mut command);
    command
        .env("DLOCK_URL", url)
        .env("TERM", "xterm-256color")
        .arg(script)
        .arg(size)
        .args(steps)
        .arg("--")
        .args(words);
    Worker::spawn(&mut command)
}

/// Waits for the end of the program, and asserts that its terminal is restored.
pub(super) async fn left_behind_nothing(worker: &Worker, code: i32) {
    let ended = ended(worker).await.with(0);
    for line in [
        &format!("code {code}"),
        "left its screen True",
        "echoes True",
    ] {
        assert!(
            ended.stdout.lines().any(|it| it == line),
            "no `{line}`:\n{}",
            ended.stdout
        );
    }
}

#[tokio::test]
async fn holders_and_waiters_are_printed_once() {
    let server = RedisServer::start().await;
    let (billing, mail) = (
        manager(&server, "billing").await,
        manager(&server, "mail").await,
    );
    let guard = billing
        .lock("order:42")
        .acquire()
        .await
        .expect("it is free");
    let waiting =
        tokio::spawn(async move { mail.lock("order:42").wait(LIMIT).acquire().await.map(drop) });
    eventually(LIMIT, "there is a waiter", async || {
        !server.keys("dlock:{order:42}:q").await.is_empty()
    })
    .await;
    let stdout = call(&mut dlock(&server, &["top", "--once"]))
        .await
        .with(0)
        .stdout;
    for part in [
        "1 lock   1 held   1 waiting   2 processes",
        "order:42",
        "billing@",
    ] {
        assert!(stdout.contains(part), "no `{part}`:\n{stdout}");
    }

    let stdout = call(&mut dlock(&server, &["top", "--json"]))
        .await
        .with(0)
        .stdout;
    let told: Value = serde_json::from_str(&stdout).expect("it is one JSON document");
    let lock = &told["locks"][0];
    assert_eq!(lock["key"], "order:42");
    assert_eq!(
        lock["holder"]["process"]["application"], "billing",
        "{lock:#}"
    );
    assert_eq!(
        lock["waiters"][0]["process"]["application"], "mail",
        "{lock:#}"
    );
    assert!(
        lock["holder"]["ttl_ms"]
            .as_u64()
            .is_some_and(|it| it <= 60_000),
        "{lock:#}"
    );

    drop(guard);
    waiting.await.expect("it ends").expect("it was its turn");
}

#[tokio::test]
async fn text_of_other_clients_does_not_control_the_screen() {
    let server = RedisServer::start().await;
    let mut connection = server.connection().await;
    redis::cmd("SET")
        .arg("dlock:{a\u{1b}[2Jb}")
        .arg("c\u{1b}]0;d")
        .query_async::<()>(&mut connection)
        .await
        .expect("the server takes it");
    let stdout = call(&mut dlock(&server, &["top", "--once"]))
        .await
        .with(0)
        .stdout;
    assert!(!stdout.contains('\u{1b}'), "{stdout:?}");
}

#[tokio::test]
async fn without_a_terminal_it_suggests_once() {
    let server = RedisServer::start().await;
    let ended = call(&mut dlock(&server, &["top"])).await.with(2);
    assert!(
        ended.stderr.contains("dlock top --once"),
        "{}",
        ended.stderr
    );
    server.kill();
    call(&mut dlock(&server, &["top", "--once"])).await.with(69);
}

#[tokio::test]
async fn keys_filters_and_sizes_work_in_a_terminal() {
    let server = RedisServer::start().await;
    let billing = manager(&server, "billing").await;
    let guard = billing
        .lock("order:42")
        .acquire()
        .await
        .expect("it is free");
    let steps = [
        "see:order:42",
        // The details.
        r"press:\r",
        "see:handle",
        r"press:\x1b[B?",
        "see:Keys",
        "press: ",
        "see:no waiters",
        "size:60x10",
        "see:order:42",
        "size:1x1",
        "size:120x30",
        "see:HOLDER",
        "press:/nothing",
        "see:no locks match the filter",
        r"press:\rq",
    ];
    left_behind_nothing(&terminal(&server, "100x24", &steps), 0).await;
    drop(guard);
}

#[tokio::test]
async fn signals_and_control_c_restore_the_terminal() {
    let server = RedisServer::start().await;
    let none = "see:no locks are held";
    let pressed = terminal(&server, "80x24", &[none, r"press:\x03"]);
    let told = terminal(&server, "80x24", &[none, "signal:TERM"]);
    left_behind_nothing(&pressed, 0).await;
    left_behind_nothing(&told, 143).await;
}

#[tokio::test]
async fn control_z_gives_the_terminal_to_the_shell_until_it_is_continued() {
    let server = RedisServer::start().await;
    let billing = manager(&server, "billing").await;
    let guard = billing.lock("order:42").acquire().await;
    let start = format!(r"press:{DLOCK} top --interval 100ms\r");
    let steps = [
        "see:prompt> ",
        &start,
        "see:order:42",
        r"press:\x1a",
        "see:Stopped",
        // What was typed at that moment is not a part of the command.
        r"press:\x15stty -a\r",
        "see: icanon",
        r"press:\x15fg\r",
        "see:order:42",
        "press:q",
        "see:prompt> ",
        r"press:\x15exit\r",
    ];
    // Shells leave their prompt out of the environment of others.
    let shell = ["/usr/bin/env", "PS1=prompt> ", "/bin/sh", "-i"];
    let shell = in_terminal(&server.url(), "100x24", &steps, &shell);
    left_behind_nothing(&shell, 0).await;
    drop(guard);
}

#[tokio::test]
async fn a_screen_is_drawn_again_after_the_program_was_stopped_from_outside() {
    let server = RedisServer::start().await;
    let billing = manager(&server, "billing").await;
    let guard = billing.lock("order:42").acquire().await;
    let steps = [
        "see:order:42",
        "signal:STOP",
        "signal:CONT",
        "see:order:42",
        "press:q",
    ];
    left_behind_nothing(&terminal(&server, "100x24", &steps), 0).await;
    drop(guard);
}

#[tokio::test]
async fn many_locks_are_shown_before_the_first_scan_has_ended() {
    let server = RedisServer::start().await;
    // More than are read in the half second without a pause at the start.
    write_many(&server, 100_000).await;
    let steps = ["see:reading the locks (", "press:q"];
    left_behind_nothing(&terminal(&server, "120x24", &steps), 0).await;
}

#[tokio::test]
async fn an_outage_is_survived() {
    let server = RedisServer::start().await;
    let billing = manager(&server, "billing").await;
    let guard = billing
        .lock("order:42")
        .acquire()
        .await
        .expect("it is free");
    let steps = ["see:order:42", "see:no answer", "see:order:77", "press:q"];
    let worker = terminal(&server, "100x24", &steps);
    worker.line("seen order:42", LIMIT).await;
    server.kill();
    worker.line("seen no answer", LIMIT).await;
    server.restart().await;
    let other = manager(&server, "other").await;
    let later = other.lock("order:77").acquire().await;
    left_behind_nothing(&worker, 0).await;
    drop((guard, later));
}
