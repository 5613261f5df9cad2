//! Imports a price list by a command-line program without async, of which several copies run at once: one
//! imports, the others wait and find it done.
//!
//! ```text
//! cargo run --example import
//! cargo run --example import -- --without-lock
//! DLOCK_URL=redis://127.0.0.1:6379 cargo run --example import -- --copies 5
//! ```
//!
//! Nothing here needs tokio: a plain `fn` under the attribute blocks its thread, and dlock brings the threads for
//! timers, connections and renewals. The table below stands for a database behind a driver that blocks.

use std::{
    collections::BTreeMap,
    env,
    error::Error,
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, Stdio},
    thread,
    time::Duration,
};

use clap::Parser;
use dlock::{LockError, LockManager, distributed_lock, store::memory::MemoryStore};

/// The time that a row takes: long enough for all copies to be there meanwhile.
const ROW: Duration = Duration::from_millis(40);

/// Rows of the price list.
const ROWS: usize = 25;

/// Runs several copies of an import at once, and exits with 1 unless each row was imported once.
///
/// The copies are threads of this process, or processes if `DLOCK_URL` names a server.
#[derive(Debug, Parser)]
#[command(name = "import")]
struct Cli {
    /// How many copies run at once.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(2..=16))]
    copies: u8,
    /// Import without the lock, to show what happens then.
    #[arg(long)]
    without_lock: bool,
    /// Which copy this process is.
    #[arg(long, hide = true, requires = "table")]
    copy: Option<u8>,
    /// Where the rows go.
    #[arg(long, hide = true)]
    table: Option<PathBuf>,
}

#[derive(Debug, thiserror::Error)]
enum ImportError {
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error("the table cannot be written: {0}")]
    Table(#[from] io::Error),
}

/// How an import ended.
enum Import {
    Done { rows: usize, token: Option<i64> },
    FoundDone,
}

// `on_lost = finish`: a thread cannot be stopped, so the body looks for itself whether it may go on. `wait` is as
// long as an import may take; a copy that is killed in it keeps the others out for a `ttl` at most.
#[distributed_lock(
    key = "import:<feed>",
    ttl = "10s",
    wait = "2m",
    lease = lease,
    manager = locks,
    on_lost = finish
)]
fn import(locks: &LockManager, feed: &str, table: &Table) -> Result<Import, ImportError> {
    let token = lease.fencing_token().to_i64();
    table.import(feed, Some(token), || lease.ensure_held())
}

/// A table in a file, to which rows are appended one after the other.
struct Table(PathBuf);

impl Table {
    /// Writes all rows of `feed`, unless they are there; `may_go_on` is asked before each.
    fn import(
        &self,
        feed: &str,
        token: Option<i64>,
        may_go_on: impl Fn() -> Result<(), LockError>,
    ) -> Result<Import, ImportError> {
        if self.rows()?.contains_key(&row(feed, ROWS)) {
            return Ok(Import::FoundDone);
        }
        for number in 1..=ROWS {
            may_go_on()?;
            let mut table = fs::OpenOptions::new()
                .create(true)
                .append(true)
                .open(&self.0)?;
            table.write_all((row(feed, number) + "\n").as_bytes())?;
            thread::sleep(ROW);
        }
        Ok(Import::Done { rows: ROWS, token })
    }

    /// How often each row is there.
    fn rows(&self) -> io::Result<BTreeMap<String, usize>> {
        let text = match fs::read_to_string(&self.0) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            text => text?,
        };
        let mut rows = BTreeMap::new();
        for line in text.lines() {
            *rows.entry(line.to_owned()).or_default() += 1;
        }
        Ok(rows)
    }
}

fn row(feed: &str, number: usize) -> String {
    format!("{feed}, article {number}, {}.90 EUR", number * 3)
}

/// What every copy does.
fn copy(locks: &LockManager, table: &Table, without_lock: bool) -> Result<String, ImportError> {
    let imported = if without_lock {
        table.import("prices", None, || Ok(()))?
    } else {
        import(locks, "prices", table)?
    };
    Ok(match imported {
        Import::Done {
            rows,
            token: Some(token),
        } => format!("imported {rows} rows, token {token}"),
        Import::Done { rows, token: None } => format!("imported {rows} rows"),
        Import::FoundDone => "found them imported".to_owned(),
    })
}

/// All copies as threads. A manager for each: they meet in the store only, as processes would.
fn run_threads(cli: &Cli, table: &Path) -> Result<(), Box<dyn Error>> {
    let store = MemoryStore::new();
    thread::scope(|scope| {
        let copies: Vec<_> = (1..=cli.copies)
            .map(|number| {
                let locks = LockManager::builder().build_with_store(store.clone());
                let table = Table(table.to_owned());
                scope.spawn(move || -> Result<(), String> {
                    let locks = locks.map_err(|error| error.to_string())?;
                    let said = copy(&locks, &table, cli.without_lock);
                    println!("copy {number} {}", said.map_err(|error| error.to_string())?);
                    Ok(())
                })
            })
            .collect();
        for copy in copies {
            copy.join().map_err(|_| "a copy panicked")??;
        }
        Ok(())
    })
}

/// All copies as processes, each of which is this program once more.
fn run_processes(cli: &Cli, table: &Path) -> Result<(), Box<dyn Error>> {
    let mut copies = Vec::new();
    for number in 1..=cli.copies {
        let mut command = Command::new(env::current_exe()?);
        command.args(["--copy", &number.to_string()]);
        command.arg("--table").arg(table);
        command.args(cli.without_lock.then_some("--without-lock"));
        copies.push(Copy(command.stdin(Stdio::null()).spawn()?));
    }
    for mut copy in copies {
        let status = copy.0.wait()?;
        if !status.success() {
            return Err(format!("a copy ended with {status}").into());
        }
    }
    Ok(())
}

/// A process that is not left to itself when this one gives up.
struct Copy(Child);

impl Drop for Copy {
    fn drop(&mut self) {
        // It may have ended.
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

fn run(cli: &Cli) -> Result<ExitCode, Box<dyn Error>> {
    let url = env::var("DLOCK_URL").unwrap_or_default();
    let has_server = !url.is_empty() && !url.starts_with("memory:");
    if let (Some(number), Some(table)) = (cli.copy, &cli.table) {
        let builder = LockManager::builder().application("import");
        let locks = builder.connect_env_blocking()?;
        let said = copy(&locks, &Table(table.clone()), cli.without_lock)?;
        println!("copy {number} {said}");
        return Ok(ExitCode::SUCCESS);
    }
    if has_server {
        // Says once what each copy would say: that the server is not there.
        LockManager::connect_env_blocking()?;
    }
    let directory = tempfile::TempDir::with_prefix("import-")?;
    let table = directory.path().join("table");
    if has_server {
        run_processes(cli, &table)?;
    } else {
        run_threads(cli, &table)?;
    }
    let rows = Table(table).rows()?;
    let (count, more) = (
        rows.len(),
        rows.values().filter(|times| **times > 1).count(),
    );
    println!("{count} rows, {more} of them more than once");
    let is_right = count == ROWS && more == 0;
    Ok(if is_right {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn main() -> ExitCode {
    run(&Cli::parse()).unwrap_or_else(|error| {
        eprintln!("import: {error}");
        ExitCode::FAILURE
    })
}
