//! `dlock run` and the processes that its command has started, which end with the lock.

use dlock_testkit::{RedisServer, Worker, eventually, python};
use rustix::process::{Pid, Signal, kill_process};

use super::{
    LIMIT, clean, dlock_without_terminal, ended, eventually_nothing_is_left, locks,
    run_signals::{at_a_terminal, send},
};

/// A child that prints that it got `SIGTERM`, and ends.
const CHILD: &str = "(trap 'echo child asked; exit 0' TERM; echo in; while :; do sleep 0.02; done)";

/// Starts a shell whose child ends once there is a file `go`, and prints how many `SIGTERM` it got. With the code 5, the
/// shell handles `SIGHUP`.
async fn with_a_slow_child(server: &RedisServer, go: &str, code: i32) -> (Worker, Pid) {
    let handled = if code == 5 { "HUP" } else { "ALRM" };
    let script = format!(
        "trap 'exit 5' {handled}; echo $$; (n=0; trap 'n=$((n+1)); echo asked' TERM; echo in; \
         while ! [ -e {go} ]; do sleep 0.02; done; echo count $n) & wait"
    );
    let words = ["run", "job", "--kill-after", "1h", "sh", "-c", &script];
    let worker = Worker::spawn(&mut dlock_without_terminal(server, &words));
    worker.line("in", LIMIT).await;
    let shell = worker.stdout().lines().find_map(|line| line.parse().ok());
    let shell = shell.and_then(Pid::from_raw);
    (worker, shell.expect("it has printed its id"))
}

#[tokio::test]
async fn the_lock_is_kept_until_what_an_ended_command_has_started_has_ended() {
    let server = RedisServer::start().await;
    // `None`: another process than `dlock` ends the command, such as the kernel when memory is short.
    for (passed_on, code) in [
        (Some(Signal::HUP), 129),
        (Some(Signal::USR1), 138),
        (Some(Signal::USR2), 140),
        (Some(Signal::TERM), 143),
        // The shell handles it, and ends with a code of its own.
        (Some(Signal::HUP), 5),
        (None, 137),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let go = folder.path().join("go").display().to_string();
        let (worker, shell) = with_a_slow_child(&server, &go, code).await;
        match passed_on {
            Some(signal) => send(&worker, signal),
            None => kill_process(shell, Signal::KILL).expect("it runs"),
        }
        worker.line("asked", LIMIT).await;
        let says = "the command was ended by a signal: ending the processes that it has started";
        eventually(LIMIT, "it prints what goes on", async || {
            worker.stderr().contains(says)
        })
        .await;
        let is_held = locks(&server).await == ["dlock:{job}"];
        assert!(
            is_held,
            "broken promise: {passed_on:?} has released the lock"
        );
        std::fs::write(&go, "").unwrap();
        let ended = ended(&worker).await.with(code);
        assert!(ended.stdout.contains("count 1"), "{}", ended.stdout);
        assert!(locks(&server).await.is_empty());
    }
}

/// A second `SIGTERM` makes some programs end without cleaning up.
#[tokio::test]
async fn a_child_gets_sigterm_once() {
    let server = RedisServer::start().await;
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (heard, go) = (path("heard"), path("go"));
    // The shell ends after its child got the signal.
    let script = format!(
        "trap 'while ! [ -e {heard} ]; do sleep 0.02; done; exit 5' TERM; \
         (n=0; trap 'n=$((n+1)); : > {heard}' TERM; echo in; \
         while ! [ -e {go} ]; do sleep 0.02; done; echo count $n) & wait"
    );
    let words = ["run", "job", "--kill-after", "1h", "sh", "-c", &script];
    let worker = Worker::spawn(&mut dlock_without_terminal(&server, &words));
    worker.line("in", LIMIT).await;
    send(&worker, Signal::TERM);
    eventually(LIMIT, "the shell has ended", async || {
        worker.stderr().contains("ending the processes")
    })
    .await;
    std::fs::write(&go, "").unwrap();
    let ended = ended(&worker).await.with(5);
    assert!(ended.stdout.contains("count 1"), "{}", ended.stdout);
}

/// The first process of a container gets all orphans, and has to reap them: the group would never be gone.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn orphans_are_reaped() {
    const AS_REAPER: &str = "import ctypes, os, sys; ctypes.CDLL(None).prctl(36, 1, 0, 0, 0); \
                             os.setsid(); os.execv(sys.argv[1], sys.argv[1:])";
    let server = RedisServer::start().await;
    let mut command = python();
    clean(&mut command);
    let script = format!("{CHILD} & wait");
    command.env("DLOCK_URL", server.url());
    command.args(["-c", AS_REAPER, env!("CARGO_BIN_EXE_dlock"), "run", "job"]);
    command.args(["--kill-after", "1h", "sh", "-c", &script]);
    let worker = Worker::spawn(&mut command);
    worker.line("in", LIMIT).await;
    send(&worker, Signal::TERM);
    let ended = ended(&worker).await.with(143);
    assert!(ended.stdout.contains("child asked"), "{}", ended.stdout);
}

async fn run_at_a_terminal(
    meanwhile: &str,
    typed: &str,
    options: &[&str],
    script: &str,
) -> (RedisServer, String) {
    let server = RedisServer::start().await;
    let words = [&["run", "job"], options, &["sh", "-c", script]].concat();
    let told = at_a_terminal(&server, "in\r\n", meanwhile, typed, &words).await;
    eventually_nothing_is_left(&server).await;
    (server, told)
}

const UNLOCK: &str = "import subprocess; subprocess.run([sys.argv[4], 'unlock', '--yes', 'job'], \
                      check=True, stdout=subprocess.DEVNULL)";

#[cfg(target_os = "linux")]
#[tokio::test]
async fn at_a_terminal_children_end_with_the_lease() {
    // The terminal is closed when its last process has ended: these would wait for the child.
    for orphan in [false, true] {
        let script = if orphan {
            format!("({CHILD} &); exec sleep 600")
        } else {
            format!("{CHILD} & wait")
        };
        let (_server, told) = run_at_a_terminal(UNLOCK, "", &[], &script).await;
        assert!(told.contains("child asked"), "{told}");
        assert!(
            told.contains("the lease was lost: ending the command,"),
            "{told}"
        );
        assert!(told.contains("code 76"), "{told}");
    }
    // The end of `dlock` closes the terminal, which alone must not end it.
    let deaf = "(trap '' TERM HUP; sh -c 'echo in; sleep 600; :'; :) & wait";
    let options = ["--kill-after", "300ms"];
    let (_server, told) = run_at_a_terminal(UNLOCK, "", &options, deaf).await;
    assert!(told.contains("code 76"), "{told}");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn at_a_terminal_children_end_with_a_command_that_a_signal_ends() {
    let options = ["--kill-after", "1h"];
    // A shell has its children in the background ignore Ctrl-C.
    let script = format!("{CHILD} & wait");
    let (_server, told) = run_at_a_terminal("", r"\x03", &options, &script).await;
    assert!(told.contains("child asked"), "{told}");
    assert!(told.contains("code 130"), "{told}");

    let terminate = "os.kill(pid, signal.SIGTERM)";
    let (_server, told) = run_at_a_terminal(terminate, "", &options, &script).await;
    assert!(told.contains("child asked"), "{told}");
    assert!(told.contains("code 143"), "{told}");

    // One that waits for its children.
    let script = format!("trap 'wait; exit 7' TERM; {CHILD} & wait");
    let (_server, told) = run_at_a_terminal(terminate, "", &options, &script).await;
    assert!(told.contains("child asked"), "{told}");
    assert!(told.contains("code 7"), "{told}");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn at_a_terminal_the_watchdog_ends_children_too() {
    // `dlock` passes signals on only after its first message to the watchdog.
    let stop = "def until(text):\n global output\n \
                while text not in output: output += os.read(terminal, 1024)\n\
                os.kill(pid, signal.SIGUSR1)\nuntil(b'heard')\n\
                os.kill(pid, signal.SIGSTOP)\nuntil(b'child asked')\n\
                os.kill(pid, signal.SIGCONT)";
    let script = format!("trap 'echo heard' USR1; {CHILD} & wait; wait");
    let (_server, told) = run_at_a_terminal(stop, "", &["--ttl", "3s"], &script).await;
    assert!(told.contains("`dlock run` does not respond"), "{told}");
}

/// Neither a process of the pipeline nor a daemon is the command's.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn at_a_terminal_others_of_the_group_and_daemons_keep_running() {
    let server = RedisServer::start().await;
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (go, sibling, daemon) = (path("go"), path("sibling"), path("daemon"));
    let until_go = |done: &str| format!("while ! [ -e {go} ]; do sleep 0.02; done; : > {done}");
    let silent = "< /dev/null > /dev/null 2>&1";
    let script = format!(
        "setsid sh -c '{}' {silent} & {CHILD} & wait",
        until_go(&daemon)
    );
    // The sibling is a child of the shell that becomes `dlock`. It ignores that the terminal is closed.
    let outer = "(trap '' HUP; eval \"$1\") < /dev/null > /dev/null 2>&1 & exec \"$0\" run job sh -c \"$2\"";
    let program = env!("CARGO_BIN_EXE_dlock");
    let words = ["run", "outer", "sh", "-c", outer, program];
    let sibling_waits = until_go(&sibling);
    let words = [&words[..], &[&sibling_waits, &script]].concat();
    let told = at_a_terminal(&server, "in\r\n", UNLOCK, "", &words).await;
    assert!(told.contains("child asked"), "{told}");
    std::fs::write(&go, "").unwrap();
    for path in [&sibling, &daemon] {
        eventually(LIMIT, "it has gone on", async || {
            std::fs::exists(path).unwrap()
        })
        .await;
    }
}
