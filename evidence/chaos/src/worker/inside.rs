//! A section as its task sees it: noted while it lasts, with what it writes.
//!
//! The clock is always read *before* the lease is asked. The process may stand still at any point, so
//! only what was read before was believed then.

use std::{sync::Arc, time::Duration};

use dlock::Lease;
use dlock_history::{End, Mode};
use dlock_testkit::machine_time;
use serde::{Deserialize, Serialize};
use tokio::time::sleep;
use tokio_postgres::IsolationLevel;

use super::{
    KEYS,
    books::{Books, Failure, Posting},
};
use crate::{
    fenced::Fenced,
    notes::{Note, Notes},
};

/// The longest time between two looks at the lease. A renewal is believed from the next look on, so it
/// has to be noted before the process may be stopped.
const LOOK: Duration = Duration::from_millis(20);

/// The attempt to get a lock, and its begin.
#[derive(Clone)]
pub(crate) struct Caller {
    notes: Arc<Notes>,
    log: Arc<Fenced>,
    /// Its transactions in the store that keeps the locks, if that has any.
    books: Option<Arc<Books>>,
    /// The process and its task.
    who: [u32; 2],
    store: Store,
    asked: Duration,
}

/// The abilities of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Store {
    /// All that dlock has.
    One,
    /// No permits, and those that share a lock may have different tokens.
    Quorum,
}

impl Store {
    /// A section in shared mode.
    pub(crate) fn shared(self) -> Mode {
        match self {
            Self::One => Mode::Shared,
            Self::Quorum => Mode::SharedApart,
        }
    }
}

impl Caller {
    pub(crate) fn new(
        (notes, log, books): (Arc<Notes>, Arc<Fenced>, Option<Arc<Books>>),
        who: [u32; 2],
        store: Store,
    ) -> Self {
        let asked = Duration::ZERO;
        Self {
            notes,
            log,
            books,
            who,
            store,
            asked,
        }
    }

    pub(crate) fn store(&self) -> Store {
        self.store
    }

    pub(crate) fn has_books(&self) -> bool {
        self.books.is_some()
    }

    /// Posts to the account of a key under a lock that ends with the transaction.
    pub(crate) async fn book_in_a_transaction(&self, key: &str, pace: Duration) {
        if let Some(books) = &self.books {
            let level = level_of(pace);
            let cents = (self.who, cents_of(pace));
            if let Some(posted) = books.post_locked(key, cents, level, pace).await {
                self.posted(posted);
            }
        }
    }

    fn posted(&self, outcome: Result<(), Failure>) {
        self.note(&match outcome {
            Ok(()) => Note::Posted { task: self.who[1] },
            Err(Failure::Explained(how)) => Note::Failed(how),
            Err(Failure::Unbalanced(what)) => Note::Wrong(what),
        });
    }

    /// The same for an attempt that begins now.
    pub(crate) fn asks(&self) -> Self {
        self.note(&Note::Asks { task: self.who[1] });
        Self {
            asked: machine_time(),
            ..self.clone()
        }
    }

    /// Notes that the call has ended.
    pub(crate) fn answered(&self) {
        let (task, at) = (self.who[1], machine_time());
        self.note(&Note::Answered { task, at });
    }

    /// The same caller, which asks for a key in a shared mode, and for another key before it or not.
    pub(crate) fn shares(&self, key: usize, waits_for_others: bool) -> &Self {
        self.note(&Note::Shares {
            task: self.who[1],
            key: KEYS[key].to_owned(),
            at: self.asked,
            waits_for_others,
        });
        self
    }

    pub(crate) fn note(&self, note: &Note) {
        self.notes.note(note);
    }

    pub(crate) fn enter<'a>(&'a self, lease: &'a Lease) -> Inside<'a> {
        self.enter_in(lease, &[Mode::Exclusive; 2])
    }

    /// Enters with the modes of the keys, in their order.
    pub(crate) fn enter_in<'a>(&'a self, lease: &'a Lease, modes: &[Mode]) -> Inside<'a> {
        Inside::begin(self, lease, modes, false)
    }

    /// For a body that will not ask whether it still holds the lock.
    pub(crate) fn enter_blind<'a>(&'a self, lease: &'a Lease) -> Inside<'a> {
        Inside::begin(self, lease, &[Mode::Exclusive], true)
    }

    /// For a task without a lease that behaves like a holder until then.
    pub(crate) fn pretend(&self, key: &str, mode: Mode, token: i64, until: Duration) -> Inside<'_> {
        let keys = vec![(key.to_owned(), mode, token)];
        Inside::noted(self, Belief::Until(until), keys, false)
    }
}

/// Why a task believes to hold a lock.
#[derive(Clone, Copy)]
enum Belief<'a> {
    Lease(&'a Lease),
    Until(Duration),
}

impl Belief<'_> {
    /// Until when it lasts that is asked after `at`; `None` if it has ended.
    fn deadline(self, at: Duration) -> Option<Duration> {
        match self {
            Self::Lease(lease) => {
                let remaining = lease.remaining();
                (!remaining.is_zero()).then(|| at + remaining)
            }
            Self::Until(until) => (at < until).then_some(until),
        }
    }
}

/// A level that follows from a random time: half of all transactions have the usual one.
fn level_of(time: Duration) -> IsolationLevel {
    match time.as_micros() % 4 {
        0 => IsolationLevel::RepeatableRead,
        1 => IsolationLevel::Serializable,
        _ => IsolationLevel::ReadCommitted,
    }
}

/// An amount that follows from a random time.
fn cents_of(time: Duration) -> i64 {
    1 + i64::from(time.subsec_micros() % 99)
}

/// A section that has not ended yet. However it ends, the end is noted before the lock is released.
pub(crate) struct Inside<'a> {
    caller: &'a Caller,
    belief: Belief<'a>,
    keys: Vec<Held>,
    /// The deadline, as far as it was known when the lease was last asked.
    until: Duration,
    is_over: bool,
}

/// A key of a section.
struct Held {
    /// The section, if one was noted.
    section: Option<u64>,
    key: String,
    mode: Mode,
    token: i64,
}

impl<'a> Inside<'a> {
    fn begin(caller: &'a Caller, lease: &'a Lease, modes: &[Mode], is_blind: bool) -> Self {
        let keys = lease.fencing_tokens().zip(modes);
        let keys =
            keys.map(|((key, token), mode)| (key.as_str().to_owned(), *mode, token.to_i64()));
        Self::noted(caller, Belief::Lease(lease), keys.collect(), is_blind)
    }

    fn noted(
        caller: &'a Caller,
        belief: Belief<'a>,
        keys: Vec<(String, Mode, i64)>,
        is_blind: bool,
    ) -> Self {
        let at = machine_time();
        let until = belief.deadline(at);
        let note = |(key, mode, token): (String, Mode, i64)| {
            let section = until.map(|_| caller.notes.section());
            let (task, asked) = (caller.who[1], caller.asked);
            caller.note(&match section {
                Some(section) => Note::In {
                    section,
                    key: key.clone(),
                    mode,
                    task,
                    token,
                    asked,
                    at,
                    is_blind,
                },
                None => Note::Late {
                    key: key.clone(),
                    mode,
                    task,
                    token,
                    asked,
                    at,
                },
            });
            Held {
                section,
                key,
                mode,
                token,
            }
        };
        Self {
            caller,
            belief,
            keys: keys.into_iter().map(note).collect(),
            until: until.unwrap_or(at),
            is_over: until.is_none(),
        }
    }

    /// Waits, and looks at the lease meanwhile and at the end of it.
    pub(crate) async fn pause(&mut self, time: Duration) {
        let mut left = time;
        loop {
            let next = left.min(LOOK);
            sleep(next).await;
            self.sign();
            left -= next;
            if left.is_zero() {
                return;
            }
        }
    }

    /// Notes that the task still believes to hold the lock, or that it does not any more.
    pub(crate) fn sign(&mut self) {
        if self.is_over {
            return;
        }
        let at = machine_time();
        match self.belief.deadline(at) {
            Some(until) => {
                self.until = until;
                for held in &self.keys {
                    if let Some(section) = held.section {
                        self.caller.note(&Note::On { section, at });
                    }
                }
            }
            None => self.out(at, End::Lost),
        }
    }

    /// Writes to all that the lock protects, whether it is still held or not.
    pub(crate) fn write(&self) {
        for held in &self.keys {
            let who = self.caller.who;
            self.caller.log.write(&held.key, who, held.token);
        }
    }

    /// Waits like [`pause`](Self::pause), in a transaction that posts to the accounts of the keys if there are any.
    pub(crate) async fn book(&mut self, time: Duration) {
        let caller = self.caller;
        let Some(books) = &caller.books else {
            return self.pause(time).await;
        };
        let keys = self.keys.iter();
        let posting = Posting {
            who: caller.who,
            lease: match self.belief {
                Belief::Lease(lease) => Some(lease),
                Belief::Until(_) => None,
            },
            keys: keys.map(|it| (it.key.clone(), it.mode, it.token)).collect(),
            cents: cents_of(time),
        };
        let (task, key) = (caller.who[1], self.keys[0].key.clone());
        let work = async {
            caller.note(&Note::Read { task, key });
            self.pause(time).await;
            caller.note(&Note::Writes { task });
        };
        let posted = books.post(posting, level_of(time), work).await;
        caller.posted(posted);
    }

    pub(crate) fn finish(mut self) {
        if self.is_over {
            return;
        }
        let at = machine_time();
        match self.belief.deadline(at) {
            Some(_) => {
                self.until = at;
                self.out(at, End::Finished);
            }
            None => self.out(at, End::Lost),
        }
    }

    fn out(&mut self, now: Duration, end: End) {
        self.is_over = true;
        // A late look changes nothing: the task believed until the deadline only.
        let at = now.min(self.until);
        for held in &self.keys {
            if let Some(section) = held.section {
                self.caller.note(&Note::Out { section, at, end });
            }
        }
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            let now = machine_time();
            let end = match self.belief {
                Belief::Lease(lease) if lease.is_lost() => End::Lost,
                _ => End::Dropped,
            };
            self.out(now, end);
        }
    }
}
