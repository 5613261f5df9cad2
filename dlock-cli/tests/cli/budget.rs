//! Scans of a server with many other keys: they are slow, report their progress, and miss nothing.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use dlock::{LockManager, Wait};
use dlock_testkit::{RedisServer, Worker, eventually, python};
use rustix::process::Signal;

use super::{LIMIT, call, clean, dlock, ended, reads::manager, run_signals::send, until_answered};

/// The server's time for a scan of all keys. The scan takes 25 times as long: longer than the second after which commands
/// report a slow scan, read known locks in between, and show the progress.
const COST: Duration = Duration::from_millis(45);

/// So many keys are written at a time: on a loaded machine, an answer about all of them would come too late.
const PART: u32 = 5000;

/// So many parts are there at least.
const FEWEST: u32 = 4;

/// The number of keys in a step of a scan.
const STEP: u32 = 1000;

/// On a loaded machine each step takes longer, and the pause after it is 25 times as long.
const SLOWLY: Duration = Duration::from_secs(300);

/// A server with keys of another program. It logs each request with its time.
struct Crowded {
    server: RedisServer,
    parts: u32,
}

/// A step of a scan.
struct Step {
    cursor: u64,
    pattern: String,
    took: Duration,
}

impl Step {
    /// Returns the part of the keys that were read before, in percent.
    fn at(&self) -> u64 {
        // Cursors count from the highest bit to the lowest.
        self.cursor.reverse_bits() / (u64::MAX / 100)
    }
}

impl Crowded {
    /// Starts a server with so many keys that a scan takes `COST` of its time, on a machine of any speed.
    async fn start() -> Self {
        let log = ["--slowlog-log-slower-than", "0"];
        let limit = ["--slowlog-max-len", "1000000"];
        let server = RedisServer::start_with(&[log, limit].concat()).await;
        let mut it = Self { server, parts: 0 };
        it.grow(FEWEST).await;
        loop {
            let cost = it.cost_of_a_scan().await;
            if cost >= COST {
                break;
            }
            // A scan of a larger table costs more for each key.
            let wanted = u128::from(it.parts) * COST.as_nanos() / cost.as_nanos();
            let wanted = u32::try_from(wanted).expect("a scan takes some time");
            it.grow((wanted - it.parts).clamp(1, it.parts)).await;
        }
        it
    }

    /// Writes so many more parts.
    async fn grow(&mut self, parts: u32) {
        let mut connection = self.server.connection().await;
        for _ in 0..parts {
            let first = self.parts * PART;
            let mut fill = redis::cmd("MSET");
            for number in first..first + PART {
                fill.arg(format!("other:{number}")).arg("x");
            }
            let filled = fill.exec_async(&mut connection).await;
            filled.expect("it has room");
            self.parts += 1;
        }
    }

    /// Returns the time that a scan of all keys takes the server.
    async fn cost_of_a_scan(&self) -> Duration {
        let mut least = Duration::MAX;
        // Other processes only prolong it.
        for _ in 0..2 {
            assert_eq!(self.server.keys("dlock:*").await, [""; 0]);
            least = least.min(self.steps().await.iter().map(|it| it.took).sum());
            self.forget_steps().await;
        }
        least
    }

    /// Returns the number of steps of a scan of all keys.
    fn step_count(&self) -> usize {
        usize::try_from(self.parts * PART / STEP).expect("they are in memory")
    }

    async fn forget_steps(&self) {
        let () = self.server.read(redis::cmd("SLOWLOG").arg("RESET")).await;
    }

    /// Returns the steps of all scans so far.
    async fn steps(&self) -> Vec<Step> {
        self.steps_among(1_000_000).await
    }

    /// Returns the steps of scans among the last requests.
    async fn steps_among(&self, requests: u32) -> Vec<Step> {
        type Entry = (u64, u64, u64, Vec<String>, String, String);
        let mut log = redis::cmd("SLOWLOG");
        let log: Vec<Entry> = self.server.read(log.arg("GET").arg(requests)).await;
        let steps = log.into_iter().rev().filter_map(|entry| {
            let (_, _, micros, request, _, _) = entry;
            let [command, cursor, _, pattern, ..] = request.as_slice() else {
                return None;
            };
            (command == "SCAN").then(|| Step {
                cursor: cursor.parse().expect("it is a number"),
                pattern: pattern.clone(),
                took: Duration::from_micros(micros),
            })
        });
        steps.collect()
    }

    /// Waits for the first part of a scan, and returns the number of scans that have begun. Known locks are read long
    /// before its end then, also if this process goes on a second late.
    async fn has_most_of_a_scan_before_it(&self) -> usize {
        eventually(SLOWLY, "a scan has begun", async || {
            let steps = self.steps_among(20).await;
            steps.last().is_some_and(|step| step.at() < 10)
        })
        .await;
        scans(&self.steps().await)
    }

    /// Asserts that so many scans have begun, and that the last one is not near its end.
    async fn still_scans(&self, begun: usize) {
        let steps = self.steps().await;
        let at = steps.last().map_or(100, Step::at);
        assert_eq!(scans(&steps), begun, "another scan has begun");
        assert!(at < 90, "after {at} % of the scan");
    }
}

fn scans(steps: &[Step]) -> usize {
    steps.iter().filter(|step| step.cursor == 0).count()
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

#[tokio::test]
async fn a_slow_list_spares_the_server_and_shows_its_progress_at_a_terminal() {
    let crowded = Crowded::start().await;
    let server = &crowded.server;
    let steps = [
        "see:% of the keys; slow to spare the server, use `--fast` for full speed",
        "see:no locks are held or waited for",
    ];
    let at_terminal = in_terminal(server, &["ls"], &steps);
    // The two processes have independent paces.
    let elsewhere = until_answered(async || {
        crowded.forget_steps().await;
        let began = Instant::now();
        let list = Worker::spawn(&mut dlock(server, &["ls", "--namespace", "elsewhere"]));
        list.wait(SLOWLY).await;
        let took = began.elapsed();
        let mut steps = crowded.steps().await;
        steps.retain(|step| step.pattern.starts_with("elsewhere:"));
        // No pause follows the last step.
        steps.pop();
        let used: Duration = steps.iter().map(|step| step.took).sum();
        assert!(used * 20 <= took, "{used:?} of {took:?}");
        let ended = ended(&list).await;
        assert!(ended.code != Some(0) || steps.len() + 1 >= crowded.step_count());
        ended
    });
    let (_, slow) = tokio::join!(at_terminal.wait(SLOWLY), elsewhere);
    let shown = ended(&at_terminal).await.with(0);
    assert!(shown.stdout.contains("code 0"), "{}", shown.stdout);
    let slow = slow.with(0);
    crowded.forget_steps().await;
    let fast = call(&mut dlock(server, &["ls", "--fast"])).await.with(0);
    let nothing = "dlock: no locks are held or waited for in namespace ";
    assert!(fast.stderr.starts_with(nothing), "{}", fast.stderr);
    assert!(crowded.steps().await.len() >= crowded.step_count());
    let nothing = format!("{nothing}`elsewhere` of ");
    assert!(slow.stderr.starts_with(&nothing), "{}", slow.stderr);
    assert_eq!(slow.stderr.lines().count(), 1, "there is no terminal");
}

#[tokio::test]
async fn top_reports_slow_scans() {
    let Crowded { server, .. } = Crowded::start().await;
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
    let mut crowded = Crowded::start().await;
    let billing = manager(&crowded.server, "billing").await;
    let known = billing.lock("known").acquire().await.expect("it is free");
    let watch = Worker::spawn(&mut dlock(&crowded.server, &["watch", "-i", "50ms"]));
    watch.line("held      known", SLOWLY).await;
    // Known locks are read each second: the scans from now on take several.
    crowded.grow(crowded.parts * 3).await;
    let begun = crowded.has_most_of_a_scan_before_it().await;
    known.release().await.expect("it was held");
    watch.line("released  known", SLOWLY).await;
    crowded.still_scans(begun).await;

    let mail = manager(&crowded.server, "mail").await;
    let begun = crowded.has_most_of_a_scan_before_it().await;
    handed_on(&crowded.server, &billing, &mail).await;
    watch.line("heard  mail@", SLOWLY).await;
    crowded.still_scans(begun).await;
    send(&watch, Signal::INT);
    let said = ended(&watch).await.with(0).stderr;
    assert!(said.contains("a scan of all keys takes"), "{said}");
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
