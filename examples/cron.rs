//! Sends the invoices of a night once, although every replica of a service starts that job by a clock
//! of its own.
//!
//! ```text
//! cargo run --example cron
//! cargo run --example cron -- --without-min-hold
//! DLOCK_URL=redis://127.0.0.1:6379 cargo run --example cron -- --kill
//! ```
//!
//! Three durations make it so. What they must be, for replicas whose clocks differ by `SKEW`:
//!
//! - `ttl` is how long a replica that was killed in the job keeps others from doing it instead.
//! - `wait` is longer than the job and a `ttl` together: somebody is still there to do it then.
//! - `min_hold` is longer than `SKEW` and `wait` together: who comes late finds the lock held
//!   although the job is long done, and skips it.

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

// A service would have minutes here, and a `min_hold` of half an hour. With a `ttl` of a second or two a
// machine that is busy with something else for that long would lose the lease.
const TTL: Duration = Duration::from_secs(6);
const WAIT: Duration = Duration::from_secs(12);
const MIN_HOLD: Duration = Duration::from_secs(20);
const JOB: Duration = Duration::from_millis(2500);
/// How much later than the one before it a replica believes that it is midnight.
const SKEW: Duration = Duration::from_millis(400);
/// What the range of `--replicas` ends with.
const MOST: u8 = 16;
const _: () = {
    assert!(WAIT.as_millis() > JOB.as_millis() + TTL.as_millis());
    let skew = SKEW.as_millis() * (MOST as u128 - 1);
    assert!(MIN_HOLD.as_millis() > skew + WAIT.as_millis());
};
/// What a replica says when it has begun, and the coordinator wants to know.
const BEGUN: &str = "runs the job";

/// Runs a nightly job on several replicas, and exits with 1 unless it was done once.
///
/// The replicas are tasks of this process, or processes if `DLOCK_URL` names a server.
#[derive(Debug, Parser)]
#[command(name = "cron")]
struct Cli {
    /// How many replicas start the job.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(2..=i64::from(MOST)))]
    replicas: u8,
    /// Give the lock back as soon as the job is done, to show what happens then.
    #[arg(long)]
    without_min_hold: bool,
    /// Kill the replica that has begun the job. Needs a server.
    #[arg(long)]
    kill: bool,
    /// Which replica this process is.
    #[arg(long, hide = true, requires = "night")]
    replica: Option<u8>,
    /// The night whose invoices are sent.
    #[arg(long, hide = true)]
    night: Option<u64>,
    /// Where they are put.
    #[arg(long, hide = true)]
    outbox: Option<PathBuf>,
}

/// One of several processes of the same service.
struct Replica {
    number: u8,
    locks: LockManager,
    /// Stands for a mail server, which takes the same mail twice.
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

// The night is part of the key, so that the next one never waits for the `min_hold` of this one.
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

/// The same without `min_hold`: a lock keeps two from running it at once, not one after the other.
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
    // The last look before the step that cannot be undone.
    lease.ensure_held()?;
    let mut outbox = fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(&replica.outbox)?;
    writeln!(outbox, "invoices by replica {}", replica.number)?;
    Ok(Night::Done)
}

impl Replica {
    fn say(&self, text: impl Into<String>) {
        (self.say)(text.into());
    }

    /// From midnight on, as it really is.
    async fn run(&self, night: u64, without_min_hold: bool) -> Result<(), JobError> {
        sleep(SKEW * u32::from(self.number - 1)).await;
        self.say("its clock says midnight");
        let night = if without_min_hold {
            invoices_without_min_hold(night, self).await?
        } else {
            invoices(night, self).await?
        };
        self.say(match night {
            Night::Done => "has sent the invoices",
            Night::Skipped => "skips the job: another has it",
        });
        // Gives back what is held, except for the rest of `min_hold`, which the store keeps.
        self.locks.shutdown(Duration::from_secs(5)).await;
        Ok(())
    }
}

/// A replica that is a process of its own.
async fn replica_process(cli: &Cli, number: u8) -> Result<(), Box<dyn Error>> {
    let builder = LockManager::builder().application("cron");
    let replica = Replica {
        number,
        locks: builder.connect_env().await?,
        outbox: cli.outbox.clone().ok_or("--outbox is missing")?,
        say: Box::new(|text| println!("{text}")),
    };
    println!("is ready");
    let mut line = String::new();
    let mut stdin = BufReader::new(tokio::io::stdin());
    if stdin.read_line(&mut line).await? == 0 {
        return Err("midnight never came".into());
    }
    let night = cli.night.ok_or("--night is missing")?;
    replica.run(night, cli.without_min_hold).await?;
    Ok(())
}

/// What one of the replicas says.
struct Said {
    replica: u8,
    text: String,
}

/// All replicas as tasks. A manager for each: they meet in the store only, as processes would.
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

/// All replicas as processes, each of which is this program once more.
async fn run_processes(cli: &Cli, outbox: &Path) -> Result<(), Box<dyn Error>> {
    // What a scheduler calls the night, and not each replica by its clock.
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
        // None is left to itself when this process gives up on an error.
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

    // A process takes its time to start: midnight is when all are there.
    for _ in 0..cli.replicas {
        tokio::select! {
            _ready = all_said.recv() => {}
            _ended = readers.join_next() => return Err("a replica could not start".into()),
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
            // SIGKILL: no destructor runs, nothing is released.
            child.take().ok_or("it lives")?.kill().await?;
            let replica = said.replica;
            let text = "was killed in the job".to_owned();
            Said { replica, text }.print(midnight);
        }
    }
    for child in children.into_iter().flatten() {
        ended_well(child).await?;
    }
    Ok(())
}

async fn ended_well(mut child: Child) -> Result<(), Box<dyn Error>> {
    // It has closed its output, so there is not much left of it.
    let status = timeout(Duration::from_secs(10), child.wait()).await??;
    if status.success() {
        return Ok(());
    }
    Err(format!("a replica ended with {status}").into())
}

fn tell(said: &UnboundedSender<Said>, replica: u8, text: String) {
    // Whoever listened has given up, and ends everything.
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
        eprintln!("cron: only a process can be killed, and processes need a server to meet at:");
        eprintln!("  DLOCK_URL=redis://127.0.0.1:6379 cargo run --example cron -- --kill");
        return Ok(ExitCode::from(2));
    }
    if has_server {
        // Says once what each replica would say: that the server is not there.
        LockManager::connect_env().await?;
    }
    let directory = tempfile::TempDir::with_prefix("cron-")?;
    let outbox = directory.path().join("outbox");
    let (replicas, skew) = (cli.replicas, SKEW * u32::from(cli.replicas - 1));
    print!("{replicas} replicas, clocks {skew:?} apart, ttl {TTL:?}, wait {WAIT:?}, ");
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
        println!("the invoices were sent once");
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
