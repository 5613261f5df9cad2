//! Tests of the built program with real servers.

mod arguments;
mod bench;
mod budget;
mod cases;
mod doctor;
mod documented;
#[cfg(feature = "etcd")]
mod etcd;
mod layouts;
mod postgres;
mod reads;
mod run;
mod run_ends;
mod run_followers;
mod run_metrics;
mod run_signals;
mod serve;
mod top;
mod unlock;
mod watch;
#[cfg(feature = "zookeeper")]
mod zookeeper;

use std::{process::Command, time::Duration};

use dlock_testkit::{RedisServer, Worker, eventually, python};

/// A generous limit, for a loaded machine.
const LIMIT: Duration = Duration::from_secs(60);

/// Returns the program with the URL of a server, without the settings in the environment of the test.
fn dlock(server: &RedisServer, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dlock"));
    clean(&mut command);
    command.env("DLOCK_URL", server.url()).args(arguments);
    command
}

/// Returns the same program without a controlling terminal.
fn dlock_without_terminal(server: &RedisServer, arguments: &[&str]) -> Command {
    const LEAVE: &str = r"
import os, signal, sys
# A test that runs in the background, under nohup or under perf was started to ignore some.
for each in signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2:
    signal.signal(each, signal.SIG_DFL)
os.setsid()
os.execv(sys.argv[1], sys.argv[1:])
";
    let mut command = python();
    clean(&mut command);
    command
        .env("DLOCK_URL", server.url())
        .args(["-c", LEAVE, env!("CARGO_BIN_EXE_dlock")])
        .args(arguments);
    command
}

fn clean(command: &mut Command) {
    for name in [
        "DLOCK_URL",
        "DLOCK_NAMESPACE",
        "DLOCK_USER",
        "DLOCK_PASSWORD",
        "DLOCK_SERVE_TOKEN",
        "PGUSER",
        "PGPASSWORD",
        "NO_COLOR",
        "CLICOLOR_FORCE",
    ] {
        command.env_remove(name);
    }
}

/// The result of a call of the program.
struct Ended {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Ended {
    /// Asserts the exit code.
    #[track_caller]
    fn with(self, code: i32) -> Self {
        let (stdout, stderr) = (&self.stdout, &self.stderr);
        assert_eq!(self.code, Some(code), "\n{stdout}\n{stderr}");
        self
    }
}

/// So often is the program called at most, until the servers were fast enough: they run on a busy machine.
const CALLS: usize = 10;

/// Calls the program and waits for its end. It is called again if it has done nothing because a server was too slow.
async fn call(command: &mut Command) -> Ended {
    for _ in 1..CALLS {
        let ended = ended(&Worker::spawn(command)).await;
        if ended.code != Some(69) || !is_late(&ended.stderr) {
            return ended;
        }
    }
    ended(&Worker::spawn(command)).await
}

/// Calls the program, and again if one of the servers that it reports on was too slow for it.
async fn until_answered(mut call: impl AsyncFnMut() -> Ended) -> Ended {
    let mut ended = call().await;
    for _ in 1..CALLS {
        if !is_late(&ended.stdout) && !is_late(&ended.stderr) {
            break;
        }
        ended = call().await;
    }
    ended
}

/// Returns `true` if the program says that a server has not answered in time.
fn is_late(text: &str) -> bool {
    let late = [
        "did not answer within",
        "no answer within",
        "after it stopped answering",
        // `doctor` on a server that needs more than a second for a PING, or for a session of a second.
        "locks are sometimes `Unavailable`",
        "a short session could not be made",
    ];
    late.iter().any(|words| text.contains(words))
}

/// Waits for the end of the program and of all processes that can write to its output.
async fn ended(worker: &Worker) -> Ended {
    let status = worker.wait(LIMIT).await;
    let (stdout, stderr) = (worker.stdout(), worker.stderr());
    for text in [&stdout, &stderr] {
        assert!(!has_owner_id(text), "{text}");
    }
    Ended {
        code: status.code(),
        stdout,
        stderr,
    }
}

/// Returns `true` if a text has an owner id, which is a secret: 32 hexadecimal digits, a dot, and a number.
fn has_owner_id(text: &str) -> bool {
    let digits = |it: &[u8]| it.iter().all(u8::is_ascii_hexdigit);
    let mut parts = text.as_bytes().windows(34);
    parts.any(|it| digits(&it[..32]) && it[32] == b'.' && it[33].is_ascii_digit())
}

/// Leaves out what `dlock watch` says when a scan takes long, or a server is too slow, as both are on a busy machine.
fn without_pace(stderr: &str) -> String {
    let lines = stderr.lines();
    let is_pace = |line: &str| {
        line.contains("to spare the server")
            || is_late(line)
            || line.ends_with("the server answers again")
    };
    lines.filter(|line| !is_pace(line)).collect()
}

/// Starts three independent servers, and returns them with their URL.
async fn quorum() -> ([RedisServer; 3], String) {
    let servers = [
        RedisServer::start().await,
        RedisServer::start().await,
        RedisServer::start().await,
    ];
    let [one, two, three] = servers.each_ref().map(RedisServer::port);
    let url = format!("redlock://127.0.0.1:{one},127.0.0.1:{two},127.0.0.1:{three}");
    (servers, url)
}

/// Returns the keys of locks and queues on the server, without fences.
async fn locks(server: &RedisServer) -> Vec<String> {
    server.keys("dlock:{*").await
}

async fn eventually_nothing_is_left(server: &RedisServer) {
    let nothing = async || locks(server).await.is_empty();
    eventually(LIMIT, "no lock and no waiter is left", nothing).await;
}
