//! Starts the workers, kills one of them in its critical section, and prints the results.

use std::{env, io, path::PathBuf, process::Stdio, time::Duration};

use dlock::LockManager;
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
    task::JoinSet,
    time::Instant,
};

use crate::{
    audit,
    error::Error,
    input,
    ledger::{self, Ledger},
    message::{Message, Tally},
    settle::TTL,
};

/// The options of the program.
#[derive(Debug, clap::Args)]
pub(crate) struct Job {
    /// Number of worker processes.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=64))]
    processes: u8,
    /// Number of webhooks that each worker handles at the same time.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u8).range(1..))]
    tasks: u8,
    /// The webhooks: a CSV file with the header `order,merchant,amount_cents`.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/orders/webhooks.csv"))]
    input: PathBuf,
    /// Do not kill a worker. By default, one worker is killed in its critical section.
    #[arg(long)]
    no_kill: bool,
    /// Run without locks, to show double settlements. No worker is killed.
    #[arg(long)]
    without_lock: bool,
}

/// A worker that was killed while it held the lock of an order.
#[derive(Debug)]
pub(crate) struct Killed {
    pub(crate) worker: usize,
    pub(crate) order: String,
    pub(crate) token: i64,
    /// The time before the kill, since 1970.
    pub(crate) at: Duration,
}

/// The end of a worker.
enum End {
    Done(Tally),
    Killed(Killed),
}

/// The same for every run. Two runs at the same time may wait for each other; a new namespace for each run would leave
/// its fences in the server for ever.
const NAMESPACE: &str = "orders-example";

/// Runs the job. Returns `true` if every order was settled exactly once.
pub(crate) async fn run(job: &Job) -> Result<bool, Error> {
    let kill = !job.no_kill && !job.without_lock;
    if kill && job.processes < 2 {
        let usage = "one process leaves no other to take over: add --processes 2 or --no-kill";
        return Err(Error::Usage(usage));
    }
    let webhooks = input::read(&job.input)?;
    let orders = input::distinct(&webhooks);
    let (lines, distinct) = (webhooks.len(), orders.len());
    let namespace = (!job.without_lock).then_some(NAMESPACE);
    if let Some(namespace) = namespace {
        find_server().await?;
        println!("{lines} webhooks of {distinct} orders, locks in {namespace}, ttl {TTL:?}");
    } else {
        println!("{lines} webhooks of {distinct} orders, no locks");
    }

    let directory = TempDir::with_prefix("orders-")?;
    let begin = Instant::now();
    let mut workers = JoinSet::new();
    for number in 1..=usize::from(job.processes) {
        let mut command = command(number, job, &directory)?;
        if let Some(namespace) = namespace {
            command.args(["--namespace", namespace]);
        }
        if kill && number == 1 {
            command.args(["--stall-at", &(lines / 3).to_string()]);
        }
        workers.spawn(watch(number, command.spawn()?));
    }
    let mut tally = Tally::default();
    let mut ended = 0;
    let mut killed = Vec::new();
    while let Some(end) = workers.join_next().await {
        match end?? {
            End::Done(one) => {
                ended += 1;
                tally.add(one);
            }
            End::Killed(one) => killed.push(one),
        }
    }
    let elapsed = begin.elapsed();

    let records = Ledger::new(directory.path()).read()?;
    let mut audit = audit::settlements(&orders, &records);
    let mut taken_over = 0;
    for killed in &killed {
        taken_over += usize::from(audit.take_over(killed, &records));
    }
    if kill && killed.is_empty() {
        let fault = "no worker was killed, so nothing could be taken over";
        audit.faults.push(fault.to_owned());
    }
    audit::print_sections(&tally, ended, elapsed);
    if namespace.is_some() {
        audit::print_waits(&mut tally);
        println!("take-overs: {taken_over}");
    }
    for fault in &audit.faults {
        println!("WRONG: {fault}");
    }
    if audit.faults.is_empty() {
        println!("all {distinct} orders settled exactly once");
    }
    Ok(audit.faults.is_empty())
}

/// Returns the command that starts this program as a worker.
fn command(number: usize, job: &Job, ledger: &TempDir) -> io::Result<Command> {
    let mut command = Command::new(env::current_exe()?);
    command.arg("worker");
    command.args(["--number", &number.to_string()]);
    command.args(["--tasks", &job.tasks.to_string()]);
    command.arg("--input").arg(&job.input);
    command.arg("--ledger").arg(ledger.path());
    // No worker outlives this process after an error.
    command.stdout(Stdio::piped()).kill_on_drop(true);
    Ok(command)
}

/// Reads the output of a worker until its end. Kills the worker when it reports that it is in a critical section.
async fn watch(worker: usize, mut child: Child) -> Result<End, Error> {
    let mut tally = None;
    if let Some(stdout) = child.stdout.take() {
        let mut lines = BufReader::new(stdout).lines();
        while let Some(line) = lines.next_line().await? {
            match line.parse() {
                Ok(Message::Done(done)) => tally = Some(done),
                Ok(Message::Stalled { order, token }) => {
                    let at = ledger::now();
                    // SIGKILL: no destructor runs, so the lock is not released.
                    child.kill().await?;
                    println!(
                        "worker {worker} killed in the critical section of {order}, token {token}"
                    );
                    return Ok(End::Killed(Killed {
                        worker,
                        order,
                        token,
                        at,
                    }));
                }
                Err(_) => return Err(Error::Message { worker, line }),
            }
        }
    }
    let status = child.wait().await?;
    match tally {
        Some(tally) if status.success() => Ok(End::Done(tally)),
        _ => Err(Error::Worker { worker, status }),
    }
}

/// Reports a missing or unreachable server once, not once per worker.
async fn find_server() -> Result<(), Error> {
    let url = env::var("DLOCK_URL").unwrap_or_default();
    if url.is_empty() || url.starts_with("memory:") {
        return Err(Error::Usage(
            "DLOCK_URL is not set to a server, and several processes need one. For example:\n\n    \
             docker run --rm --publish 6379:6379 redis      (or: redis-server)\n    \
             DLOCK_URL=redis://127.0.0.1:6379 cargo run --example orders",
        ));
    }
    LockManager::connect(&url).await?;
    Ok(())
}
