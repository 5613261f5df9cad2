//! Moves money between accounts, in both directions at once, and compares the sum before and after.
//!
//! ```text
//! cargo run --example transfer
//! cargo run --example transfer -- --without-lock
//! DLOCK_URL=redis://127.0.0.1:6379 cargo run --example transfer -- --processes 3
//! ```
//!
//! A transfer needs two accounts. Two calls that lock them one after the other, one from 1 to 2 and one from 2 to 1,
//! can deadlock. `transfer` names both keys in one attribute, so it cannot.

use std::{
    env,
    error::Error,
    fs, io,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use clap::Parser;
use dlock::{ConnectError, FencingToken, LockError, LockManager, distributed_lock};
use tokio::{
    process::{Child, Command},
    task::JoinSet,
    time::{Instant, sleep},
};

const ACCOUNTS: u64 = 4;
const OPENING_CENTS: i64 = 100_000;
const TASKS: u64 = 8;
const TRANSFERS_PER_TASK: u64 = 40;
const WORK: Duration = Duration::from_millis(1);

/// Moves money between accounts in many tasks. Exits with 1 if the sum has changed.
///
/// The locks are in this process, or in the server of `DLOCK_URL`.
#[derive(Debug, Parser)]
#[command(name = "transfer")]
struct Cli {
    /// Run without locks, to show lost updates.
    #[arg(long)]
    without_lock: bool,
    /// Number of processes. More than one require `DLOCK_URL`.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=32))]
    processes: u16,
    /// The accounts of the parent process.
    #[arg(long, hide = true)]
    bank: Option<PathBuf>,
}

/// One file for each account. A stand-in for a database without transactions: each statement is safe, a sequence of
/// them is not.
struct Bank(PathBuf);

/// The content of a file: the balance, and the fencing token of the last writer.
struct Account {
    cents: i64,
    token: i64,
}

impl Bank {
    fn file(&self, id: u64) -> PathBuf {
        self.0.join(id.to_string())
    }

    fn load(&self, id: u64) -> io::Result<Account> {
        let text = fs::read_to_string(self.file(id))?;
        let mut numbers = text.split(' ').map(str::parse);
        match (numbers.next(), numbers.next()) {
            (Some(Ok(cents)), Some(Ok(token))) => Ok(Account { cents, token }),
            _ => Err(io::Error::other(format!(
                "account {id} contains invalid text \"{text}\""
            ))),
        }
    }

    /// Refuses a late write: one with a smaller token than the last write.
    fn store(&self, id: u64, cents: i64, token: Option<FencingToken>) -> io::Result<()> {
        let token = token.map_or(0, FencingToken::to_i64);
        if self.load(id).is_ok_and(|account| account.token > token) {
            return Err(io::Error::other(format!(
                "account {id} was written with a greater token"
            )));
        }
        // A rename is atomic, so readers see the old balance or the new one.
        let new = tempfile::NamedTempFile::new_in(&self.0)?;
        fs::write(new.path(), format!("{cents} {token}"))?;
        new.persist(self.file(id))?;
        Ok(())
    }

    fn sum(&self) -> io::Result<i64> {
        let accounts = (0..ACCOUNTS).map(|id| self.load(id));
        accounts.map(|account| Ok(account?.cents)).sum()
    }
}

#[derive(Debug, thiserror::Error)]
enum TransferError {
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error(transparent)]
    Bank(#[from] io::Error),
}

// Acquires both locks or none. If `from` and `to` are the same, this is one lock.
#[distributed_lock(
    key = ["account:<from>", "account:<to>"],
    ttl = "10s",
    wait = "60s",
    lease = lease
)]
async fn transfer(bank: &Bank, from: u64, to: u64, cents: i64) -> Result<(), TransferError> {
    let token = |id| lease.fencing_token_for(format!("account:{id}"));
    move_money(bank, from, to, cents, &token).await
}

async fn transfer_unlocked(
    bank: &Bank,
    from: u64,
    to: u64,
    cents: i64,
) -> Result<(), TransferError> {
    move_money(bank, from, to, cents, &|_| None).await
}

async fn move_money(
    bank: &Bank,
    from: u64,
    to: u64,
    cents: i64,
    token: &(dyn Fn(u64) -> Option<FencingToken> + Sync),
) -> Result<(), TransferError> {
    let debited = bank.load(from)?.cents - cents;
    // Stands for a call to another service. Other tasks run during any await.
    sleep(WORK).await;
    bank.store(from, debited, token(from))?;
    let credited = bank.load(to)?.cents + cents;
    sleep(WORK).await;
    bank.store(to, credited, token(to))?;
    Ok(())
}

/// Moves money in many tasks of this process.
async fn work(bank: Bank, without_lock: bool) -> Result<(), Box<dyn Error>> {
    let bank = Arc::new(bank);
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let bank = Arc::clone(&bank);
        tasks.spawn(async move {
            for step in 0..TRANSFERS_PER_TASK {
                let (one, other) = (step % ACCOUNTS, (step + step / ACCOUNTS) % ACCOUNTS);
                // Half of the tasks move money in the opposite direction.
                let (from, to) = if task % 2 == 0 {
                    (one, other)
                } else {
                    (other, one)
                };
                let cents = i64::try_from(1 + (13 * task + 7 * step) % 97).expect("it is small");
                if without_lock {
                    transfer_unlocked(&bank, from, to, cents).await?;
                } else {
                    transfer(&bank, from, to, cents).await?;
                }
            }
            Ok::<_, TransferError>(())
        });
    }
    while let Some(task) = tasks.join_next().await {
        task??;
    }
    Ok(())
}

/// Starts this program several times and waits for all of them.
async fn work_elsewhere(bank: &Path, cli: &Cli) -> Result<(), Box<dyn Error>> {
    let mut children: Vec<Child> = Vec::new();
    for _ in 0..cli.processes {
        let mut command = Command::new(env::current_exe()?);
        command.arg("--bank").arg(bank).kill_on_drop(true);
        command.args(cli.without_lock.then_some("--without-lock"));
        children.push(command.spawn()?);
    }
    for mut child in children {
        let status = child.wait().await?;
        if !status.success() {
            return Err(format!("a process failed: {status}").into());
        }
    }
    Ok(())
}

async fn install() -> Result<(), Box<dyn Error>> {
    // The memory store locks within this process only. A service returns the error `NoUrl` instead.
    let manager = match LockManager::connect_env().await {
        Err(ConnectError::NoUrl) => LockManager::memory(),
        connected => connected?,
    };
    dlock::install(manager)?;
    Ok(())
}

async fn run(cli: &Cli) -> Result<ExitCode, Box<dyn Error>> {
    if let Some(bank) = &cli.bank {
        install().await?;
        work(Bank(bank.clone()), cli.without_lock).await?;
        dlock::shutdown(Duration::from_secs(5)).await;
        return Ok(ExitCode::SUCCESS);
    }
    let url = env::var("DLOCK_URL").unwrap_or_default();
    if cli.processes > 1 && !cli.without_lock && (url.is_empty() || url.starts_with("memory:")) {
        eprintln!("transfer: --processes above 1 requires a server. Set DLOCK_URL, for example");
        eprintln!("  DLOCK_URL=redis://127.0.0.1:6379");
        return Ok(ExitCode::from(2));
    }

    let directory = tempfile::TempDir::with_prefix("transfer-")?;
    let bank = Bank(directory.path().to_owned());
    for id in 0..ACCOUNTS {
        bank.store(id, OPENING_CENTS, None)?;
    }
    let before = bank.sum()?;
    let begin = Instant::now();
    if cli.processes > 1 {
        work_elsewhere(directory.path(), cli).await?;
    } else {
        install().await?;
        work(Bank(bank.0.clone()), cli.without_lock).await?;
        dlock::shutdown(Duration::from_secs(5)).await;
    }
    let elapsed = begin.elapsed();

    let transfers = u64::from(cli.processes) * TASKS * TRANSFERS_PER_TASK;
    println!("{transfers} transfers between {ACCOUNTS} accounts in {elapsed:.1?}");
    for id in 0..ACCOUNTS {
        println!("  account {id}  {:>10}", money(bank.load(id)?.cents));
    }
    let after = bank.sum()?;
    println!("  sum        {:>10}, was {}", money(after), money(before));
    if after == before {
        println!("the sum has not changed");
        return Ok(ExitCode::SUCCESS);
    }
    let fault = if after > before {
        "too much"
    } else {
        "too little"
    };
    println!("WRONG: {} {fault}", money((after - before).abs()));
    Ok(ExitCode::from(1))
}

fn money(cents: i64) -> String {
    let sign = if cents < 0 { "-" } else { "" };
    let cents = cents.unsigned_abs();
    format!("{sign}{}.{:02}", cents / 100, cents % 100)
}

// On one thread, all tasks read before the first one writes. Without a lock, every run then has a wrong sum.
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    run(&Cli::parse()).await.unwrap_or_else(|error| {
        eprintln!("transfer: {error}");
        ExitCode::FAILURE
    })
}
