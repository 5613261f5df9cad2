//! Runs one contender in one workload.

use std::path::PathBuf;
use std::time::Duration;

use dlock_testkit::RedisServer;
use redis::aio::MultiplexedConnection;
use serde::Deserialize;
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use super::journal::Journal;
use super::process::Process;
use super::results::Measured;
use super::wire;
use super::workload::{Contender, DLOCK_ALONE, PUBLISH, Shape, Workload};
use crate::Failure;
use crate::arguments::Peer;
use crate::clock::{micros, now};
use crate::outcome::{Outcome, count};
use crate::pin::Layout;
use crate::stats::Stats;

/// One process holds the lock, and one has all the waiters.
const PROCESSES_AT_A_LINE: f64 = 2.0;
/// The shortest time in which requests a second can be counted.
const LEAST_TO_COUNT: Duration = Duration::from_secs(6);
/// How long a process may take beyond what it measures.
const PATIENCE: Duration = Duration::from_secs(60);
/// Until all processes have started.
const START_UP: Duration = Duration::from_millis(1200);
/// Until all waiters have asked.
const SETTLED: Duration = Duration::from_millis(1500);

pub(super) struct Runner {
    server: RedisServer,
    /// More of them, for a quorum.
    others: Vec<RedisServer>,
    connection: MultiplexedConnection,
    folder: TempDir,
    layout: Layout,
    seconds: Duration,
    keys: u32,
}

/// The line that a holder prints at its end.
#[derive(Deserialize)]
struct Given {
    rel_ns: u64,
}

impl Runner {
    pub(super) async fn new(seconds: Duration, layout: Layout) -> Result<Self, Failure> {
        let server = start_server(&layout, 0).await?;
        Ok(Self {
            connection: server.connection().await,
            server,
            others: Vec::new(),
            layout,
            folder: TempDir::with_prefix("dlock-bench-")?,
            seconds,
            keys: 0,
        })
    }

    pub(super) async fn run(
        &mut self,
        workload: Workload,
        contender: &Contender,
    ) -> Result<Measured, Failure> {
        self.server.flush().await;
        self.keys += 1;
        match workload.shape() {
            // It has no lock to share, and is to be measured as the others are: for as long.
            Shape::Fleet { times, .. } if contender.name == PUBLISH => {
                self.single(contender, &[], times).await
            }
            Shape::Single(words) => self.single(contender, words, 1).await,
            Shape::Quorum { words, .. } if contender.name == DLOCK_ALONE => {
                self.single(contender, words, 1).await
            }
            Shape::Quorum { servers, words } => {
                let url = format!("url={}", self.quorum(servers).await?);
                let words: Vec<_> = words.iter().copied().chain([&*url]).collect();
                let measured = self.single(contender, &words, 1).await?;
                // One server's are not all.
                Ok(Measured {
                    commands: None,
                    ..measured
                })
            }
            Shape::Fleet {
                processes,
                times,
                words,
            } => self.fleet(contender, processes, words, times).await,
            Shape::Waiting { tasks } => self.waiting(contender, tasks).await,
        }
    }

    /// The URL of a quorum of `count` servers, which are started if they do not run yet.
    async fn quorum(&mut self, count: usize) -> Result<String, Failure> {
        while self.others.len() + 1 < count {
            let number = self.others.len() + 1;
            self.others.push(start_server(&self.layout, number).await?);
        }
        let servers = [&self.server].into_iter().chain(&self.others);
        let hosts = servers
            .take(count)
            .map(|server| format!("127.0.0.1:{}", server.port()));
        Ok(format!("redlock://{}", hosts.collect::<Vec<_>>().join(",")))
    }

    async fn single(
        &mut self,
        contender: &Contender,
        words: &[&str],
        times: u32,
    ) -> Result<Measured, Failure> {
        let seconds = self.seconds * times;
        let mut words = self.words(contender, words, seconds);
        words.push("drain_s=1".to_owned());
        let before = self.stats().await?;
        let outcome: Outcome = Process::start(&words)?.outcome(seconds + PATIENCE).await?;
        let sent = wire::sent(contender.peer, &before, &self.stats().await?);
        complain(contender, &outcome);
        let locks = contender.peer != Peer::Publish;
        let remote = locks && !matches!(contender.peer, Peer::Memory | Peer::Mutex);
        Ok(Measured {
            sections_per_s: locks.then_some(outcome.cps),
            p50_us: Some(outcome.cycle_p50_us),
            fairness: fairness(&[&outcome]).filter(|_| locks && outcome.tasks > 1),
            worst_wait_ms: Some(outcome.wait_max_us / 1e3),
            commands: each(sent, outcome.cycles).filter(|_| remote),
            overlaps: outcome.overlaps,
            failed: outcome.failed,
        })
    }

    async fn fleet(
        &mut self,
        contender: &Contender,
        processes: usize,
        words: &[&str],
        times: u32,
    ) -> Result<Measured, Failure> {
        let seconds = self.seconds * times;
        let mut words = self.words(contender, words, seconds);
        let start = now() + crate::clock::nanos(START_UP);
        words.extend(["drain_s=1".to_owned(), format!("start_ns={start}")]);
        let logs: Vec<PathBuf> = (0..processes)
            .map(|number| self.folder.path().join(number.to_string()))
            .collect();
        let before = self.stats().await?;
        let mut running = Vec::new();
        for log in &logs {
            let log = format!("log={}", log.display());
            let words: Vec<_> = words.iter().cloned().chain([log]).collect();
            running.push(Process::start(&words)?);
        }
        let mut outcomes = Vec::new();
        for process in running {
            let outcome: Outcome = process.outcome(START_UP + seconds + PATIENCE).await?;
            complain(contender, &outcome);
            outcomes.push(outcome);
        }
        let sent = wire::sent(contender.peer, &before, &self.stats().await?);
        let journal = Journal::read(&logs)?;
        let worst = outcomes.iter().map(|it| it.wait_max_us).fold(0.0, f64::max);
        Ok(Measured {
            sections_per_s: Some(count(journal.len()) / seconds.as_secs_f64()),
            p50_us: journal.hand_off().map(micros),
            fairness: fairness(&outcomes.iter().collect::<Vec<_>>()),
            worst_wait_ms: Some(worst / 1e3),
            commands: each(sent, journal.len()),
            overlaps: journal.overlaps(),
            failed: outcomes.iter().map(|it| it.failed).sum(),
        })
    }

    async fn waiting(&mut self, contender: &Contender, tasks: usize) -> Result<Measured, Failure> {
        // There are few requests, which are to be counted all the same.
        let measured = self.seconds.max(LEAST_TO_COUNT);
        let limit = measured + PATIENCE;
        let holds = self.words(contender, &["mode=hold"], SETTLED * 2 + measured);
        let mut holder = Process::start(&holds)?;
        holder.says("HELD", limit).await?;

        let log = self.folder.path().join("waiters");
        let mut waits = self.words(contender, &["mode=wait", "drain_s=30"], measured);
        waits.push(format!("tasks={tasks}"));
        waits.push(format!("log={}", log.display()));
        let waiters = Process::start(&waits)?;
        sleep(SETTLED).await;
        let (start, before) = (Instant::now(), self.stats().await?);
        sleep(measured).await;
        let sent = wire::sent(contender.peer, &before, &self.stats().await?);
        let span = start.elapsed().as_secs_f64();

        let given: Given = holder.outcome(limit).await?;
        let outcome: Outcome = waiters.outcome(limit).await?;
        complain(contender, &outcome);
        let journal = Journal::read(&[log])?;
        if journal.len() < tasks {
            let through = journal.len();
            return Err(format!("only {through} of {tasks} waiters got the lock").into());
        }
        let through = journal.end().map(|end| end.saturating_sub(given.rel_ns));
        Ok(Measured {
            worst_wait_ms: through.map(|nanos| micros(nanos) / 1e3),
            // The holder renews its lease meanwhile, which counts as well.
            commands: Some(count(usize::try_from(sent)?) / span / PROCESSES_AT_A_LINE),
            overlaps: journal.overlaps(),
            failed: outcome.failed,
            ..Measured::default()
        })
    }

    /// The words for a process.
    fn words(&self, contender: &Contender, of_workload: &[&str], seconds: Duration) -> Vec<String> {
        let peer = clap::ValueEnum::to_possible_value(&contender.peer);
        let peer = peer.expect("no peer is hidden");
        let fixed = [
            format!("peer={}", peer.get_name()),
            format!("url={}", self.server.url()),
            format!("key=bench-{}", self.keys),
            format!("seconds={}", seconds.as_secs_f64()),
        ];
        let others = of_workload.iter().chain(contender.words);
        let has_url = of_workload.iter().any(|word| word.starts_with("url="));
        fixed
            .into_iter()
            .filter(|word| !(has_url && word.starts_with("url=")))
            .chain(others.map(|&word| word.to_owned()))
            .chain(self.layout.clients().map(|it| format!("cpus={it}")))
            .collect()
    }

    async fn stats(&mut self) -> Result<Stats, Failure> {
        Stats::of(&mut self.connection).await
    }
}

/// A server on a processor of the servers.
pub(crate) async fn start_server(layout: &Layout, number: usize) -> Result<RedisServer, Failure> {
    // The runtime has one thread, so nothing else is started from this one meanwhile.
    let _here = layout.enter_servers(number)?;
    Ok(RedisServer::start().await)
}

/// Failures are counted, but one wants to know what they were.
fn complain(contender: &Contender, outcome: &Outcome) {
    if let Some(failure) = &outcome.failure {
        let (name, times) = (contender.name, outcome.failed);
        eprintln!("warning: {name} failed {times} times, at last: {failure}");
    }
}

/// The fewest sections of a task by the most.
fn fairness(outcomes: &[&Outcome]) -> Option<f64> {
    let fewest = outcomes.iter().map(|it| it.task_min).min()?;
    let most = outcomes.iter().map(|it| it.task_max).max()?;
    (most > 0).then(|| count(fewest) / count(most))
}

fn each(sent: u64, sections: usize) -> Option<f64> {
    let sent = count(usize::try_from(sent).ok()?);
    (sections > 0).then(|| sent / count(sections))
}
