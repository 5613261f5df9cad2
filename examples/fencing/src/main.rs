//! A lock holder is paused for longer than its lease and then writes too late. The database refuses the write by its
//! fencing token.
//!
//! ```text
//! cargo run -p fencing
//! cargo run -p fencing -- --without-fencing
//! DLOCK_URL=redis://127.0.0.1:6379 cargo run -p fencing
//! ```
//!
//! `stock` has the two SQL statements and the reason for each, and `sell` uses them. The other modules are the
//! test around them.

mod seat;
mod sell;
mod stock;

use std::{
    env,
    error::Error,
    path::PathBuf,
    process::ExitCode,
    sync::mpsc::{self, Receiver},
    time::{Duration, Instant},
};

use clap::Parser;
use dlock::{LockManager, store::memory::MemoryStore};

use crate::{
    seat::{Said, Seat},
    sell::{ITEM, SOLD, STALLS, TTL},
    stock::Stock,
};

const IN_STOCK: i64 = 10;
/// The test fails after this time without output of a seller.
const LIMIT: Duration = Duration::from_mins(1);

/// Sells two items while one seller is paused in the middle of its sale. Exits with 1 if the stock is wrong.
///
/// The sellers are threads of this process, or processes if `DLOCK_URL` is set.
#[derive(Debug, Parser)]
#[command(name = "fencing")]
struct Cli {
    #[command(flatten)]
    how: How,
    /// The database of the parent process.
    #[arg(long, hide = true)]
    database: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, clap::Args)]
struct How {
    /// Do not compare fencing tokens, to show a lost update.
    #[arg(long)]
    without_fencing: bool,
    /// Pause before the first write.
    #[arg(long, hide = true)]
    stall: bool,
}

/// Receives and prints the output of the sellers.
struct Timeline {
    said: Receiver<Said>,
    begin: Instant,
    /// The sellers that are done and may end.
    done: Vec<&'static str>,
}

impl Timeline {
    fn print(&self, who: &str, text: &str) {
        let at = self.begin.elapsed().as_secs_f64();
        println!("  {at:>5.2} s  {who:<5}  {text}");
    }

    /// Prints lines until `who` prints `what`.
    fn until(&mut self, who: &str, what: &str) -> Result<(), String> {
        loop {
            let Ok(Said { seller, text }) = self.said.recv_timeout(LIMIT) else {
                return Err(format!("no output of {who} for {LIMIT:?}"));
            };
            let Some(text) = text else {
                if self.done.contains(&seller) {
                    continue;
                }
                return Err(format!("{seller} ended unexpectedly"));
            };
            self.print(seller, &text);
            if text == SOLD {
                self.done.push(seller);
            }
            if seller == who && text == what {
                return Ok(());
            }
        }
    }
}

/// Sells two items and returns the stock that is left.
async fn sell_two(how: How, has_server: bool) -> Result<i64, Box<dyn Error>> {
    let directory = tempfile::TempDir::with_prefix("fencing-")?;
    let database = directory.path().join("stock.db");
    let stock = Stock::open_file(&database, true).await?;
    stock.create(ITEM, IN_STOCK).await?;

    let store = MemoryStore::new();
    let (to, said) = mpsc::channel();
    let mut timeline = Timeline {
        said,
        begin: Instant::now(),
        done: Vec::new(),
    };
    let seat = |seller, stall| {
        let how = How { stall, ..how };
        if has_server {
            Seat::process(seller, to.clone(), &database, how)
        } else {
            let (store, to) = (store.clone(), to.clone());
            Ok(Seat::thread(seller, store, to, &database, how))
        }
    };
    let mut slow = seat("slow", true)?;
    timeline.until("slow", STALLS)?;
    timeline.print("slow", slow.stop()?);

    let quick = seat("quick", false)?;
    timeline.until("quick", SOLD)?;
    timeline.print("slow", "continues");
    slow.wake()?;
    timeline.until("slow", SOLD)?;
    drop((slow, quick));
    Ok(stock.left(ITEM).await?)
}

async fn run(how: How) -> Result<ExitCode, Box<dyn Error>> {
    let url = env::var("DLOCK_URL").unwrap_or_default();
    let has_server = !url.is_empty() && !url.starts_with("memory:");
    if has_server {
        // Reports an unreachable server once, not once per seller.
        LockManager::connect_env().await?;
    }
    let fencing = if how.without_fencing {
        "without"
    } else {
        "with"
    };
    println!("{IN_STOCK} in stock, two sellers, ttl {TTL:?}, {fencing} fencing");
    let left = sell_two(how, has_server).await?;
    let expected = IN_STOCK - 2;
    if left == expected {
        println!("two were sold, {left} are left");
        return Ok(ExitCode::SUCCESS);
    }
    println!("WRONG: two were sold, {left} are left instead of {expected}: an update was lost");
    Ok(ExitCode::FAILURE)
}

// On one thread, a blocked thread pauses the whole seller.
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let Cli { how, database } = Cli::parse();
    let done = match database {
        Some(database) => {
            let sold = seat::run_here(&database, how).await;
            sold.map(|()| ExitCode::SUCCESS)
        }
        None => run(how).await,
    };
    done.unwrap_or_else(|error| {
        eprintln!("fencing: {error}");
        ExitCode::FAILURE
    })
}
