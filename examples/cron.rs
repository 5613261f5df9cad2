//! Sends the invoices of a night once, although every replica of a service starts the job by its own clock.
//!
//! ```text
//! cargo run --example cron
//! cargo run --example cron -- --without-min-hold
//! DLOCK_URL=redis://127.0.0.1:6379 cargo run --example cron -- --kill
//! ```
//!
//! Three durations ensure this. For replicas whose clocks differ by `SKEW`:
//!
//! - `ttl`: after a crash in the job, the lock stays held for at most this time.
//! - `wait` is longer than the job and `ttl` together. A waiting replica then still takes over after a crash.
//! - `min_hold` is longer than `SKEW` and `wait` together. A late replica then finds the lock held although the job is
//!   done, and skips it.

use std::{
    env,
    error::Error,
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    process::{ExitCode, Stdio},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use clap::Parser;
use dlock::{Lease, LockError, LockManager, distributed_lock, store::memory::MemoryStore};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    process::{Child, Command},
    sync::mpsc::{UnboundedSender, unbounded_channel},
    task::JoinSet,
    time::{Instant, sleep, timeout},
};

// A service uses minutes here, and a `min_hold` of half an hour. With a `ttl` of one or two seconds, a busy
// machine can lose the lease.
const TTL: Duration = Duration::from_secs(6);
const WAIT: Duration = Duration::from_secs(12);
const MIN_HOLD: Duration = Duration::from_secs(20);
const JOB: Duration = Duration::from_millis(2500);
/// The delay of each replica's clock behind the one before it.
const SKEW: Duration = Duration::from_millis(400);
/// The greatest value of `--replicas`.
const MOST: u8 = 16;
const _: () = {
    assert!(WAIT.as_millis() > JOB.as_millis() + TTL.as_millis());
    let skew = SKEW.as_millis() * (MOST as u128 - 1);
    assert!(MIN_HOLD.as_millis() > skew + WAIT.as_millis());
};
/// The output of a replica that has started the job. The coordinator waits for it.
const BEGUN: &str = "runs the job";

/// Starts a nightly job on several replicas. Exits with 1 unless it ran exactly once.
///
/// The replicas are tasks of this process, or processes if `DLOCK_URL` is set.
#[derive(Debug, Parser)]
#[command(name = "cron")]
struct Cli {
    /// Number of replicas that start the job.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(2..=i64::from(MOST)))]
    replicas: u8,
    /// Release the lock as soon as the job is done, to show the double run.
    #[arg(long)]
    without_min_hold: bool,
    /// Kill the replica that runs the job. Requires `DLOCK_URL`.
    #[arg(long)]
    kill: bool,
    /// The number of this replica.
    #[arg(long, hide = true, requires = "night")]
    replica: Option<u8>,
    /// The night of the job.
    #[arg(long, hide = true)]
    night: Option<u64>,
    /// The file that receives the invoices.
    #[arg(long, hide = true)]
    outbox: Option<PathBuf>,
}

/// One of several replicas of a service.
struct Replica {
    number: u8,
    locks: LockManager,
    /// A stand-in for a mail server, which accepts the same mail twice.
    outbox: PathBuf,
    say: Say,
}

type Say = Box<dyn Fn(String) + Send + Sync>;

#[derive(Debug, PartialEq)]
enum Night {
    Done,
    Skipped,
}

#[derive(Debug, thiserror::Error)]
enum JobError {
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error(transparent)]
    Outbox(#[from] io::Error),
}

// The night is part of the key, so the next night does not wait for the `min_hold` of this one.
#[distributed_lock(
    key = "invoices:<night>",
    ttl = TTL,
    wait = WAIT,
    min_hold = MIN_HOLD,
    on_busy = Ok(Night::Skipped),
    lease = lease,
    manager = replica.locks
)]
async fn invoices(night: u64, replica: &Replica) -> Result<Night, JobError> {
    send_invoices(replica, lease).await
}

/// The same without `min_hold`. The lock then prevents two runs at the same time, but not one after the other.
#[distributed_lock(
    key = "invoices:<night>",
    ttl = TTL,
    wait = WAIT,
    on_busy = Ok(Night::Skipped),
    lease = lease,
    manager = replica.locks
)]
async fn invoices_without_min_hold(night: u64, replica: &Replica) -> Result<Night, JobError> {
    send_invoices(replica, lease).await
}

async fn send_invoices(replica: &Replica, lease: &Lease) -> Result<Night, JobError> {
    replica.say(format!("{BEGUN}, token {}", lease.fencing_token()));
    sleep(JOB).await;
    // The last check before the step that cannot be undone.
    lease.ensure_held()?;
    let mut outbox = fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(&replica.outbox)?;
    writeln!(outbox, "invoices from replica {}", replica.number)?;
    Ok(Night::Done)
}

impl Replica {
    fn say(&self, text: impl Into<String>) {
        (self.say)(text.into());
    }

    /// Runs the job at midnight by the replica's clock.
    async fn run(&self, night: u64, without_min_hold: bool) -> Result<(), JobError> {
        sleep(SKEW * u32::from(self.number - 1)).await;
        self.say("starts: midnight by its clock");
        let night = if without_min_hold {
            invoices_without_min_hold(night, self).await?
        } else {
            invoices(night, self).await?
        };
        self.say(match night {
            Night::Done => "sent the invoices",
            Night::Skipped => "skips the job: the lock is busy",
        });
        // Releases the locks. The store keeps a lock for the rest of its `min_hold`.
        self.locks.shutdown(Duration::from_secs(5)).await;
        Ok(())
    }
}

/// Runs this process as one replica.
async fn replica_process(cli: &Cli, number: u8) -> Result<(), Box<dyn Error>> {
    let builder = LockManager::builder().application("cron");
    let replica = Replica {
        number,
        locks: builder.connect_env().await?,
        outbox: cli.outbox.clone().ok_or("--outbox is missing")?,
        say: Box::new(|text| println!("{text}")),
    };
    println!("ready");
    let mut line = String::new();
    let mut stdin = BufReader::new(tokio::io::stdin());
    if stdin.read_line(&mut line).await? == 0 {
        return Err("the input ended before midnight".into());
    }
    let night = cli.night.ok_or("--night is missing")?;
    replica.run(night, cli.without_min_hold).await?;
    Ok(())
}

/// A line of output of a replica.
struct Said {
    replica: u8,
    text: String,
}

/// Runs all replicas as tasks. Each has its own manager, so they share only the store, as processes do.
async fn run_tasks(cli: &Cli, outbox: &Path) -> Result<(), Box<dyn Error>> {
    let store = MemoryStore::new();
    let (said, mut all_said) = unbounded_channel();
    let mut tasks = JoinSet::new();
    for number in 1..=cli.replicas {
        let said = said.clone();
        let replica = Replica {
            number,
            locks: LockManager::builder().build_with_store(store.clone())?,
            outbox: outbox.to_owned(),
            say: Box::new(move |text| tell(&said, number, text)),
        };
        let without_min_hold = cli.without_min_hold;
        tasks.spawn(async move { replica.run(0, without_min_hold).await });
    }
    drop(said);
    let midnight = Instant::now();
    while let Some(said) = all_said.recv().await {
        said.print(midnight);
    }
    while let Some(task) = tasks.join_next().await {
        task??;
    }
    Ok(())
}

/// Runs all replicas as processes of this program.
async fn run_processes(cli: &Cli, outbox: &Path) -> Result<(), Box<dyn Error>> {
    // A scheduler names the night. The clocks of the replicas could differ around midnight.
    let night = SystemTime::now().duration_since(UNIX_EPOCH)?.as_micros();
    let (said, mut all_said) = unbounded_channel();
    let mut children = Vec::new();
    let mut readers = JoinSet::new();
    for number in 1..=cli.replicas {
        let mut command = Command::new(env::current_exe()?);
        command.args(["--replica", &number.to_string()]);
        command.args(["--night", &night.to_string()]);
        command.arg("--outbox").arg(outbox);
        command.args(cli.without_min_hold.then_some("--without-min-hold"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        // No replica outlives this process after an error.
        let mut child = command.kill_on_drop(true).spawn()?;
        let lines = child.stdout.take().ok_or("the output is piped")?;
        let mut lines = BufReader::new(lines).lines();
        let said = said.clone();
        readers.spawn(async move {
            while let Ok(Some(text)) = lines.next_line().await {
                tell(&said, number, text);
            }
        });
        children.push(Some(child));
    }
    drop(said);

    // Processes take a while to start. Midnight is when all are ready.
    for _ in 0..cli.replicas {
        tokio::select! {
            _ready = all_said.recv() => {}
            _ended = readers.join_next() => return Err("a replica failed to start".into()),
        }
    }
    for child in children.iter_mut().flatten() {
        let mut stdin = child.stdin.take().ok_or("the input is piped")?;
        stdin.write_all(b"midnight\n").await?;
    }
    let midnight = Instant::now();
    let mut killed = !cli.kill;
    while let Some(said) = all_said.recv().await {
        said.print(midnight);
        if !killed && said.text.starts_with(BEGUN) {
            killed = true;
            let child = &mut children[usize::from(said.replica - 1)];
            // SIGKILL: no destructor runs, so the lock is not released.
            child.take().ok_or("the replica has ended")?.kill().await?;
            let replica = said.replica;
            let text = "was killed during the job".to_owned();
            Said { replica, text }.print(midnight);
        }
    }
    for child in children.into_iter().flatten() {
        ended_well(child).await?;
    }
    Ok(())
}

async fn ended_well(mut child: Child) -> Result<(), Box<dyn Error>> {
    // The replica has closed its output, so it ends soon.
    let status = timeout(Duration::from_secs(10), child.wait()).await??;
    if status.success() {
        return Ok(());
    }
    Err(format!("a replica failed: {status}").into())
}

fn tell(said: &UnboundedSender<Said>, replica: u8, text: String) {
    // The receiver is gone only when the whole run has failed.
    said.send(Said { replica, text }).ok();
}

impl Said {
    fn print(&self, midnight: Instant) {
        let at = midnight.elapsed().as_secs_f64();
        println!("  {at:>5.2} s  replica {}  {}", self.replica, self.text);
    }
}

async fn run(cli: &Cli) -> Result<ExitCode, Box<dyn Error>> {
    if let Some(number) = cli.replica {
        replica_process(cli, number).await?;
        return Ok(ExitCode::SUCCESS);
    }
    let url = env::var("DLOCK_URL").unwrap_or_default();
    let has_server = !url.is_empty() && !url.starts_with("memory:");
    if cli.kill && !has_server {
        eprintln!(
            "cron: --kill requires a server, because only processes can be killed. Set DLOCK_URL, for example"
        );
        eprintln!("  DLOCK_URL=redis://127.0.0.1:6379 cargo run --example cron -- --kill");
        return Ok(ExitCode::from(2));
    }
    if has_server {
        // Reports an unreachable server once, not once per replica.
        LockManager::connect_env().await?;
    }
    let directory = tempfile::TempDir::with_prefix("cron-")?;
    let outbox = directory.path().join("outbox");
    let (replicas, skew) = (cli.replicas, SKEW * u32::from(cli.replicas - 1));
    print!("{replicas} replicas, clock skew {skew:?}, ttl {TTL:?}, wait {WAIT:?}, ");
    if cli.without_min_hold {
        println!("no min_hold");
    } else {
        println!("min_hold {MIN_HOLD:?}");
    }
    if has_server {
        run_processes(cli, &outbox).await?;
    } else {
        run_tasks(cli, &outbox).await?;
    }
    let sent = match fs::read_to_string(&outbox) {
        Ok(sent) => sent.lines().count(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
        Err(error) => return Err(error.into()),
    };
    if sent == 1 {
        println!("the invoices were sent exactly once");
        return Ok(ExitCode::SUCCESS);
    }
    println!("WRONG: the invoices were sent {sent} times");
    Ok(ExitCode::FAILURE)
}

#[tokio::main]
async fn main() -> ExitCode {
    run(&Cli::parse()).await.unwrap_or_else(|error| {
        eprintln!("cron: {error}");
        ExitCode::FAILURE
    })
}
