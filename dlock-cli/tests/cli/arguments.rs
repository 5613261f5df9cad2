//! Features of all commands: help, logins, logs, errors as JSON, completions.

use std::{fs::Permissions, os::unix::fs::PermissionsExt as _, process::Command};

use dlock_testkit::{RedisServer, python};
use serde_json::Value;

use super::{call, clean, dlock};

#[tokio::test]
async fn help_shows_exit_codes_and_no_password() {
    let server = RedisServer::start().await;
    for words in [
        &["--help"][..],
        &["run", "--help"],
        &["ls", "-h"],
        &["nosuch"],
    ] {
        let mut command = dlock(&server, words);
        command.env("DLOCK_URL", "redis://me:s3cret@localhost");
        command.env("DLOCK_PASSWORD", "s3cret");
        let ended = call(&mut command).await;
        assert!(!ended.stdout.contains("s3cret") && !ended.stderr.contains("s3cret"));
        assert_eq!(
            ended.stdout.contains("75  lock busy"),
            words[words.len() - 1] == "--help"
        );
        assert!(!ended.stdout.contains("watchdog"), "{}", ended.stdout);
    }
}

#[test]
fn help_fits_into_a_terminal_and_says_more_than_the_list() {
    let help = |words: &[&str]| {
        let told = Command::new(env!("CARGO_BIN_EXE_dlock"))
            .args(words)
            .output();
        String::from_utf8(told.expect("it runs").stdout).expect("it is text")
    };
    let list = help(&["--help"]);
    let (_, list) = list.split_once("Commands:\n").expect("it has a list");
    let list = list.lines().take_while(|line| !line.is_empty());
    let names: Vec<_> = list
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert!(names.contains(&"run") && names.len() == 12, "{names:?}");
    for name in names.into_iter().filter(|name| *name != "help") {
        for line in help(&[name, "--help"]).lines() {
            // Clap appends defaults and values to the text.
            let text = line.split(" [").next().unwrap_or_default();
            assert!(text.chars().count() <= 100, "{name}: {line}");
        }
    }
    assert!(help(&["run", "--help"]).contains("DLOCK_FENCING_TOKEN"));
    assert!(help(&["doctor", "--help"]).contains("The exit code is 0"));
}

#[tokio::test]
async fn locks_of_this_process_alone_guard_no_command() {
    let server = RedisServer::start().await;
    let mut command = dlock(&server, &["run", "job", "echo", "ran"]);
    let refused = call(command.env("DLOCK_URL", "memory://")).await.with(2);
    assert_eq!(refused.stdout, "");
    assert!(
        refused.stderr.contains("Use the URL of a server"),
        "{}",
        refused.stderr
    );
}

#[cfg(not(any(feature = "etcd", feature = "zookeeper")))]
#[tokio::test]
async fn a_store_that_was_not_built_in_is_named_with_the_command_that_installs_it() {
    let server = RedisServer::start().await;
    for words in [
        &["ls"][..],
        &["doctor"],
        &["run", "job", "true"],
        &["bench"],
    ] {
        for (url, feature) in [
            ("ETCD://localhost", "etcd"),
            ("zookeeper://localhost", "zookeeper"),
        ] {
            let mut command = dlock(&server, words);
            let refused = call(command.env("DLOCK_URL", url)).await.with(2);
            let advice = "cargo install --path dlock-cli --locked --features ";
            let advice = format!("{advice}{feature}\n");
            assert!(refused.stderr.contains(&advice), "{}", refused.stderr);
        }
    }
}

#[tokio::test]
async fn an_output_that_is_full_or_closed() {
    let server = RedisServer::start().await;
    let full = std::fs::File::options().write(true).open("/dev/full");
    let mut command = dlock(&server, &["ls", "--json"]);
    let told = command
        .stdout(full.expect("Linux has one"))
        .output()
        .expect("it runs");
    assert_eq!(told.status.code(), Some(70));
    let stderr = String::from_utf8(told.stderr).expect("it is text");
    assert!(stderr.contains("cannot write the output"), "{stderr}");
    let mut words = dlock(&server, &["doctor"]);
    let (reader, writer) = std::io::pipe().expect("there are pipes");
    drop(reader);
    let told = words.stdout(writer).output().expect("it runs");
    assert_eq!(told.status.code(), Some(0), "{told:?}");
    assert!(told.stderr.is_empty(), "{told:?}");
}

#[tokio::test]
async fn usage_does_not_require_what_the_environment_sets() {
    let server = RedisServer::start().await;
    for (words, usage) in [
        (&["run"][..], "Usage: dlock run <KEY> <COMMAND>...\n"),
        (&["unlock"], "Usage: dlock unlock <KEY>\n"),
        (&["nosuch"], "Usage: dlock [OPTIONS] <COMMAND>\n"),
    ] {
        let mut command = dlock(&server, words);
        command.env("DLOCK_NAMESPACE", "orders");
        let refused = call(&mut command).await.with(2);
        assert!(refused.stderr.contains(usage), "{}", refused.stderr);
    }
    let written = ["run", "--url", "redis://localhost"];
    let refused = call(&mut dlock(&server, &written)).await.with(2);
    assert!(refused.stderr.contains("--url <URL>"), "{}", refused.stderr);
    let help = call(&mut dlock(&server, &["--help"])).await.with(0);
    assert!(help.stdout.contains("[env: DLOCK_URL]"), "{}", help.stdout);
}

#[tokio::test]
async fn a_url_that_is_empty_is_not_that_of_this_machine() {
    let server = RedisServer::start().await;
    let mut command = dlock(&server, &["run", "job", "true"]);
    let ended = call(command.env("DLOCK_URL", "")).await.with(2);
    assert!(
        ended.stderr.contains("the variable DLOCK_URL"),
        "{}",
        ended.stderr
    );
}

#[tokio::test]
async fn a_login_stands_in_the_environment() {
    let server = RedisServer::start_with(&["--requirepass", "s3cret"]).await;
    let url = format!("redis://127.0.0.1:{}", server.port());
    for words in [&["ls"][..], &["run", "job", "true"], &["inspect", "job"]] {
        let code = i32::from(words[0] == "inspect");
        let mut command = dlock(&server, words);
        call(
            command
                .env("DLOCK_URL", &url)
                .env("DLOCK_PASSWORD", "s3cret"),
        )
        .await
        .with(code);
        let mut command = dlock(&server, words);
        let ended = call(
            command
                .env("DLOCK_URL", &url)
                .env("DLOCK_PASSWORD", "t0psecret"),
        )
        .await;
        let ended = ended.with(69);
        assert!(!ended.stderr.contains("t0psecret"), "{}", ended.stderr);
        let mut command = dlock(&server, words);
        let ended = call(command.env("DLOCK_URL", &url).env("DLOCK_USER", "me"))
            .await
            .with(2);
        assert!(ended.stderr.contains("DLOCK_PASSWORD"), "{}", ended.stderr);
        // A login in the URL takes precedence.
        let mut command = dlock(&server, words);
        call(command.env("DLOCK_PASSWORD", "t0psecret"))
            .await
            .with(code);
    }
}

#[tokio::test]
async fn errors_are_json_if_all_is() {
    let server = RedisServer::start().await;
    let mut command = dlock(&server, &["--json", "--url", "http://me:s3cret@host", "ls"]);
    let ended = call(&mut command).await.with(2);
    let said: Value = serde_json::from_str(&ended.stderr).unwrap();
    assert_eq!(
        (&said["error"]["code"], &said["error"]["exit_code"]),
        (&"usage".into(), &2.into())
    );
    assert!(!ended.stderr.contains("s3cret"), "{}", ended.stderr);
}

#[tokio::test]
async fn logs_are_printed_on_request() {
    let server = RedisServer::start().await;
    let quiet = call(&mut dlock(&server, &["run", "job", "true"]))
        .await
        .with(0);
    assert_eq!(quiet.stderr, "");
    let mut command = dlock(&server, &["-vv", "run", "job", "echo", "ran"]);
    let told = call(&mut command).await.with(0);
    assert_eq!(told.stdout, "ran\n");
    let as_json = ["-vv", "--json", "run", "job", "true"];
    let lines = call(&mut dlock(&server, &as_json)).await.with(0).stderr;
    let lines = lines
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut logs = lines.map(|it| it["log"].clone());
    let acquired = logs.find(|it| it["fields"]["message"] == "acquired");
    let acquired = acquired.expect("each line is JSON");
    assert_eq!(acquired["level"], "DEBUG");
    assert_eq!(acquired["fields"]["key"], "job");
    assert!(
        told.stderr.contains("DEBUG") && told.stderr.contains("acquired"),
        "{}",
        told.stderr
    );
}

#[tokio::test]
async fn shells_get_completions() {
    let server = RedisServer::start().await;
    for shell in ["bash", "zsh", "fish"] {
        let ended = call(&mut dlock(&server, &["completions", shell]))
            .await
            .with(0);
        assert!(ended.stdout.contains("conflict-exit-code"), "{shell}");
        assert!(!ended.stdout.contains("watchdog"), "{shell}");
    }
    call(&mut dlock(&server, &["completions", "nosuch"]))
        .await
        .with(2);
}

/// A service manager restarts a program that has ended, and not one that hangs.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_program_that_cannot_start_its_threads_ends() {
    // The limit does not apply to root.
    const ALONE: &str = "import os, resource, sys\n\
                         resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))\n\
                         if os.getuid() == 0: os.setuid(61803)\n\
                         os.execv(sys.argv[1], sys.argv[1:])";
    let mut command = python();
    clean(&mut command);
    // In this folder, any user finds the program.
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    let program = folder.path().join("dlock");
    std::fs::copy(env!("CARGO_BIN_EXE_dlock"), &program).unwrap();
    command.args(["-c", ALONE]).arg(&program);
    let ended = call(command.args(["--url", "redis://127.0.0.1:1", "ls"])).await;
    let told = ended.with(70).stderr;
    assert!(told.contains("cannot start the threads"), "{told}");
    assert!(told.contains("`TasksMax` of systemd"), "{told}");
}
