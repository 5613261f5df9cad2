//! The locks, holders and waiters of a picture, as others read them.

use dlock_runtime::store::{LockMode, OwnerId};

use super::{Carried, LeaseRow, NEVER, NONE, Picture, Row, Waits};

/// A lock of a picture.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShownLock<'a> {
    pub(super) picture: &'a Picture,
    pub(super) row: &'a Row,
}

/// A holder in a picture.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShownHolder<'a> {
    picture: &'a Picture,
    held: &'a LeaseRow,
    /// Its place among all holders.
    place: u32,
    read_ms: u64,
    early_ms: u32,
}

/// A waiter in a picture.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiter<'a> {
    picture: &'a Picture,
    waits: &'a Waits,
}

impl<'a> ShownLock<'a> {
    pub(crate) fn key(self) -> &'a str {
        let len = usize::try_from(self.row.key_len).unwrap_or_default();
        &self.picture.keys[self.row.key_at..self.row.key_at + len]
    }

    /// Returns the latest time when it may have been read, by the clock of the store.
    pub(crate) fn read_ms(self) -> u64 {
        self.row.read_ms
    }

    /// Returns the earliest time when it may have been read.
    pub(crate) fn read_from_ms(self) -> u64 {
        self.row.read_ms.saturating_sub(self.row.early_ms.into())
    }

    pub(crate) fn mode(self) -> Option<LockMode> {
        self.row.mode
    }

    pub(crate) fn holder_count(self) -> u32 {
        self.row.holder_count
    }

    pub(crate) fn waiter_count(self) -> u32 {
        self.row.waiter_count
    }

    /// Returns the longest wait of all waiters that are alive.
    pub(crate) fn longest_wait_ms(self) -> Option<u64> {
        (self.row.longest_wait_ms != NONE).then(|| self.row.longest_wait_ms.into())
    }

    pub(crate) fn held_at(self) -> u16 {
        self.row.held_at
    }

    pub(crate) fn servers(self) -> u16 {
        self.row.servers
    }

    pub(crate) fn holder(self) -> Option<ShownHolder<'a>> {
        self.holders().next()
    }

    pub(crate) fn holders(self) -> impl Iterator<Item = ShownHolder<'a>> {
        let (picture, row) = (self.picture, self.row);
        let held = (self.row.holder_at..).zip(self.held());
        held.map(move |(place, held)| ShownHolder {
            picture,
            held,
            place,
            read_ms: row.read_ms,
            early_ms: row.early_ms,
        })
    }

    pub(crate) fn waiters(self) -> impl Iterator<Item = Waiter<'a>> {
        let picture = self.picture;
        self.waits()
            .iter()
            .map(move |waits| Waiter { picture, waits })
    }

    pub(super) fn held(self) -> &'a [LeaseRow] {
        part(&self.picture.holders, self.row.holder_at, self.row.holders)
    }

    pub(super) fn waits(self) -> &'a [Waits] {
        part(&self.picture.waiters, self.row.waiter_at, self.row.waiters)
    }
}

impl<'a> ShownHolder<'a> {
    /// Returns the owner id; `None` for a third-party client.
    pub(crate) fn owner(self) -> Option<OwnerId> {
        self.picture.owner(self.held.client, self.held.number)
    }

    pub(crate) fn fence(self) -> u64 {
        self.held.fence
    }

    /// Returns what tells the leases of third-party clients apart; 0 if nothing does.
    pub(crate) fn mark(self) -> u64 {
        let is_foreign = self.held.client == NONE;
        if is_foreign { self.held.number } else { 0 }
    }

    pub(crate) fn label(self) -> Option<&'a str> {
        self.picture.text(self.held.name)
    }

    pub(crate) fn function(self) -> Option<&'a str> {
        self.picture.text(self.held.function)
    }

    /// Returns the numbers of its label and its function among the texts of the picture.
    pub(crate) fn texts(self) -> [u32; 2] {
        [self.held.name, self.held.function]
    }

    pub(crate) fn since_ms(self) -> Option<u64> {
        (self.held.since_ms != NEVER).then_some(self.held.since_ms)
    }

    /// Returns the time for which it had held the lock when the lock was read.
    pub(crate) fn held_ms(self) -> Option<u64> {
        Some(self.read_ms.saturating_sub(self.since_ms()?))
    }

    /// Returns the time until the lease ended when the lock was read; `None` if it never ends.
    pub(crate) fn ttl_ms(self) -> Option<u64> {
        (self.held.ttl_ms != NONE).then(|| self.held.ttl_ms.into())
    }

    /// Returns the time by which the lock may have been read earlier, and by which all that follows from that is too late.
    pub(crate) fn early_ms(self) -> u64 {
        self.early_ms.into()
    }

    /// Returns the latest time when the lease ends, unless it is renewed.
    pub(crate) fn expires_ms(self) -> Option<u64> {
        Some(self.read_ms + self.ttl_ms()?)
    }

    /// Returns the longest TTL that pictures have shown of it.
    pub(crate) fn longest_ms(self) -> u64 {
        self.held.longest_ms.into()
    }

    /// Returns the time when a picture first showed it.
    pub(crate) fn first_ms(self) -> u64 {
        self.held.first_ms
    }

    /// Returns what the next picture has to know of it, which shows the same lease as `later`.
    pub(crate) fn carried_to(self, later: ShownHolder<'_>) -> Carried {
        Carried {
            holder: later.place,
            longest_ms: self.held.longest_ms.max(later.held.longest_ms),
            first_ms: self.held.first_ms,
        }
    }
}

impl<'a> Waiter<'a> {
    /// Returns the number of its label among the texts of the picture.
    pub(crate) fn text(self) -> u32 {
        self.waits.name
    }

    pub(crate) fn owner(self) -> Option<OwnerId> {
        self.picture.owner(self.waits.client, self.waits.number)
    }

    pub(crate) fn label(self) -> Option<&'a str> {
        self.picture.text(self.waits.name)
    }

    pub(crate) fn mode(self) -> LockMode {
        self.waits.mode
    }

    pub(crate) fn entered_ms(self) -> u64 {
        self.waits.entered_ms
    }

    pub(crate) fn is_alive(self) -> bool {
        self.waits.is_alive
    }
}

fn part<T>(all: &[T], at: u32, len: u32) -> &[T] {
    let at = usize::try_from(at).unwrap_or(usize::MAX);
    let end = at.saturating_add(usize::try_from(len).unwrap_or(usize::MAX));
    all.get(at..end).unwrap_or_default()
}
