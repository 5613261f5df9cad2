//! `dlock run` with faults: the command ends with its lock, and no lock remains.

use std::time::{Duration, SystemTime};

use dlock_testkit::{RedisServer, Worker, eventually};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use super::{
    LIMIT, dlock_without_terminal, ended, eventually_nothing_is_left, locks, run_signals::send,
};

/// Ends on `SIGTERM`, with a message.
const POLITE: &str = "trap 'echo asked; exit 0' TERM; sleep 600 & echo in; wait";
/// Ignores `SIGTERM`, like its child.
const DEAF: &str = "trap '' TERM; sleep 600 & echo in; wait";
/// Time for a shell to start: `SIGTERM` would end one that has not set its trap yet.
const MAX_HOLD: [&str; 2] = ["--max-hold", "3s"];
const HELD: &str = "`--max-hold 3s` has passed";

/// Starts a command under the lock `job`.
async fn running(server: &RedisServer, options: &[&str], script: &str) -> Worker {
    let words = [&["run", "job"], options, &["--", "sh", "-c", script]].concat();
    let worker = Worker::spawn(&mut dlock_without_terminal(server, &words));
    worker.line("in", LIMIT).await;
    worker
}

/// Starts a command, and kills the watchdog of its `dlock`. Only `dlock` can then end the command, even if a pause of the
/// machine delays it beyond the time at which the watchdog would act.
async fn running_unwatched(server: &RedisServer, options: &[&str], script: &str) -> Worker {
    let worker = running(server, options, script).await;
    // Elsewhere the watchdog is not found, and has the time that the TTL leaves.
    #[cfg(target_os = "linux")]
    kill_process(watchdog_of(&worker).await, Signal::KILL).expect("it runs");
    worker
}

/// Returns the time at which the server ends the lease, unless it is renewed.
async fn end_of_lease(server: &RedisServer) -> Duration {
    let mut asked = redis::pipe();
    let asked = asked.atomic().cmd("TIME").cmd("PTTL").arg("dlock:{job}");
    let mut connection = server.connection().await;
    let answer = asked.query_async::<((u64, u64), i64)>(&mut connection);
    let ((seconds, micros), left) = answer.await.expect("the server answers");
    let left = u64::try_from(left).expect("the lease is held");
    Duration::from_secs(seconds) + Duration::from_micros(micros) + Duration::from_millis(left)
}

/// Waits until the lease was renewed. The watchdog knows the command by then.
async fn renewed(server: &RedisServer) {
    let before = end_of_lease(server).await;
    eventually(LIMIT, "the lease is renewed", async || {
        end_of_lease(server).await > before + Duration::from_millis(100)
    })
    .await;
}

async fn run(server: &RedisServer, command: &mut redis::Cmd) {
    let mut connection = server.connection().await;
    let done = command.query_async::<()>(&mut connection).await;
    done.expect("the server does it");
}

#[tokio::test]
async fn a_lease_that_was_taken_away_ends_the_command() {
    let server = RedisServer::start().await;
    let options = ["--ttl", "6s", "--kill-after", "20s"];
    let worker = running(&server, &options, POLITE).await;
    run(&server, redis::cmd("SET").arg("dlock:{job}").arg("stolen")).await;
    let ended = ended(&worker).await.with(76);
    assert!(ended.stdout.contains("asked"));
    assert!(
        ended
            .stderr
            .contains("dlock: the lease was lost: ending the command")
    );
    assert!(
        ended.stderr.lines().any(|it| it.contains("job")),
        "{}",
        ended.stderr
    );
    assert_eq!(
        locks(&server).await,
        ["dlock:{job}"],
        "a stranger's lock stays"
    );
}

#[tokio::test]
async fn a_command_that_ignores_signals_is_killed_with_its_children() {
    let server = RedisServer::start().await;
    let options = ["--ttl", "6s", "--kill-after", "200ms"];
    let worker = running_unwatched(&server, &options, DEAF).await;
    run(&server, redis::cmd("DEL").arg("dlock:{job}")).await;
    ended(&worker).await.with(76);
    eventually_nothing_is_left(&server).await;

    let options = [&MAX_HOLD[..], &["--kill-after", "200ms"]].concat();
    let worker = running_unwatched(&server, &options, DEAF).await;
    ended(&worker).await.with(76);
    eventually_nothing_is_left(&server).await;
}

#[tokio::test]
async fn a_paused_server_ends_the_command_before_its_lease() {
    let server = RedisServer::start().await;
    // With this TTL the last renewal can still be carried out when the command stops waiting for the release.
    let worker = running_unwatched(&server, &["--ttl", "9s"], POLITE).await;
    server.pause();
    let ended = ended(&worker).await.with(76);
    assert!(ended.stdout.contains("asked"));
    let says = "dlock: the lease cannot be renewed: ending the command, SIGKILL follows in";
    assert!(ended.stderr.contains(says), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("before its lease expired"),
        "{}",
        ended.stderr
    );
    let says = "the server did not confirm the release of `job`";
    assert!(ended.stderr.contains(says), "{}", ended.stderr);
    server.resume();
    eventually_nothing_is_left(&server).await;
}

#[tokio::test]
async fn a_server_that_dies_ends_the_command_before_its_lease() {
    let server = RedisServer::start().await;
    let worker = running_unwatched(&server, &["--ttl", "6s", "--json"], DEAF).await;
    server.kill();
    let ended = ended(&worker).await.with(76);
    let last = ended
        .stderr
        .lines()
        .rev()
        .find(|line| line.contains("error"));
    let last: serde_json::Value = serde_json::from_str(last.expect("there is one")).unwrap();
    assert_eq!(
        (&last["error"]["code"], &last["error"]["exit_code"]),
        (&"lost".into(), &76.into())
    );
}

#[tokio::test]
async fn a_command_that_takes_too_long_is_ended_under_its_lock() {
    let server = RedisServer::start().await;
    let worker = running(&server, &MAX_HOLD, POLITE).await;
    let ended = ended(&worker).await.with(76);
    assert!(ended.stdout.contains("asked"));
    assert!(ended.stderr.contains(HELD), "{}", ended.stderr);
    assert!(
        locks(&server).await.is_empty(),
        "it was held, and is given back"
    );
}

#[tokio::test]
async fn a_command_that_takes_too_long_to_end_is_killed_with_its_lease() {
    let server = RedisServer::start().await;
    let options = [&MAX_HOLD[..], &["--ttl", "6s", "--kill-after", "1h"]].concat();
    let worker = running_unwatched(&server, &options, DEAF).await;
    eventually(LIMIT, "the command is told", async || {
        worker.stderr().contains(HELD)
    })
    .await;
    run(&server, redis::cmd("DEL").arg("dlock:{job}")).await;
    ended(&worker).await.with(76);
    eventually_nothing_is_left(&server).await;
}

#[tokio::test]
async fn a_dlock_that_is_stopped_while_its_command_ends_leaves_it_no_longer_than_the_lease() {
    let server = RedisServer::start().await;
    let options = [&MAX_HOLD[..], &["--ttl", "6s", "--kill-after", "1h"]].concat();
    let worker = running(&server, &options, DEAF).await;
    eventually(LIMIT, "the command is told", async || {
        worker.stderr().contains(HELD)
    })
    .await;
    worker.pause();
    eventually(LIMIT, "the watchdog sees to it", async || {
        worker.stderr().contains("`dlock run` does not respond")
    })
    .await;
    worker.resume();
    ended(&worker).await.with(76);
    eventually_nothing_is_left(&server).await;
}

#[tokio::test]
async fn a_killed_dlock_leaves_no_command_behind() {
    // Its time is long enough for a busy machine.
    leaves_nothing_behind_when_killed(POLITE, ["--ttl", "10s", "--kill-after", "5s"]).await;
}

#[tokio::test]
async fn a_command_that_ignores_signals_does_not_survive_a_killed_dlock() {
    leaves_nothing_behind_when_killed(DEAF, ["--ttl", "9s", "--kill-after", "200ms"]).await;
}

async fn leaves_nothing_behind_when_killed(script: &str, options: [&str; 4]) {
    let server = RedisServer::start().await;
    let worker = running(&server, &options, script).await;
    renewed(&server).await;
    worker.kill();
    // The output is complete when its last writer has ended.
    assert_eq!(ended(&worker).await.code, None);
    assert_eq!(worker.stdout().contains("asked"), script == POLITE);
    assert!(
        worker
            .stderr()
            .contains("`dlock run` was killed: ending the command")
    );
    eventually_nothing_is_left(&server).await;
}

/// Starts a command that the watchdog knows, and that runs `on_term` on `SIGTERM`.
async fn watched(server: &RedisServer, options: &[&str], on_term: &str) -> Worker {
    let script =
        format!("trap '{on_term}' TERM; trap 'echo heard' USR1; sleep 600 & echo in; wait; wait");
    let worker = running(server, options, &script).await;
    // `dlock` passes signals on only after its first message to the watchdog.
    send(&worker, Signal::USR1);
    worker.line("heard", LIMIT).await;
    worker
}

#[tokio::test]
async fn a_command_of_a_killed_dlock_is_killed_after_kill_after() {
    let server = RedisServer::start().await;
    let options = ["--ttl", "1h", "--kill-after", "200ms"];
    let worker = watched(&server, &options, "").await;
    worker.kill();
    // The output is complete when its last writer has ended, which is not at the end of the lease.
    assert_eq!(ended(&worker).await.code, None);
}

/// A service manager can kill the whole process group, like a terminal.
#[tokio::test]
async fn a_watchdog_is_not_in_the_group_of_its_dlock() {
    let server = RedisServer::start().await;
    let worker = watched(&server, &[], "echo asked; exit 0").await;
    let group = Pid::from_raw(worker.id().cast_signed()).expect("it has a number");
    kill_process_group(group, Signal::KILL).expect("it leads one");
    assert_eq!(ended(&worker).await.code, None);
    assert!(worker.stdout().contains("asked"), "{}", worker.stderr());
}

/// A service manager sends `SIGTERM` to all processes of a service.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_watchdog_ignores_signals_to_end() {
    let server = RedisServer::start().await;
    let worker = watched(&server, &[], "echo asked; exit 0").await;
    let watchdog = watchdog_of(&worker).await;
    let signals = [Signal::TERM, Signal::INT, Signal::HUP];
    // The message about the command is in the pipe, but the watchdog may not have read it yet.
    eventually(LIMIT, "the watchdog has begun", async || {
        signals.iter().all(|signal| catches(watchdog, *signal))
    })
    .await;
    for signal in signals {
        kill_process(watchdog, signal).expect("it runs");
    }
    worker.kill();
    assert_eq!(ended(&worker).await.code, None);
    assert!(worker.stdout().contains("asked"), "{}", worker.stderr());
}

/// Returns `true` if the process has a handler for the signal.
#[cfg(target_os = "linux")]
fn catches(process: Pid, signal: Signal) -> bool {
    let path = format!("/proc/{}/status", process.as_raw_nonzero());
    let status = std::fs::read_to_string(path).expect("the process runs");
    let caught = status
        .lines()
        .find_map(|line| line.strip_prefix("SigCgt:"))
        .expect("Linux tells it");
    let caught = u64::from_str_radix(caught.trim(), 16).expect("it is a mask");
    (caught >> (signal.as_raw() - 1)) & 1 == 1
}

/// The command may speak before the watchdog is there.
#[cfg(target_os = "linux")]
async fn watchdog_of(worker: &Worker) -> Pid {
    let of_dlock = |pid: &i32| {
        let read = |file| std::fs::read_to_string(format!("/proc/{pid}/{file}"));
        // The process id and the name come before the parenthesis.
        let stat = read("stat").unwrap_or_default();
        let mut rest = stat.rsplit(") ").next().unwrap_or_default().split(' ');
        let parent = rest.nth(1).and_then(|parent| parent.parse().ok());
        parent == Some(worker.id()) && read("cmdline").is_ok_and(|line| line.contains("watchdog"))
    };
    let mut found = None;
    eventually(LIMIT, "there is a watchdog", async || {
        let processes = std::fs::read_dir("/proc").expect("there are processes");
        let mut ids = processes.filter_map(|it| it.ok()?.file_name().to_str()?.parse().ok());
        found = ids.find(of_dlock).and_then(Pid::from_raw);
        found.is_some()
    })
    .await;
    found.expect("it was found")
}

#[tokio::test]
async fn a_stopped_dlock_loses_its_command_before_its_lease() {
    let server = RedisServer::start().await;
    let folder = tempfile::tempdir().unwrap();
    let asked = folder.path().join("asked");
    let script = format!(
        "trap ': > {}; exit 0' TERM; sleep 600 & echo in; wait",
        asked.display()
    );
    let worker = running(&server, &["--ttl", "9s"], &script).await;
    renewed(&server).await;
    worker.pause();
    let end = end_of_lease(&server).await;
    let written = || std::fs::metadata(&asked).and_then(|it| it.modified());
    let is_asked = async || written().is_ok();
    eventually(LIMIT, "the command is asked to end", is_asked).await;
    let at = written().unwrap().duration_since(SystemTime::UNIX_EPOCH);
    let at = at.unwrap();
    let time_to_end = Duration::from_secs(1);
    assert!(at + time_to_end < end, "{at:?}, until {end:?}");
    eventually(LIMIT, "it prints the reason", async || {
        worker.stderr().contains("`dlock run` does not respond")
    })
    .await;
    worker.resume();
    let ended = ended(&worker).await;
    assert!(matches!(ended.code, Some(0 | 76)), "{:?}", ended.code);
    eventually_nothing_is_left(&server).await;
}

#[tokio::test]
async fn a_stopped_command_is_ended_all_the_same() {
    let server = RedisServer::start().await;
    let script = "trap 'echo asked; exit 0' TERM; sleep 600 & echo in; kill -STOP $$; wait";
    let worker = running(&server, &MAX_HOLD, script).await;
    let ended = ended(&worker).await.with(76);
    assert!(ended.stdout.contains("asked"), "{}", ended.stdout);
    eventually_nothing_is_left(&server).await;
}

#[tokio::test]
async fn a_long_command_keeps_its_lock_and_its_watchdog_quiet() {
    let server = RedisServer::start().await;
    let folder = tempfile::tempdir().unwrap();
    let go = folder.path().join("go");
    let script = format!(
        "echo in; while ! [ -e {} ]; do sleep 0.2; done; echo out",
        go.display()
    );
    let worker = running(&server, &["--ttl", "6s"], &script).await;
    // Renewals come after a third of the TTL each, so together they take as long as the TTL. A watchdog that was not
    // told of them acts before.
    for _ in 0..3 {
        renewed(&server).await;
    }
    std::fs::write(&go, "").unwrap();
    let ended = ended(&worker).await.with(0);
    assert_eq!(
        (ended.stdout.as_str(), ended.stderr.as_str()),
        ("in\nout\n", "")
    );
    assert!(locks(&server).await.is_empty());
}

/// Takes longer to end than the rest of a lease of six seconds, of which a third or more is over.
const SLOW: &str = "trap 'sleep 5; echo ended by itself; exit 0' TERM; sleep 600 & echo in; wait";

/// Ends on `SIGTERM`, but its child does not.
const DEAF_CHILD: &str = "sh -c 'trap \"\" TERM; echo in; exec sleep 600' & wait";

#[tokio::test]
async fn the_watchdog_leaves_a_command_the_time_that_dlock_gives_it_to_end() {
    let server = RedisServer::start().await;
    let options = ["--ttl", "6s", "--kill-after", "1h"];
    let worker = running(&server, &options, SLOW).await;
    run(&server, redis::cmd("DEL").arg("dlock:{job}")).await;
    let ended = ended(&worker).await.with(76);
    assert!(ended.stdout.contains("ended by itself"), "{}", ended.stdout);
    assert!(
        !ended.stderr.contains("does not respond"),
        "{}",
        ended.stderr
    );
}

#[tokio::test]
async fn the_watchdog_hears_of_a_lease_that_is_renewed_while_its_command_ends() {
    let server = RedisServer::start().await;
    let options = [&MAX_HOLD[..], &["--ttl", "6s", "--kill-after", "1h"]].concat();
    let worker = running(&server, &options, SLOW).await;
    let ended = ended(&worker).await.with(76);
    assert!(ended.stdout.contains("ended by itself"), "{}", ended.stdout);
    assert!(
        !ended.stderr.contains("does not respond"),
        "{}",
        ended.stderr
    );
}

#[tokio::test]
async fn a_command_whose_lease_cannot_be_renewed_has_no_longer_than_the_lease() {
    let server = RedisServer::start().await;
    let options = ["--ttl", "6s", "--kill-after", "1h"];
    let worker = running_unwatched(&server, &options, DEAF).await;
    server.kill();
    let ended = ended(&worker).await.with(76);
    let says = "the lease cannot be renewed: ending the command, SIGKILL follows in";
    assert!(ended.stderr.contains(says), "{}", ended.stderr);
}

#[tokio::test]
async fn a_command_of_a_killed_dlock_ends_with_the_lease() {
    let server = RedisServer::start().await;
    let options = ["--ttl", "9s", "--kill-after", "1h"];
    let worker = running(&server, &options, DEAF).await;
    renewed(&server).await;
    worker.kill();
    // The output is complete when its last writer has ended.
    ended(&worker).await;
    let says = "`dlock run` was killed: ending the command";
    assert!(worker.stderr().contains(says), "{}", worker.stderr());
    eventually_nothing_is_left(&server).await;
}

#[tokio::test]
async fn children_of_a_command_are_killed_after_it_ended_in_time() {
    let server = RedisServer::start().await;
    let options = [&MAX_HOLD[..], &["--kill-after", "500ms"]].concat();
    let worker = running(&server, &options, DEAF_CHILD).await;
    // The output is complete when its last writer has ended.
    ended(&worker).await.with(76);
    assert!(locks(&server).await.is_empty());

    let options = ["--ttl", "6s", "--kill-after", "300ms"];
    let worker = running(&server, &options, DEAF_CHILD).await;
    run(&server, redis::cmd("DEL").arg("dlock:{job}")).await;
    ended(&worker).await.with(76);
}
