//! `dlock run` without faults: the environment of the command, and the exit codes.

use std::{io::Write, process::Stdio, time::Duration};

use dlock_testkit::{RedisServer, Worker, eventually};

use super::{LIMIT, call, dlock, ended, eventually_nothing_is_left, locks};

#[tokio::test]
async fn the_command_has_the_lock_and_its_token_and_its_end_is_ours() {
    let server = RedisServer::start().await;
    let script = "echo $DLOCK_KEY; echo $DLOCK_FENCING_TOKEN; echo $DLOCK_FENCING_TOKEN_SORTABLE; \
                  echo \"$0 $1\"; read line; exit 7";
    let words = ["run", "job:1", "--", "sh", "-c", script, "--first", "a b"];
    let worker = Worker::spawn(&mut dlock(&server, &words));
    let first = ended(&worker).await.with(7);
    let lines: Vec<_> = first.stdout.lines().collect();
    assert_eq!((lines[0], lines[3]), ("job:1", "--first a b"));
    let token: i64 = lines[1].parse().expect("a token is a number");
    assert_eq!(lines[2], format!("{token:019}"));
    assert_eq!(first.stderr, "");
    assert!(locks(&server).await.is_empty(), "it is given back at once");

    let second = call(&mut dlock(
        &server,
        &["run", "job:1", "sh", "-c", "echo $DLOCK_FENCING_TOKEN"],
    ))
    .await;
    let second: i64 = second.with(0).stdout.trim().parse().unwrap();
    assert!(second > token, "broken promise: the token did not grow");
}

#[tokio::test]
async fn standard_input_is_the_commands() {
    let server = RedisServer::start().await;
    let mut command = dlock(&server, &["run", "job", "cat"]);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"words\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(
        (output.status.code(), &*output.stdout),
        (Some(0), &b"words\n"[..])
    );
}

#[tokio::test]
async fn a_command_that_cannot_be_run_leaves_no_lock() {
    let server = RedisServer::start().await;
    for (words, code, says) in [
        (&["nosuch-program"][..], 127, "cannot run `nosuch-program`"),
        (&["/etc/passwd"], 126, "cannot run `/etc/passwd`"),
        (&["sh", "-c", "kill -9 $$"], 137, ""),
        (&["sh", "-c", "exit 255"], 255, ""),
    ] {
        let words = [&["run", "job", "--"], words].concat();
        let ended = call(&mut dlock(&server, &words)).await.with(code);
        assert!(ended.stderr.contains(says), "{}", ended.stderr);
        assert!(locks(&server).await.is_empty());
    }
}

#[tokio::test]
async fn a_failed_start_reports_that_min_hold_keeps_the_lock() {
    let server = RedisServer::start().await;
    let words = ["run", "job", "--min-hold", "1h", "--", "nosuch-program"];
    let ended = call(&mut dlock(&server, &words)).await.with(127);
    let says = "nothing was run, but `--min-hold` keeps `job`";
    assert!(ended.stderr.contains(says), "{}", ended.stderr);
    assert_eq!(locks(&server).await, ["dlock:{job}"]);
}

#[tokio::test]
async fn a_call_that_does_not_wait_enters_no_queue() {
    let server = RedisServer::start().await;
    let holder = Worker::spawn(&mut dlock(
        &server,
        &["run", "job", "sh", "-c", "echo in; sleep 600"],
    ));
    holder.line("in", LIMIT).await;
    let words = ["run", "--no-wait", "job", "true"];
    call(&mut dlock(&server, &words)).await.with(75);
    let mut info = redis::cmd("INFO");
    let stats: String = info
        .arg("commandstats")
        .query_async(&mut server.connection().await)
        .await
        .unwrap();
    assert!(stats.contains("cmdstat_get:"), "{stats}");
    assert!(!stats.contains("cmdstat_zadd:"), "{stats}");
}

#[tokio::test]
async fn the_application_name_is_visible_to_others() {
    let server = RedisServer::start().await;
    let holder = Worker::spawn(&mut dlock(
        &server,
        &[
            "run",
            "--application",
            "nightly",
            "job",
            "sh",
            "-c",
            "echo in; sleep 600",
        ],
    ));
    holder.line("in", LIMIT).await;
    let refused = call(&mut dlock(&server, &["run", "-n", "job", "true"])).await;
    let refused = refused.with(75);
    assert!(refused.stderr.contains("nightly@"), "{}", refused.stderr);
}

#[tokio::test]
async fn nothing_runs_while_the_lock_is_busy() {
    let server = RedisServer::start().await;
    let holder = Worker::spawn(&mut dlock(
        &server,
        &["run", "job", "sh", "-c", "echo in; sleep 600"],
    ));
    holder.line("in", LIMIT).await;
    for (options, code) in [
        (&["--no-wait"][..], 75),
        // Long enough for a late answer, which has the name of the holder.
        (&["--wait", "3s"], 75),
        (&["--wait", "never", "--conflict-exit-code", "0"], 0),
        (&["-n", "-E", "42"], 42),
    ] {
        let words = [&["run", "job"], options, &["--", "echo", "ran"]].concat();
        let refused = call(&mut dlock(&server, &words)).await.with(code);
        assert_eq!(refused.stdout, "");
        assert!(
            refused.stderr.starts_with("dlock: ") && refused.stderr.contains("job"),
            "{}",
            refused.stderr
        );
        assert!(
            refused.stderr.contains("dlock-run:sh@"),
            "{}",
            refused.stderr
        );
    }
    let refused = call(&mut dlock(
        &server,
        &["--json", "run", "-n", "-E", "9", "job", "true"],
    ))
    .await;
    let error: serde_json::Value = serde_json::from_str(&refused.with(9).stderr).unwrap();
    assert_eq!(error["error"]["code"], "busy");
    assert_eq!(error["error"]["exit_code"], 9);
}

#[tokio::test]
async fn a_waiter_starts_after_the_holder_has_ended() {
    let server = RedisServer::start().await;
    let holder = "echo in; while ! [ -e \"$0\" ]; do sleep 0.02; done; echo out >> \"$1\"";
    let folder = tempfile::tempdir().unwrap();
    let [go, log] = ["go", "log"].map(|name| folder.path().join(name).display().to_string());
    let first = Worker::spawn(&mut dlock(
        &server,
        &["run", "job", "sh", "-c", holder, &go, &log],
    ));
    first.line("in", LIMIT).await;
    let words = [
        "run",
        "-w",
        "forever",
        "job",
        "sh",
        "-c",
        "echo next >> \"$0\"",
        &log,
    ];
    let second = Worker::spawn(&mut dlock(&server, &words));
    let waits = async || locks(&server).await.contains(&"dlock:{job}:q".to_owned());
    eventually(LIMIT, "the second waits", waits).await;
    std::fs::write(&go, "").unwrap();
    ended(&first).await.with(0);
    ended(&second).await.with(0);
    assert_eq!(std::fs::read_to_string(&log).unwrap(), "out\nnext\n");
    eventually_nothing_is_left(&server).await;
}

#[tokio::test]
async fn others_are_kept_out_for_the_minimal_hold() {
    let server = RedisServer::start().await;
    let words = ["run", "job", "--min-hold", "1h", "--", "true"];
    call(&mut dlock(&server, &words)).await.with(0);
    call(&mut dlock(&server, &["run", "-n", "job", "true"]))
        .await
        .with(75);
    let left: i64 = redis::cmd("PTTL")
        .arg("dlock:{job}")
        .query_async(&mut server.connection().await)
        .await
        .unwrap();
    let hour = Duration::from_secs(3600).as_millis();
    assert!(
        left > 0 && u128::from(left.cast_unsigned()) <= hour,
        "{left}"
    );
}

#[tokio::test]
async fn wrong_arguments_run_nothing() {
    let server = RedisServer::start().await;
    for (words, says) in [
        (&["run", "a{b", "echo", "ran"][..], "a{b"),
        (&["run", "job"], "<COMMAND>"),
        (&["run", "job", "--ttl", "5", "echo", "ran"], "--ttl"),
        (&["run", "job", "--ttl", "1ms", "echo", "ran"], "ttl"),
        (
            &["run", "job", "--no-wait", "--wait", "5s", "echo", "ran"],
            "cannot be used with",
        ),
        (
            &["run", "job", "--max-hold", "0s", "echo", "ran"],
            "--max-hold",
        ),
        (
            &["run", "job", "--kill-after", "25h", "echo", "ran"],
            "--kill-after",
        ),
        (
            &["--url", "http://localhost", "run", "job", "echo", "ran"],
            "http",
        ),
        (
            &["--namespace", "a b", "run", "job", "echo", "ran"],
            "namespace",
        ),
    ] {
        let refused = call(&mut dlock(&server, words)).await.with(2);
        assert_eq!(refused.stdout, "");
        assert!(refused.stderr.contains(says), "{}", refused.stderr);
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_another_code() {
    let server = RedisServer::start().await;
    server.kill();
    let ended = call(&mut dlock(&server, &["run", "job", "echo", "ran"]))
        .await
        .with(69);
    assert_eq!(ended.stdout, "");
    assert!(
        ended.stderr.contains(&server.port().to_string()),
        "{}",
        ended.stderr
    );
}

#[tokio::test]
async fn commands_share_a_lock_or_take_its_permits() {
    let server = RedisServer::start().await;
    let holds = ["sh", "-c", "echo $DLOCK_FENCING_TOKEN; exec sleep 60"];
    for (mode, key, others) in [
        (&["--shared"][..], "catalog", true),
        (&["--permits", "2"], "pool", false),
    ] {
        let words = |wait: &[&'static str], command: &[&'static str]| {
            [&["run", key][..], wait, mode, &["--"], command].concat()
        };
        // A server that answers late is asked again.
        let waits = ["--wait", "20s"];
        let first = Worker::spawn(&mut dlock(&server, &words(&waits, &holds)));
        first.line("", LIMIT).await;
        // Another one beside it, but no exclusive one.
        let second = Worker::spawn(&mut dlock(&server, &words(&waits, &holds)));
        second.line("", LIMIT).await;
        let third = call(&mut dlock(&server, &words(&["-n"], &["true"]))).await;
        third.with(if others { 0 } else { 75 });
        let exclusive = ["run", "-n", key, "true"];
        call(&mut dlock(&server, &exclusive)).await.with(75);
        drop((first, second));
    }
    for words in [
        &["run", "--shared", "--permits", "2", "k", "true"][..],
        &["run", "--permits", "0", "k", "true"],
    ] {
        call(&mut dlock(&server, words)).await.with(2);
    }
}
