//! The locks at one time, in a form that tests can construct and that takes little memory.

use std::{sync::Arc, time::Duration};

use dlock::store::ClaimHandle;

/// The locks, their holders and their waiters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Picture {
    pub(crate) locks: Vec<Arc<Lock>>,
    /// `None` if the store cannot tell.
    pub(crate) processes: Option<usize>,
    pub(crate) pace: Pace,
}

/// How a picture came about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Pace {
    /// By one reading of all locks.
    #[default]
    Whole,
    /// By a part of the first scan.
    First,
    /// By a scan that takes so long, and readings of the known locks.
    Known(Duration),
    /// By scans that take so long. The locks are too many to be read between them.
    Scans(Duration),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lock {
    pub(crate) key: Arc<str>,
    pub(crate) holder: Option<Holder>,
    /// The other holders of a shared lock.
    pub(crate) others: Vec<Holder>,
    /// The number of all holders, including those that are not listed.
    pub(crate) holder_count: usize,
    pub(crate) waiters: Vec<Waiter>,
    /// The number of all waiters, including those that are not listed.
    pub(crate) waiter_count: usize,
    pub(crate) last_token: Option<String>,
    /// The number of servers at which it is held.
    pub(crate) held_at: usize,
    pub(crate) servers: usize,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) name: Arc<str>,
    pub(crate) function: Option<Arc<str>>,
    pub(crate) handle: Option<ClaimHandle>,
    pub(crate) token: Option<String>,
    pub(crate) held: Option<Duration>,
    /// `None` if the lease never expires.
    pub(crate) ttl: Option<Duration>,
    pub(crate) process: Option<Arc<Process>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Waiter {
    pub(crate) name: Arc<str>,
    /// The description of what it wants, unless it is an exclusive lock.
    pub(crate) wish: Option<String>,
    pub(crate) waiting: Duration,
    pub(crate) is_alive: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) application: Option<String>,
    pub(crate) host: String,
    pub(crate) pid: u32,
    /// In the form of RFC 3339.
    pub(crate) started: String,
    pub(crate) version: String,
}

impl Picture {
    pub(crate) fn held(&self) -> usize {
        self.locks.iter().filter(|it| it.holder.is_some()).count()
    }

    pub(crate) fn waiters(&self) -> usize {
        self.locks.iter().map(|it| it.waiter_count).sum()
    }
}

impl Lock {
    /// Returns all holders.
    pub(crate) fn holders(&self) -> impl Iterator<Item = &Holder> {
        self.holder.iter().chain(&self.others)
    }

    /// Returns the longest wait of all waiters that are alive.
    pub(crate) fn longest_wait(&self) -> Option<Duration> {
        let living = self.waiters.iter().filter(|it| it.is_alive);
        living.map(|it| it.waiting).max()
    }
}
