//! The part that a service would copy: candidates, one of which leads, and data that only the leader writes.

use std::{
    fs,
    io::{self, Write},
    path::PathBuf,
    sync::mpsc::Receiver,
    thread,
    time::Duration,
};

use clap::ValueEnum;
use dlock::{LockError, LockManager, distributed_lock};
use tokio::time::sleep;

// A service uses the default, 30 s. After a crash there is no leader for up to one TTL. With one or two seconds, a busy
// machine loses leases.
pub(crate) const TTL: Duration = Duration::from_secs(5);
const TICK: Duration = Duration::from_millis(50);

/// The commands to a candidate, one per line.
pub(crate) const LEAVE: &str = "leave";
pub(crate) const STALL: &str = "stall";
pub(crate) const DIE: &str = "die";

/// The output of a candidate that leads (before the number of the term), and of one that has left.
pub(crate) const LEADS: &str = "leads, term ";
pub(crate) const LEFT: &str = "left";

/// A candidate for leadership.
pub(crate) struct Candidate {
    pub(crate) number: usize,
    pub(crate) locks: LockManager,
    pub(crate) board: Board,
    pub(crate) say: Say,
    pub(crate) orders: Receiver<String>,
}

pub(crate) type Say = Box<dyn Fn(String) + Send + Sync>;

/// The reaction of a leader to the loss of its lease.
#[derive(Clone, Copy, Debug, Default, PartialEq, ValueEnum)]
pub(crate) enum OnLost {
    /// Drop the work at its next await.
    #[default]
    Stop,
    /// Let the leader end its work itself.
    Finish,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum LeaderError {
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error(transparent)]
    Board(#[from] io::Error),
}

// Waits until there is no leader, then leads until the command to leave or until the lease is lost. With
// `on_lost = stop`, which is the default, the body ends at the next await after the loss.
#[distributed_lock(
    key = "leader",
    ttl = TTL,
    wait = forever,
    on_lost = stop,
    lease = lease,
    manager = candidate.locks
)]
async fn lead(candidate: &Candidate) -> Result<(), LeaderError> {
    candidate.work(lease.fencing_token().to_i64()).await
}

// The same for work that needs a clean end: `on_lost = finish` lets the body react to the loss.
#[distributed_lock(
    key = "leader",
    ttl = TTL,
    wait = forever,
    on_lost = finish,
    lease = lease,
    manager = candidate.locks
)]
async fn lead_and_step_down(candidate: &Candidate) -> Result<(), LeaderError> {
    let lost = tokio::select! {
        // `biased` checks the loss first, so no work starts after it.
        biased;
        error = lease.lost() => error,
        done = candidate.work(lease.fencing_token().to_i64()) => return done,
    };
    // Another candidate may lead by now, so this code does not write to the board.
    candidate.say("finishes its work");
    sleep(TICK).await;
    Err(lost.into())
}

impl Candidate {
    pub(crate) fn say(&self, text: impl Into<String>) {
        (self.say)(text.into());
    }

    /// Competes for leadership until it has led and received the command to leave.
    pub(crate) async fn run(self, on_lost: OnLost, without_lock: bool) -> Result<(), LeaderError> {
        loop {
            let led = if without_lock {
                self.work(0).await
            } else if on_lost == OnLost::Finish {
                lead_and_step_down(&self).await
            } else {
                lead(&self).await
            };
            let error = match led {
                Ok(()) => break,
                Err(LeaderError::Lock(error)) => error,
                Err(error) => return Err(error),
            };
            // This candidate may lead again. A repeated term is safe: the board refuses writes of an earlier term.
            let next_term = error.is_lost().then_some(TICK);
            let Some(pause) = error.retry_after().or(next_term) else {
                return Err(error.into());
            };
            self.say(format!("stopped leading: {error}"));
            sleep(pause).await;
        }
        self.locks.shutdown(Duration::from_secs(5)).await;
        self.say(LEFT);
        Ok(())
    }

    /// The work of a leader until the command to leave.
    async fn work(&self, term: i64) -> Result<(), LeaderError> {
        let mut is_new = true;
        loop {
            // A leader that was paused does not know yet that its lease is lost.
            if !self.board.write(term, self.number)? {
                self.say(format!("is refused by the board: term {term} is over"));
            } else if is_new {
                self.say(format!("{LEADS}{term}"));
                is_new = false;
            }
            sleep(TICK).await;
            match self.orders.try_recv().as_deref() {
                Ok(LEAVE) => return Ok(()),
                // Blocks the thread until the next command, and with it the renewal of the lease.
                Ok(STALL) => drop(self.orders.recv()),
                Ok(DIE) => loop {
                    thread::park();
                },
                _ => {}
            }
        }
    }
}

/// A file that must have one writer at a time. Each write is a line with the term and the candidate.
pub(crate) struct Board(pub(crate) PathBuf);

impl Board {
    pub(crate) fn lines(&self) -> io::Result<Vec<(i64, usize)>> {
        let text = match fs::read_to_string(&self.0) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            text => text?,
        };
        let parse = |line: &str| {
            let (term, candidate) = line.split_once(' ')?;
            Some((term.parse().ok()?, candidate.parse().ok()?))
        };
        let lines: Option<_> = text.lines().map(parse).collect();
        lines.ok_or_else(|| io::Error::other("the board contains an invalid line"))
    }

    /// Writes a line. Returns `false`, without a write, if a later term has written.
    fn write(&self, term: i64, candidate: usize) -> io::Result<bool> {
        // A database compares and writes in one statement, see the example `fencing`.
        if self.lines()?.last().is_some_and(|(last, _)| *last > term) {
            return Ok(false);
        }
        let mut board = fs::File::options()
            .create(true)
            .append(true)
            .open(&self.0)?;
        // One write for one line: after a kill, the line is complete or missing.
        board.write_all(format!("{term} {candidate}\n").as_bytes())?;
        Ok(true)
    }
}
