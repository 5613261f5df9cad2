//! Imports a price list in a command-line program without async. Several copies run at once: one imports, the others
//! wait and skip it.
//!
//! ```text
//! cargo run --example import
//! cargo run --example import -- --without-lock
//! DLOCK_URL=redis://127.0.0.1:6379 cargo run --example import -- --copies 5
//! ```
//!
//! The program does not need tokio. A plain `fn` with the attribute blocks its thread, and dlock runs timers,
//! connections and renewals on threads of its own. The table below is a stand-in for a database with a blocking
//! driver.

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

/// The time for one row. All copies start before the first import ends.
const ROW: Duration = Duration::from_millis(40);

/// The number of rows of the price list.
const ROWS: usize = 25;

/// Runs several copies of an import at once. Exits with 1 unless each row was imported exactly once.
///
/// The copies are threads of this process, or processes if `DLOCK_URL` is set.
#[derive(Debug, Parser)]
#[command(name = "import")]
struct Cli {
    /// Number of copies that run at once.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(2..=16))]
    copies: u8,
    /// Run without the lock, to show duplicate rows.
    #[arg(long)]
    without_lock: bool,
    /// The number of this copy.
    #[arg(long, hide = true, requires = "table")]
    copy: Option<u8>,
    /// The file that receives the rows.
    #[arg(long, hide = true)]
    table: Option<PathBuf>,
}

#[derive(Debug, thiserror::Error)]
enum ImportError {
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error("cannot write the table: {0}")]
    Table(#[from] io::Error),
}

/// The result of an import.
enum Import {
    Done { rows: usize, token: Option<i64> },
    Skipped,
}

// dlock cannot stop a thread, so the body itself checks the lease before each row (`on_lost = finish`). `wait`
// is longer than an import. If a copy is killed, the lock stays held for at most one `ttl`.
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

/// A table in a file. Rows are appended one by one.
struct Table(PathBuf);

impl Table {
    /// Writes all rows of `feed` unless they exist. Calls `may_go_on` before each row.
    fn import(
        &self,
        feed: &str,
        token: Option<i64>,
        may_go_on: impl Fn() -> Result<(), LockError>,
    ) -> Result<Import, ImportError> {
        if self.rows()?.contains_key(&row(feed, ROWS)) {
            return Ok(Import::Skipped);
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

    /// Returns how often each row occurs.
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

/// Runs one copy and returns its output.
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
        Import::Skipped => "skipped: the rows are already imported".to_owned(),
    })
}

/// Runs all copies as threads. Each has its own manager, so they share only the store, as processes do.
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

/// Runs all copies as processes of this program.
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
            return Err(format!("a copy failed: {status}").into());
        }
    }
    Ok(())
}

/// A child process that does not outlive this one.
struct Copy(Child);

impl Drop for Copy {
    fn drop(&mut self) {
        // Both fail if the process has ended.
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
        // Reports an unreachable server once, not once per copy.
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
    println!("{count} rows, {more} of them duplicated");
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
