//! `dlock run` and signals, with a terminal and without.

use dlock_testkit::{Proxy, RedisServer, Worker, eventually, patient, python};
use futures_util::{StreamExt as _, stream};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use super::{
    Ended, LIMIT, call, clean, dlock, dlock_without_terminal, ended, eventually_nothing_is_left,
    locks, reads::manager,
};

pub(super) fn send(worker: &Worker, signal: Signal) {
    let pid = Pid::from_raw(worker.id().cast_signed()).expect("it has a number");
    kill_process(pid, signal).expect("it runs");
}

#[tokio::test]
async fn signals_are_passed_on_and_the_commands_answer_counts() {
    let server = RedisServer::start().await;
    for (signal, name) in [
        (Signal::TERM, "TERM"),
        (Signal::INT, "INT"),
        (Signal::QUIT, "QUIT"),
        (Signal::HUP, "HUP"),
        (Signal::USR1, "USR1"),
        (Signal::USR2, "USR2"),
    ] {
        let script =
            // A shell has its children in the background ignore some signals.
            format!("trap 'echo got; kill $!; exit 5' {name}; sleep 600 & echo in; wait");
        let words = ["run", "job", "sh", "-c", &script];
        let worker = Worker::spawn(&mut dlock_without_terminal(&server, &words));
        worker.line("in", LIMIT).await;
        send(&worker, signal);
        let ended = ended(&worker).await.with(5);
        assert!(ended.stdout.contains("got"), "{name}: {}", ended.stdout);
        assert!(locks(&server).await.is_empty());
    }
}

#[tokio::test]
async fn a_command_that_a_signal_ends_gives_the_usual_code() {
    let server = RedisServer::start().await;
    let words = ["run", "job", "sh", "-c", "echo in; exec sleep 600"];
    let worker = Worker::spawn(&mut dlock_without_terminal(&server, &words));
    worker.line("in", LIMIT).await;
    send(&worker, Signal::TERM);
    ended(&worker).await.with(143);
    assert!(locks(&server).await.is_empty());
}

#[tokio::test]
async fn the_lock_is_kept_until_all_that_the_command_has_started_has_ended() {
    let server = RedisServer::start().await;
    // The shell ends at once. Its child ignores `SIGTERM` and gets `SIGKILL`.
    let script = "(trap '' TERM; echo in; exec sleep 600) & wait";
    let words = ["run", "job", "--kill-after", "300ms", "sh", "-c", script];
    let worker = Worker::spawn(&mut dlock_without_terminal(&server, &words));
    worker.line("in", LIMIT).await;
    send(&worker, Signal::TERM);
    // The child keeps the output open, so this waits for its end too.
    ended(&worker).await.with(143);
    assert!(locks(&server).await.is_empty());
}

#[tokio::test]
async fn children_of_the_command_get_the_signal_too() {
    let server = RedisServer::start().await;
    let script = "(trap 'echo child asked; exit 0' TERM; sleep 600 & echo in; wait) & wait";
    let words = ["run", "job", "sh", "-c", script];
    let worker = Worker::spawn(&mut dlock_without_terminal(&server, &words));
    worker.line("in", LIMIT).await;
    send(&worker, Signal::TERM);
    let ended = ended(&worker).await.with(143);
    assert!(ended.stdout.contains("child asked"), "{}", ended.stdout);
}

/// Processes in the background keep running: a command may start a service.
#[tokio::test]
async fn processes_in_the_background_keep_running() {
    let server = RedisServer::start().await;
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (go, done) = (path("go"), path("done"));
    let script = format!(
        "(while ! [ -e {go} ]; do sleep 0.02; done; touch {done}) < /dev/null > /dev/null 2>&1 &"
    );
    let words = ["run", "job", "sh", "-c", &script];
    call(&mut dlock_without_terminal(&server, &words))
        .await
        .with(0);
    std::fs::write(&go, "").unwrap();
    eventually(LIMIT, "it has gone on", async || {
        std::fs::exists(&done).unwrap()
    })
    .await;
    assert!(locks(&server).await.is_empty());
}

#[tokio::test]
async fn the_rest_of_a_group_is_killed_with_the_lease() {
    let server = RedisServer::start().await;
    let script = "(trap '' TERM; echo $$; exec sleep 600) & wait";
    let options = ["run", "job", "--ttl", "6s", "--kill-after", "1h"];
    let words = [&options[..], &["sh", "-c", script]].concat();
    let worker = Worker::spawn(&mut dlock_without_terminal(&server, &words));
    let shell = worker.line("", LIMIT).await;
    let shell = Pid::from_raw(shell.trim().parse().unwrap()).unwrap();
    send(&worker, Signal::TERM);
    let is_gone = async || test_kill_process(shell).is_err();
    eventually(LIMIT, "the shell has ended", is_gone).await;
    let mut connection = server.connection().await;
    let deleted = redis::cmd("DEL").arg("dlock:{job}").to_owned();
    deleted
        .query_async::<()>(&mut connection)
        .await
        .expect("the server does it");
    ended(&worker).await.with(76);
    eventually_nothing_is_left(&server).await;
}

#[tokio::test]
async fn a_signal_during_the_wait_leaves_the_queue_and_runs_nothing() {
    let server = RedisServer::start().await;
    let holder = Worker::spawn(&mut dlock(
        &server,
        &["run", "job", "sh", "-c", "echo in; sleep 600"],
    ));
    holder.line("in", LIMIT).await;
    let words = ["run", "--wait", "forever", "job", "echo", "ran"];
    let waiter = Worker::spawn(&mut dlock_without_terminal(&server, &words));
    let queue = "dlock:{job}:q".to_owned();
    eventually(LIMIT, "it waits", async || {
        locks(&server).await.contains(&queue)
    })
    .await;
    send(&waiter, Signal::INT);
    assert_eq!(ended(&waiter).await.with(130).stdout, "");
    let gone = async || !locks(&server).await.contains(&queue);
    eventually(LIMIT, "it has left the queue", gone).await;
}

/// Sends a signal at the moment of a grant. The process is paused until the grant and then the signal are pending.
async fn signalled_with_the_grant(signal: Signal, options: &[&str]) -> (RedisServer, Ended) {
    let server = RedisServer::start().await;
    let proxy = Proxy::start(server.port());
    let manager = manager(&server, "billing").await;
    let held = manager.lock("job").acquire().await.expect("it is free");
    let words = ["run", "--wait", "forever"];
    let words = [&words[..], options, &["job", "echo", "ran"]].concat();
    let waiter =
        Worker::spawn(dlock_without_terminal(&server, &words).env("DLOCK_URL", proxy.url()));
    let queue = "dlock:{job}:q".to_owned();
    let waits = async || locks(&server).await.contains(&queue);
    eventually(LIMIT, "it waits", waits).await;
    proxy.hold_replies();
    // The release grants the lock to the waiter in the same step.
    held.release().await.expect("it is ours");
    assert!(locks(&server).await.contains(&"dlock:{job}".to_owned()));
    waiter.pause();
    proxy.thaw();
    // The proxy forwards the delayed data before it accepts a later connection.
    let beside = redis::Client::open(proxy.url()).expect("it is a URL");
    let beside = beside
        .get_multiplexed_async_connection_with_config(&patient())
        .await;
    let mut beside = beside.expect("the proxy forwards");
    let pong: redis::RedisResult<String> = redis::cmd("PING").query_async(&mut beside).await;
    pong.expect("the proxy forwards");
    send(&waiter, signal);
    waiter.resume();
    let ended = ended(&waiter).await;
    (server, ended)
}

#[tokio::test]
async fn who_is_told_to_end_while_the_grant_is_on_its_way_runs_nothing() {
    // The order in which the process notices the two events varies.
    let rounds = [(Signal::INT, 130), (Signal::TERM, 143)].repeat(10);
    let rounds = stream::iter(rounds).for_each_concurrent(5, async |(signal, code)| {
        let (server, ended) = signalled_with_the_grant(signal, &[]).await;
        assert_eq!(ended.with(code).stdout, "");
        assert!(locks(&server).await.is_empty());
    });
    rounds.await;
}

#[tokio::test]
async fn ignored_signals_stay_ignored() {
    const NOHUP: &str = "import os, signal, sys; signal.signal(signal.SIGHUP, signal.SIG_IGN); \
                         os.execv(sys.argv[1], sys.argv[1:])";
    let server = RedisServer::start().await;
    let mut command = python();
    clean(&mut command);
    command.env("DLOCK_URL", server.url());
    command.args([
        "-c",
        NOHUP,
        env!("CARGO_BIN_EXE_dlock"),
        "run",
        "job",
        "sh",
        "-c",
    ]);
    let ended = call(command.arg("kill -HUP $PPID; kill -HUP $$; echo lives")).await;
    assert_eq!(ended.with(0).stdout, "lives\n");
}

/// Starts a program on a new terminal. After the first text it runs the second one as Python and types the third one. It
/// prints the output and the exit code.
const AT_A_TERMINAL: &str = r"
import os, pty, signal, sys
trigger, meanwhile, typed = sys.argv[1:4]
pid, terminal = pty.fork()
if pid == 0:
    # A test that runs in the background, or under nohup, was started to ignore some.
    for each in signal.SIGHUP, signal.SIGINT, signal.SIGQUIT:
        signal.signal(each, signal.SIG_DFL)
    os.execv(sys.argv[4], sys.argv[4:])
output, waits = b'', True
while True:
    try:
        data = os.read(terminal, 1024)
    except OSError:
        break
    if not data:
        break
    output += data
    if trigger.encode() in output and waits:
        exec(meanwhile)
        os.write(terminal, typed.encode().decode('unicode_escape').encode())
        waits = False
sys.stdout.write(output.decode())
print('code', os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
";

pub(super) async fn at_a_terminal(
    server: &RedisServer,
    trigger: &str,
    meanwhile: &str,
    typed: &str,
    words: &[&str],
) -> String {
    let mut command = python();
    clean(&mut command);
    command.env("DLOCK_URL", server.url());
    command.args(["-c", AT_A_TERMINAL, trigger, meanwhile, typed]);
    let ended = call(command.arg(env!("CARGO_BIN_EXE_dlock")).args(words)).await;
    ended.with(0).stdout
}

async fn run_at_a_terminal(server: &RedisServer, typed: &str, script: &str) -> String {
    let words = ["run", "job", "sh", "-c", script];
    let told = at_a_terminal(server, "in\r\n", "", typed, &words).await;
    eventually_nothing_is_left(server).await;
    told
}

#[tokio::test]
async fn a_typed_interrupt_arrives_once() {
    let server = RedisServer::start().await;
    // A second signal of the same kind would be passed on before the one below.
    let script = "n=0; trap 'n=$((n+1)); kill -USR1 $PPID' INT; trap 'echo count $n; exit 4' USR1; \
                  echo in; while :; do sleep 0.02; done";
    let told = run_at_a_terminal(&server, r"\x03", script).await;
    assert!(
        told.contains("count 1") && told.contains("code 4"),
        "{told}"
    );
}

/// A terminal sends `SIGINT` to the command too, so `dlock` does not pass it on.
#[tokio::test]
async fn an_interrupt_at_a_terminal_is_not_passed_on() {
    let server = RedisServer::start().await;
    // A shell with two pending signals runs the trap of the first one first.
    let script = "n=0; trap 'n=$((n+1))' INT; trap 'echo count $n; exit 4' USR1; \
                  kill -INT $PPID; kill -USR1 $PPID; while :; do sleep 0.02; done";
    let told = run_at_a_terminal(&server, "", script).await;
    assert!(
        told.contains("count 0") && told.contains("code 4"),
        "{told}"
    );
}

#[tokio::test]
async fn the_command_can_read_from_the_terminal() {
    let server = RedisServer::start().await;
    let told = run_at_a_terminal(&server, r"words\n", "echo in; read line; echo read $line").await;
    assert!(
        told.contains("read words") && told.contains("code 0"),
        "{told}"
    );
}
