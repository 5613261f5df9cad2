//! Readers and a writer of a catalog: the readers share the lock, the writer holds it alone.
//!
//! ```text
//! cargo run --example catalog
//! cargo run --example catalog -- --without-lock
//! DLOCK_URL=redis://127.0.0.1:6379 cargo run --example catalog -- --readers 6
//! ```
//!
//! The readers overlap, and the writer still gets its turn: all wait in one queue, first come, first served. Copy
//! the two functions with the attribute in `visit.rs`; the other modules draw the time line.

mod timeline;
mod visit;

use std::{
    env,
    error::Error,
    io::{self, BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, ExitCode, Stdio},
    thread::{self, JoinHandle},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use clap::Parser;
use dlock::{ConnectError, LockManager, store::memory::MemoryStore};

use crate::{
    timeline::{Screen, Summary},
    visit::{Catalog, Journal, Visitor},
};

/// Processes begin their last section before this time.
const LENGTH: Duration = Duration::from_secs(3);
/// The last sections end before the right edge of the time line.
const SHOWN: Duration = Duration::from_millis(3600);
const FRAME: Duration = Duration::from_millis(50);
/// The output of a process that is connected.
const READY: &str = "ready";

/// Reads and writes a catalog for three seconds. Exits with 1 if a reader and the writer
/// overlapped, a read was mixed, a token was out of order, or one side never ran.
///
/// The readers and the writer are threads of this process, or processes if `DLOCK_URL` is set.
#[derive(Debug, Parser)]
#[command(name = "catalog")]
struct Cli {
    /// Number of readers.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=16))]
    readers: u8,
    /// Run without the lock, to show reads of a half-written catalog.
    #[arg(long)]
    without_lock: bool,
    /// The number of this process; 0 is the writer.
    #[arg(long, hide = true, requires = "directory")]
    visitor: Option<usize>,
    /// The directory of the catalog and the journal.
    #[arg(long, hide = true)]
    directory: Option<PathBuf>,
}

fn journal(directory: &Path, begin: SystemTime) -> Journal {
    Journal {
        file: directory.join("journal"),
        begin,
        length: LENGTH,
    }
}

/// Runs one reader or the writer until the end. `begin` waits for the start of all of them.
fn visit(
    number: usize,
    directory: &Path,
    with_lock: bool,
    locks: impl Future<Output = Result<LockManager, ConnectError>>,
    begin: impl FnOnce() -> io::Result<SystemTime>,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().build()?.block_on(async {
        let locks = locks.await?;
        let visitor = Visitor {
            number,
            locks: locks.clone(),
            catalog: Catalog(directory.to_owned()),
            journal: journal(directory, begin()?),
        };
        if number == 0 {
            visitor.keep_writing(with_lock).await?;
        } else {
            visitor.keep_reading(with_lock).await?;
        }
        locks.shutdown(Duration::from_secs(5)).await;
        Ok(())
    })
}

/// Runs this process as one reader or as the writer. The start comes from the standard input.
fn visit_here(number: usize, cli: &Cli, directory: &Path) -> Result<(), Box<dyn Error>> {
    let locks = LockManager::builder().application("catalog").connect_env();
    let begin = || {
        println!("{READY}");
        let mut line = String::new();
        io::stdin().lock().read_line(&mut line)?;
        let begin: u64 = line.trim().parse().map_err(io::Error::other)?;
        Ok(UNIX_EPOCH + Duration::from_micros(begin))
    };
    visit(number, directory, !cli.without_lock, locks, begin).map_err(|error| error.to_string())?;
    Ok(())
}

/// A thread or a process that visits the catalog.
enum Seat {
    Thread(JoinHandle<Result<(), String>>),
    Process(Process),
}

/// A child process that does not outlive this one.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail if the process has ended.
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

impl Seat {
    fn is_finished(&mut self) -> io::Result<bool> {
        Ok(match self {
            Self::Thread(thread) => thread.is_finished(),
            Self::Process(process) => process.0.try_wait()?.is_some(),
        })
    }

    fn join(self) -> Result<(), Box<dyn Error>> {
        match self {
            Self::Thread(thread) => thread.join().map_err(|_| "a visitor panicked")??,
            Self::Process(mut process) => {
                let status = process.0.wait()?;
                if !status.success() {
                    return Err(format!("a process failed: {status}").into());
                }
            }
        }
        Ok(())
    }
}

/// Starts all visitors as threads. Each has its own manager, so they share only the store, as processes do.
fn start_threads(cli: &Cli, directory: &Path) -> (Vec<Seat>, SystemTime) {
    let (store, begin) = (MemoryStore::new(), SystemTime::now());
    let with_lock = !cli.without_lock;
    let seats = (0..=usize::from(cli.readers)).map(|number| {
        let (store, directory) = (store.clone(), directory.to_owned());
        Seat::Thread(thread::spawn(move || {
            let locks = async { LockManager::builder().build_with_store(store) };
            visit(number, &directory, with_lock, locks, || Ok(begin)).map_err(|it| it.to_string())
        }))
    });
    (seats.collect(), begin)
}

/// Starts this program once for each visitor, and lets all of them begin when the last one is connected.
fn start_processes(cli: &Cli, directory: &Path) -> Result<(Vec<Seat>, SystemTime), Box<dyn Error>> {
    let (mut seats, mut waiting) = (Vec::new(), Vec::new());
    for number in 0..=cli.readers {
        let mut command = Command::new(env::current_exe()?);
        command.args(["--visitor", &number.to_string()]);
        command.arg("--directory").arg(directory);
        command.args(cli.without_lock.then_some("--without-lock"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = Process(command.spawn()?);
        let input: ChildStdin = process.0.stdin.take().ok_or("no standard input")?;
        let output = process.0.stdout.take().ok_or("no standard output")?;
        seats.push(Seat::Process(process));
        waiting.push((input, BufReader::new(output)));
    }
    for (_, output) in &mut waiting {
        let mut line = String::new();
        output.read_line(&mut line)?;
        if line.trim() != READY {
            return Err("a process did not start".into());
        }
    }
    let begin = SystemTime::now();
    let since = begin.duration_since(UNIX_EPOCH)?.as_micros();
    for (input, _) in &mut waiting {
        writeln!(input, "{since}")?;
    }
    Ok((seats, begin))
}

fn run(cli: &Cli) -> Result<ExitCode, Box<dyn Error>> {
    if let Some((number, directory)) = cli.visitor.zip(cli.directory.as_ref()) {
        visit_here(number, cli, directory)?;
        return Ok(ExitCode::SUCCESS);
    }
    let url = env::var("DLOCK_URL").unwrap_or_default();
    let has_server = !url.is_empty() && !url.starts_with("memory:");
    if has_server {
        // Reports an unreachable server once, not once per process.
        LockManager::connect_env_blocking()?;
    }
    let directory = tempfile::TempDir::with_prefix("catalog-")?;
    Catalog(directory.path().to_owned()).open()?;
    let (mut seats, begin) = if has_server {
        start_processes(cli, directory.path())?
    } else {
        start_threads(cli, directory.path())
    };
    let kind = if has_server { "processes" } else { "threads" };
    let readers = usize::from(cli.readers);
    let lock = if cli.without_lock {
        "no lock"
    } else {
        "mode = shared for readers"
    };
    println!("{readers} readers and 1 writer as {kind}, {lock}");
    println!("(· waits, ▒ reads, █ writes)\n");

    let (journal, mut screen) = (journal(directory.path(), begin), Screen::new());
    while !all_finished(&mut seats)? {
        if screen.is_live() {
            screen.draw(&journal.entries()?, readers, journal.elapsed(), SHOWN)?;
        }
        thread::sleep(FRAME);
    }
    seats.into_iter().try_for_each(Seat::join)?;
    let entries = journal.entries()?;
    let end = entries.last().map_or(SHOWN, |entry| entry.at);
    // On a busy machine the last sections end later.
    screen.draw(&entries, readers, end, SHOWN.max(end))?;

    println!();
    let summary = Summary::of(&entries, !cli.without_lock);
    summary.print();
    if summary.is_right() {
        println!("each reader saw whole editions only");
        Ok(ExitCode::SUCCESS)
    } else {
        println!(
            "WRONG: see the counts above. The last three must be 0, and there must be reads and writes"
        );
        Ok(ExitCode::FAILURE)
    }
}

fn all_finished(seats: &mut [Seat]) -> io::Result<bool> {
    for seat in seats {
        if !seat.is_finished()? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn main() -> ExitCode {
    run(&Cli::parse()).unwrap_or_else(|error| {
        eprintln!("catalog: {error}");
        ExitCode::FAILURE
    })
}
