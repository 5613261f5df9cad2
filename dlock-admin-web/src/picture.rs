//! All locks at one time, in a form that takes little memory: keys lie one after another in one text, and names that
//! many locks have in common are stored once.

mod draft;
mod lock;

use std::time::{Duration, SystemTime};

pub(super) use self::{
    draft::Draft,
    lock::{ShownHolder, ShownLock, Waiter},
};
use super::moment;
use dlock_admin::ProcessInfo;
use dlock_runtime::{
    clock::Moment,
    store::{ClientId, LockMode, OwnerId},
};

/// The number of a text or a process that there is not.
const NONE: u32 = u32::MAX;

/// The time that is not known, or never comes.
const NEVER: u64 = u64::MAX;

/// All locks at one time, in the order of their keys.
#[derive(Debug)]
pub(super) struct Picture {
    keys: String,
    /// Labels and functions.
    texts: Vec<Box<str>>,
    clients: Vec<ClientId>,
    rows: Vec<Row>,
    holders: Vec<LeaseRow>,
    waiters: Vec<Waits>,
    /// The records of processes; `None` if the store keeps none.
    pub(super) processes: Option<Vec<ProcessInfo>>,
    pub(super) process_count: Option<usize>,
    pub(super) totals: Totals,
    /// The time when it was complete, by the clock of the store.
    pub(super) taken_ms: u64,
    pub(super) took: Duration,
    /// The time when its reading began, on this machine's clocks. No lock was read earlier.
    pub(super) at: Moment,
    pub(super) time_of_day: SystemTime,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    pub(super) held: usize,
    pub(super) waiters: usize,
    pub(super) longest_wait_ms: Option<u64>,
    /// `true` if there are locks of a quorum among them.
    pub(super) of_quorum: bool,
}

/// A lock.
#[derive(Clone, Copy, Debug)]
struct Row {
    key_at: usize,
    key_len: u32,
    holder_at: u32,
    holders: u32,
    holder_count: u32,
    waiter_at: u32,
    waiters: u32,
    waiter_count: u32,
    longest_wait_ms: u32,
    held_at: u16,
    servers: u16,
    mode: Option<LockMode>,
    /// The latest time when it may have been read, by the clock of the store.
    read_ms: u64,
    /// The time by which it may have been read earlier.
    early_ms: u32,
}

/// A lease.
#[derive(Clone, Copy, Debug)]
struct LeaseRow {
    client: u32,
    name: u32,
    function: u32,
    ttl_ms: u32,
    /// The longest TTL that pictures have shown of this lease.
    longest_ms: u32,
    /// The number of the claim; of a third-party client, what tells its leases apart.
    number: u64,
    fence: u64,
    since_ms: u64,
    /// The time when a picture first showed it.
    first_ms: u64,
}

/// A place in a queue.
#[derive(Clone, Copy, Debug)]
struct Waits {
    client: u32,
    name: u32,
    number: u64,
    entered_ms: u64,
    mode: LockMode,
    is_alive: bool,
}

/// The knowledge of earlier pictures about a lease.
#[derive(Clone, Copy, Debug)]
pub(super) struct Carried {
    holder: u32,
    longest_ms: u32,
    first_ms: u64,
}

/// The locks that one client holds and awaits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share<'a> {
    /// `None` for all third-party clients.
    pub(super) client: Option<ClientId>,
    pub(super) label: Option<&'a str>,
    pub(super) holds: usize,
    pub(super) waits: usize,
}

impl Picture {
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns the time when its reading began, by the clock of the store.
    pub(super) fn began_ms(&self) -> u64 {
        self.taken_ms
            .saturating_sub(moment::milliseconds(self.took))
    }

    /// Returns the lock at a place in the order of the keys.
    pub(super) fn lock(&self, place: usize) -> Option<ShownLock<'_>> {
        let row = self.rows.get(place)?;
        Some(ShownLock { picture: self, row })
    }

    pub(super) fn locks(&self) -> impl Iterator<Item = ShownLock<'_>> {
        self.rows.iter().map(|row| ShownLock { picture: self, row })
    }

    /// Returns the lock with this key.
    pub(super) fn named(&self, key: &str) -> Option<ShownLock<'_>> {
        let place = self
            .rows
            .binary_search_by(|row| ShownLock { picture: self, row }.key().cmp(key));
        self.lock(place.ok()?)
    }

    /// Returns all texts that are labels or functions, by their numbers.
    pub(super) fn texts(&self) -> &[Box<str>] {
        &self.texts
    }

    fn text(&self, number: u32) -> Option<&str> {
        let text = self.texts.get(usize::try_from(number).ok()?)?;
        Some(text)
    }

    fn owner(&self, client: u32, number: u64) -> Option<OwnerId> {
        let client = self.clients.get(usize::try_from(client).ok()?)?;
        Some(OwnerId::new(*client, number))
    }

    /// Remembers what earlier pictures have shown of leases.
    pub(super) fn carry(&mut self, carried: &[Carried]) {
        for it in carried {
            let place = usize::try_from(it.holder).unwrap_or(usize::MAX);
            if let Some(held) = self.holders.get_mut(place) {
                held.longest_ms = it.longest_ms;
                held.first_ms = it.first_ms;
            }
        }
    }

    /// Returns the numbers of locks that each client holds and awaits, those of third-party clients together.
    pub(super) fn shares(&self) -> Vec<Share<'_>> {
        let clients = self.clients.iter().copied().map(Some).chain([None]);
        let mut shares: Vec<_> = clients
            .map(|client| Share {
                client,
                label: None,
                holds: 0,
                waits: 0,
            })
            .collect();
        let last = self.clients.len();
        let mut add = |client: u32, name: u32, holds: usize, waits: usize| {
            let place = usize::try_from(client).map_or(last, |place| place.min(last));
            if let Some(share) = shares.get_mut(place) {
                share.label = share.label.or_else(|| self.text(name));
                share.holds += holds;
                share.waits += waits;
            }
        };
        for lock in self.locks() {
            for held in lock.held() {
                add(held.client, held.name, 1, 0);
            }
            for waits in lock.waits() {
                add(waits.client, waits.name, 0, 1);
            }
        }
        shares
    }
}

/// Returns a time in 32 bits, the longest one instead of a longer one: 49 days.
fn short(time: Duration) -> u32 {
    u32::try_from(moment::milliseconds(time))
        .unwrap_or(NONE)
        .min(NONE - 1)
}
