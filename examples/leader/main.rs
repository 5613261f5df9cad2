//! Elects a leader among several candidates, and a new one when the current leader leaves, crashes or is paused.
//!
//! ```text
//! cargo run --example leader
//! cargo run --example leader -- --on-lost finish
//! cargo run --example leader -- --without-lock
//! DLOCK_URL=redis://127.0.0.1:6379 cargo run --example leader
//! ```
//!
//! The leader holds a lock without a time limit, and the other candidates wait for it. The fencing token is the
//! number of the term. Copy `lead` into a service; the other modules are the test around it.

mod lead;
mod seat;

use std::{
    collections::BTreeMap,
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
    lead::{Board, DIE, LEADS, LEAVE, LEFT, OnLost, STALL, TTL},
    seat::{Said, Seat},
};

const CANDIDATES: usize = 4;
/// The time for which a leader is not disturbed.
const REIGN: Duration = Duration::from_millis(500);
/// The test fails after this time without a leader.
const LIMIT: Duration = Duration::from_secs(60);

/// Elects leaders and disturbs them. Exits with 1 if two candidates lead at the same time.
///
/// The candidates are threads of this process, or processes if `DLOCK_URL` is set.
#[derive(Debug, Parser)]
#[command(name = "leader")]
struct Cli {
    /// Reaction of a leader to the loss of its lease.
    #[arg(long, value_enum, default_value_t)]
    on_lost: OnLost,
    /// Run without the lock, to show several leaders.
    #[arg(long)]
    without_lock: bool,
    /// The number of this candidate.
    #[arg(long, hide = true, requires = "board")]
    candidate: Option<usize>,
    /// The file that leaders write.
    #[arg(long, hide = true)]
    board: Option<PathBuf>,
}

/// The event for the first leader, the second, and so on.
const FATES: [(&str, &str); 5] = [
    (LEAVE, "is asked to leave"),
    // A thread blocks for ever instead, which has the same effect on others.
    (DIE, "is killed"),
    // Until the next one leads, as on a suspended machine. The candidate then competes again and leads last.
    (STALL, "is paused"),
    (LEAVE, "is asked to leave"),
    (LEAVE, "is asked to leave"),
];
const WAKE: &str = "wake";

/// Receives and prints the output of the candidates.
struct Hall {
    said: Receiver<Said>,
    begin: Instant,
    /// The candidates that have left or were killed.
    gone: Vec<usize>,
}

impl Hall {
    fn print(&self, candidate: usize, text: &str) {
        let at = self.begin.elapsed().as_secs_f64();
        println!("  {at:>5.2} s  candidate {candidate}  {text}");
    }

    /// Returns the next leader, or `None` if there is none within `limit` or all candidates are gone.
    fn leader(&mut self, limit: Duration) -> Result<Option<usize>, String> {
        let end = Instant::now() + limit;
        while self.gone.len() < CANDIDATES {
            let rest = end.saturating_duration_since(Instant::now());
            let Ok(Said { candidate, text }) = self.said.recv_timeout(rest) else {
                break;
            };
            let Some(text) = text else {
                if self.gone.contains(&candidate) {
                    continue;
                }
                return Err(format!("candidate {candidate} ended unexpectedly"));
            };
            self.print(candidate, &text);
            if text.starts_with(LEADS) {
                return Ok(Some(candidate));
            }
            if text == LEFT {
                self.gone.push(candidate);
            }
        }
        Ok(None)
    }

    /// Applies one event to each leader, until two lead at the same time or all are gone.
    fn elections(&mut self, seats: &mut [Seat]) -> Result<(), Box<dyn Error>> {
        let mut asleep = None;
        for (order, text) in FATES {
            let leader = self.leader(LIMIT)?.ok_or("no candidate leads")?;
            if let Some(asleep) = asleep.take() {
                self.print(asleep, "continues");
                seats[asleep - 1].tell(WAKE)?;
            }
            if let Some(other) = self.leader(REIGN)? {
                self.print(other, "leads at the same time");
                return Ok(());
            }
            self.print(leader, text);
            seats[leader - 1].tell(order)?;
            match order {
                DIE => self.gone.push(leader),
                STALL => asleep = Some(leader),
                _ => {}
            }
        }
        match self.leader(LIMIT)? {
            None if self.gone.len() == CANDIDATES => Ok(()),
            _ => Err("a candidate leads although all were asked to leave".into()),
        }
    }
}

/// Returns the first fault in the lines of the board.
fn fault(lines: &[(i64, usize)]) -> Option<String> {
    let mut leaders = BTreeMap::new();
    let mut last = 0;
    for &(term, candidate) in lines {
        if term < last {
            return Some(format!("term {term} was written after term {last}"));
        }
        last = term;
        let leader = *leaders.entry(term).or_insert(candidate);
        if leader != candidate {
            return Some(format!(
                "candidates {leader} and {candidate} led at the same time"
            ));
        }
    }
    let (terms, expected) = (leaders.len(), FATES.len());
    (terms != expected).then(|| format!("there were {terms} terms instead of {expected}"))
}

fn run(cli: &Cli) -> Result<ExitCode, Box<dyn Error>> {
    if let Some((number, board)) = cli.candidate.zip(cli.board.as_ref()) {
        seat::run_here(cli, number, board)?;
        return Ok(ExitCode::SUCCESS);
    }
    let url = env::var("DLOCK_URL").unwrap_or_default();
    let has_server = !url.is_empty() && !url.starts_with("memory:");
    if has_server {
        // Reports an unreachable server once, not once per candidate.
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().build()?;
        runtime.block_on(LockManager::connect_env())?;
    }
    let directory = tempfile::TempDir::with_prefix("leader-")?;
    let board = directory.path().join("board");
    let store = MemoryStore::new();
    let (to, said) = mpsc::channel();
    let on_lost = if cli.without_lock {
        "no lock"
    } else if cli.on_lost == OnLost::Finish {
        "on_lost = finish"
    } else {
        "on_lost = stop"
    };
    println!("{CANDIDATES} candidates, ttl {TTL:?}, {on_lost}");
    let mut hall = Hall {
        said,
        begin: Instant::now(),
        gone: Vec::new(),
    };
    let mut seats = Vec::new();
    for number in 1..=CANDIDATES {
        seats.push(if has_server {
            Seat::process(number, to.clone(), cli, &board)?
        } else {
            Seat::thread(number, store.clone(), to.clone(), cli, &board)
        });
    }
    hall.elections(&mut seats)?;
    drop(seats);
    if let Some(fault) = fault(&Board(board).lines()?) {
        println!("WRONG: {fault}");
        return Ok(ExitCode::FAILURE);
    }
    println!("{} terms with one leader each", FATES.len());
    Ok(ExitCode::SUCCESS)
}

fn main() -> ExitCode {
    run(&Cli::parse()).unwrap_or_else(|error| {
        eprintln!("leader: {error}");
        ExitCode::FAILURE
    })
}
