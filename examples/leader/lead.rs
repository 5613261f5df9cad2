//! What a service would have: candidates, of whom one leads, and what only a leader may write.

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

// A service would take the default, 30 s: nobody leads for that long after a leader has died.
pub(crate) const TTL: Duration = Duration::from_secs(2);
const TICK: Duration = Duration::from_millis(50);

/// What a candidate is told, one line each.
pub(crate) const LEAVE: &str = "leave";
pub(crate) const STALL: &str = "stall";
pub(crate) const DIE: &str = "die";

/// What a candidate says when it leads, with the term behind it, and when it has left.
pub(crate) const LEADS: &str = "leads, term ";
pub(crate) const LEFT: &str = "has left";

/// Somebody who would lead.
pub(crate) struct Candidate {
    pub(crate) number: usize,
    pub(crate) locks: LockManager,
    pub(crate) board: Board,
    pub(crate) say: Say,
    pub(crate) orders: Receiver<String>,
}

pub(crate) type Say = Box<dyn Fn(String) + Send + Sync>;

/// What a leader does when it learns that its lease is lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, ValueEnum)]
pub(crate) enum OnLost {
    /// Its work is dropped at the next await.
    #[default]
    Stop,
    /// It is told, and ends its work itself.
    Finish,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum LeaderError {
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error(transparent)]
    Board(#[from] io::Error),
}

// Waits until nobody leads, and then leads until it is asked to leave, or until the lease is lost:
// not one await longer. That is `on_lost = stop`, which need not be written.
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

// The same for work that has to be ended in good order: the leader is told that the lease is lost.
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
        // Asked first, so that no work is begun after it.
        biased;
        error = lease.lost() => error,
        done = candidate.work(lease.fencing_token().to_i64()) => return done,
    };
    // Somebody else may lead by now: what only a leader may write is not written here.
    candidate.say("puts its papers in order");
    sleep(TICK).await;
    Err(lost.into())
}

impl Candidate {
    pub(crate) fn say(&self, text: impl Into<String>) {
        (self.say)(text.into());
    }

    /// Stands for election until it has led and was asked to leave.
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
            // The next term may be ours again. To lead twice does no harm: the board refuses an earlier term.
            let next_term = error.is_lost().then_some(TICK);
            let Some(pause) = error.retry_after().or(next_term) else {
                return Err(error.into());
            };
            self.say(format!("leads no more: {error}"));
            sleep(pause).await;
        }
        self.locks.shutdown(Duration::from_secs(5)).await;
        self.say(LEFT);
        Ok(())
    }

    /// What a leader does until it is asked to leave.
    async fn work(&self, term: i64) -> Result<(), LeaderError> {
        let mut is_new = true;
        loop {
            // A leader that has just stood still does not know yet that it leads no more.
            if !self.board.write(term, self.number)? {
                self.say(format!("is refused by the board: term {term} is over"));
            } else if is_new {
                self.say(format!("{LEADS}{term}"));
                is_new = false;
            }
            sleep(TICK).await;
            match self.orders.try_recv().as_deref() {
                Ok(LEAVE) => return Ok(()),
                // Blocks the thread until the next order, and with it all that would renew the lease.
                Ok(STALL) => drop(self.orders.recv()),
                Ok(DIE) => loop {
                    thread::park();
                },
                _ => {}
            }
        }
    }
}

/// What must have one writer at a time. A line for each write: the term, and the candidate.
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
        lines.ok_or_else(|| io::Error::other("the board has a line that nobody has written"))
    }

    /// Says whether it was written: not in a term that is over.
    fn write(&self, term: i64, candidate: usize) -> io::Result<bool> {
        // A database would do both in one statement; the example `fencing` has it.
        if self.lines()?.last().is_some_and(|(last, _)| *last > term) {
            return Ok(false);
        }
        let mut board = fs::File::options()
            .create(true)
            .append(true)
            .open(&self.0)?;
        // One write of one line, so that a kill leaves a whole one or none.
        board.write_all(format!("{term} {candidate}\n").as_bytes())?;
        Ok(true)
    }
}
