//! All locks at one time, in a form that takes little memory: keys lie one after another in one text, and names that
//! many locks have in common are stored once.

mod draft;

use std::time::{Duration, SystemTime};

pub(super) use self::draft::Draft;
use super::moment;
use crate::{
    admin::ProcessInfo,
    clock::Moment,
    mode::LockMode,
    owner::{ClientId, OwnerId},
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
    holders: Vec<Held>,
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
struct Held {
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

/// A lock of a picture.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lock<'a> {
    picture: &'a Picture,
    row: &'a Row,
}

/// A holder in a picture.
#[derive(Clone, Copy, Debug)]
pub(super) struct Holder<'a> {
    picture: &'a Picture,
    held: &'a Held,
    /// Its place among all holders.
    place: u32,
    read_ms: u64,
    early_ms: u32,
}

/// A waiter in a picture.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiter<'a> {
    picture: &'a Picture,
    waits: &'a Waits,
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
    pub(super) fn lock(&self, place: usize) -> Option<Lock<'_>> {
        let row = self.rows.get(place)?;
        Some(Lock { picture: self, row })
    }

    pub(super) fn locks(&self) -> impl Iterator<Item = Lock<'_>> {
        self.rows.iter().map(|row| Lock { picture: self, row })
    }

    /// Returns the lock with this key.
    pub(super) fn named(&self, key: &str) -> Option<Lock<'_>> {
        let place = self
            .rows
            .binary_search_by(|row| Lock { picture: self, row }.key().cmp(key));
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

impl<'a> Lock<'a> {
    pub(super) fn key(self) -> &'a str {
        let len = usize::try_from(self.row.key_len).unwrap_or_default();
        &self.picture.keys[self.row.key_at..self.row.key_at + len]
    }

    /// Returns the latest time when it may have been read, by the clock of the store.
    pub(super) fn read_ms(self) -> u64 {
        self.row.read_ms
    }

    /// Returns the earliest time when it may have been read.
    pub(super) fn read_from_ms(self) -> u64 {
        self.row.read_ms.saturating_sub(self.row.early_ms.into())
    }

    pub(super) fn mode(self) -> Option<LockMode> {
        self.row.mode
    }

    pub(super) fn holder_count(self) -> u32 {
        self.row.holder_count
    }

    pub(super) fn waiter_count(self) -> u32 {
        self.row.waiter_count
    }

    /// Returns the longest wait of all waiters that are alive.
    pub(super) fn longest_wait_ms(self) -> Option<u64> {
        (self.row.longest_wait_ms != NONE).then(|| self.row.longest_wait_ms.into())
    }

    pub(super) fn held_at(self) -> u16 {
        self.row.held_at
    }

    pub(super) fn servers(self) -> u16 {
        self.row.servers
    }

    pub(super) fn holder(self) -> Option<Holder<'a>> {
        self.holders().next()
    }

    pub(super) fn holders(self) -> impl Iterator<Item = Holder<'a>> {
        let (picture, row) = (self.picture, self.row);
        let held = (self.row.holder_at..).zip(self.held());
        held.map(move |(place, held)| Holder {
            picture,
            held,
            place,
            read_ms: row.read_ms,
            early_ms: row.early_ms,
        })
    }

    pub(super) fn waiters(self) -> impl Iterator<Item = Waiter<'a>> {
        let picture = self.picture;
        self.waits()
            .iter()
            .map(move |waits| Waiter { picture, waits })
    }

    fn held(self) -> &'a [Held] {
        part(&self.picture.holders, self.row.holder_at, self.row.holders)
    }

    fn waits(self) -> &'a [Waits] {
        part(&self.picture.waiters, self.row.waiter_at, self.row.waiters)
    }
}

impl<'a> Holder<'a> {
    /// Returns the owner id; `None` for a third-party client.
    pub(super) fn owner(self) -> Option<OwnerId> {
        self.picture.owner(self.held.client, self.held.number)
    }

    pub(super) fn fence(self) -> u64 {
        self.held.fence
    }

    /// Returns what tells the leases of third-party clients apart; 0 if nothing does.
    pub(super) fn mark(self) -> u64 {
        let is_foreign = self.held.client == NONE;
        if is_foreign { self.held.number } else { 0 }
    }

    pub(super) fn label(self) -> Option<&'a str> {
        self.picture.text(self.held.name)
    }

    pub(super) fn function(self) -> Option<&'a str> {
        self.picture.text(self.held.function)
    }

    /// Returns the numbers of its label and its function among the texts of the picture.
    pub(super) fn texts(self) -> [u32; 2] {
        [self.held.name, self.held.function]
    }

    pub(super) fn since_ms(self) -> Option<u64> {
        (self.held.since_ms != NEVER).then_some(self.held.since_ms)
    }

    /// Returns the time for which it had held the lock when the lock was read.
    pub(super) fn held_ms(self) -> Option<u64> {
        Some(self.read_ms.saturating_sub(self.since_ms()?))
    }

    /// Returns the time until the lease ended when the lock was read; `None` if it never ends.
    pub(super) fn ttl_ms(self) -> Option<u64> {
        (self.held.ttl_ms != NONE).then(|| self.held.ttl_ms.into())
    }

    /// Returns the time by which the lock may have been read earlier, and by which all that follows from that is too late.
    pub(super) fn early_ms(self) -> u64 {
        self.early_ms.into()
    }

    /// Returns the latest time when the lease ends, unless it is renewed.
    pub(super) fn expires_ms(self) -> Option<u64> {
        Some(self.read_ms + self.ttl_ms()?)
    }

    /// Returns the longest TTL that pictures have shown of it.
    pub(super) fn longest_ms(self) -> u64 {
        self.held.longest_ms.into()
    }

    /// Returns the time when a picture first showed it.
    pub(super) fn first_ms(self) -> u64 {
        self.held.first_ms
    }

    /// Returns what the next picture has to know of it, which shows the same lease as `later`.
    pub(super) fn carried_to(self, later: Holder<'_>) -> Carried {
        Carried {
            holder: later.place,
            longest_ms: self.held.longest_ms.max(later.held.longest_ms),
            first_ms: self.held.first_ms,
        }
    }
}

impl<'a> Waiter<'a> {
    pub(super) fn owner(self) -> Option<OwnerId> {
        self.picture.owner(self.waits.client, self.waits.number)
    }

    pub(super) fn label(self) -> Option<&'a str> {
        self.picture.text(self.waits.name)
    }

    pub(super) fn mode(self) -> LockMode {
        self.waits.mode
    }

    pub(super) fn entered_ms(self) -> u64 {
        self.waits.entered_ms
    }

    pub(super) fn is_alive(self) -> bool {
        self.waits.is_alive
    }
}

fn part<T>(all: &[T], at: u32, len: u32) -> &[T] {
    let at = usize::try_from(at).unwrap_or(usize::MAX);
    let end = at.saturating_add(usize::try_from(len).unwrap_or(usize::MAX));
    all.get(at..end).unwrap_or_default()
}

/// Returns a time in 32 bits, the longest one instead of a longer one: 49 days.
fn short(time: Duration) -> u32 {
    u32::try_from(moment::milliseconds(time))
        .unwrap_or(NONE)
        .min(NONE - 1)
}
