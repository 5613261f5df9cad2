//! Elects a leader among several candidates, and another one when it leaves, dies or stands still.
//!
//! ```text
//! cargo run --example leader
//! cargo run --example leader -- --on-lost finish
//! cargo run --example leader -- --without-lock
//! DLOCK_URL=redis://127.0.0.1:6379 cargo run --example leader
//! ```
//!
//! To lead is to hold a lock for as long as all goes well; the others wait for it without a limit.
//! The fencing token is the number of the term. `lead` is what a service would have; the other
//! modules are the trial around it.

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
/// How long a leader is left in peace.
const REIGN: Duration = Duration::from_millis(500);
/// Without a leader for so long, the trial has failed.
const LIMIT: Duration = Duration::from_secs(60);

/// Elects leaders, disturbs them, and exits with 1 if two have led at a time.
///
/// The candidates are threads of this process, or processes if `DLOCK_URL` names a server.
#[derive(Debug, Parser)]
#[command(name = "leader")]
struct Cli {
    /// What a leader does when it learns that its lease is lost.
    #[arg(long, value_enum, default_value_t)]
    on_lost: OnLost,
    /// Let everybody lead who wants to.
    #[arg(long)]
    without_lock: bool,
    /// Which candidate this process is.
    #[arg(long, hide = true, requires = "board")]
    candidate: Option<usize>,
    /// Where leaders write.
    #[arg(long, hide = true)]
    board: Option<PathBuf>,
}

/// What becomes of the first leader, of the second, and so on.
const FATES: [(&str, &str); 5] = [
    (LEAVE, "is asked to leave"),
    // A thread stands still for good instead, which is the same to others.
    (DIE, "is killed"),
    // Until the next one leads, as in a machine that is suspended. It stands again, and leads last.
    (STALL, "stands still"),
    (LEAVE, "is asked to leave"),
    (LEAVE, "is asked to leave"),
];
const WAKE: &str = "wake";

/// Hears what the candidates say.
struct Hall {
    said: Receiver<Said>,
    begin: Instant,
    /// Who has left, or was killed.
    gone: Vec<usize>,
}

impl Hall {
    fn print(&self, candidate: usize, text: &str) {
        let at = self.begin.elapsed().as_secs_f64();
        println!("  {at:>5.2} s  candidate {candidate}  {text}");
    }

    /// Who says next that it leads; `None` if nobody does within `limit`, or all are gone.
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
                return Err(format!("candidate {candidate} has ended"));
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

    /// Lets each leader have its fate, until two lead at a time or all are gone.
    fn elections(&mut self, seats: &mut [Seat]) -> Result<(), Box<dyn Error>> {
        let mut asleep = None;
        for (order, text) in FATES {
            let leader = self.leader(LIMIT)?.ok_or("nobody leads")?;
            if let Some(asleep) = asleep.take() {
                self.print(asleep, "wakes up");
                seats[asleep - 1].tell(WAKE)?;
            }
            if let Some(other) = self.leader(REIGN)? {
                self.print(other, "leads as well");
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
            _ => Err("somebody leads although all were asked to leave".into()),
        }
    }
}

/// What is wrong with the lines on the board.
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
            return Some(format!("candidates {leader} and {candidate} led at a time"));
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
        // Says once what each candidate would say: that the server is not there.
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
    println!("{} terms, and one leader in each", FATES.len());
    Ok(ExitCode::SUCCESS)
}

fn main() -> ExitCode {
    run(&Cli::parse()).unwrap_or_else(|error| {
        eprintln!("leader: {error}");
        ExitCode::FAILURE
    })
}
