//! The past of locks in the last minutes, as far as pictures and messages about grants have shown it.
//!
//! The events of all locks lie in one ring, whose size is limited: the memory of the program does not grow with time, and
//! what has been forgotten is a gap. Holders and waiters of the latest picture are not in the ring.

mod difference;
mod identity;
mod renewals;
#[cfg(test)]
mod tests;
mod view;

use std::{
    collections::{HashMap, VecDeque},
    hash::{BuildHasher as _, RandomState},
    sync::Arc,
    time::Duration,
};

pub(super) use self::view::HistoryView;
use self::{
    identity::{LeaseId, LockHash},
    renewals::PastRenewals,
};
use super::picture::Picture;
use dlock_runtime::store::{LockMode, OwnerId};

/// The number of events that are remembered, of all locks together.
const EVENTS: usize = 20_000;

/// The number of grants of one lock that are remembered between two pictures. One busy lock must not make all others be
/// forgotten.
const GRANTS: u32 = 20;

/// The number of gaps that are remembered.
const GAPS: usize = 100;

/// The time that is shown, in milliseconds: ten minutes.
const WINDOW: u64 = 600_000;

#[derive(Debug, Default)]
pub(super) struct History {
    hasher: RandomState,
    /// The time between two pictures.
    interval: Duration,
    events: VecDeque<PastEvent>,
    renewals: PastRenewals,
    /// The times in which nothing was seen.
    gaps: VecDeque<(u64, u64)>,
    /// The time until which events have been forgotten.
    forgotten_ms: u64,
    /// The time of the first picture.
    began_ms: Option<u64>,
    /// The latest grants that the latest picture may not show.
    granted: HashMap<LockHash, PastGrants>,
    /// The time of the first grant of a lock for which `granted` had no place.
    unheard_ms: Option<u64>,
    /// The leases that this page has ended, unless the latest picture shows it.
    forced: Vec<Forced>,
    latest: Option<Arc<Picture>>,
}

/// A lease that an operator has ended.
#[derive(Debug)]
struct Forced {
    lock: LockHash,
    /// `None` for all holders with this fence, and for a third-party client.
    owner: Option<OwnerId>,
    fence: u64,
    at_ms: u64,
    by: Arc<str>,
}

#[derive(Clone, Copy, Debug)]
struct PastGrants {
    owner: OwnerId,
    fence: u64,
    at_ms: u64,
    count: u32,
    /// The time of the first one that is not remembered.
    skipped_ms: Option<u64>,
}

#[derive(Debug)]
struct PastEvent {
    lock: LockHash,
    at_ms: u64,
    what: What,
}

#[derive(Debug)]
enum What {
    /// A lease has ended.
    Held {
        lease: LeaseId,
        label: Option<Arc<str>>,
        from_ms: u64,
        end: End,
        /// The client that has ended it by force.
        by: Option<Arc<str>>,
    },
    /// A message about a grant, of a lease that pictures may not show.
    Granted(OwnerId, u64),
    /// A wait has ended.
    Waited {
        owner: Option<OwnerId>,
        label: Option<Arc<str>>,
        mode: LockMode,
        from_ms: u64,
        end: End,
    },
    /// From this time on, there were more grants than are remembered.
    Skipped(u64),
}

/// The end of a lease or of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Released,
    /// The lease went to the next waiter; the waiter was granted the lock.
    Granted,
    Expired,
    Forced,
    Left,
    Unknown,
}

impl History {
    /// Returns an empty history of pictures that follow each other at this interval.
    pub(super) fn every(interval: Duration) -> Self {
        Self {
            interval,
            ..Self::default()
        }
    }

    /// Notes that a browser shows a lock.
    pub(super) fn watch(&mut self, key: &str, now_ms: u64) {
        let lock = self.hash(key);
        self.renewals.watch(lock, now_ms);
    }

    /// Notes a grant.
    pub(super) fn heard(&mut self, key: &str, owner: OwnerId, fence: u64, at_ms: u64) {
        // In a quorum it is a notice, after which the waiter requests the lock.
        if fence == 0 {
            return;
        }
        let lock = self.hash(key);
        if self.granted.len() >= EVENTS && !self.granted.contains_key(&lock) {
            self.unheard_ms.get_or_insert(at_ms);
            return;
        }
        let last = self.granted.get(&lock);
        let count = last.map_or(0, |last| last.count).saturating_add(1);
        let skipped_ms = last.and_then(|last| last.skipped_ms);
        let granted = PastGrants {
            owner,
            fence,
            at_ms,
            count,
            skipped_ms: skipped_ms.or_else(|| (count > GRANTS).then_some(at_ms)),
        };
        self.granted.insert(lock, granted);
        if count <= GRANTS {
            self.add(lock, at_ms, What::Granted(owner, fence));
        }
    }

    /// Notes that this page has ended a lease, for `by`.
    pub(super) fn forced(
        &mut self,
        key: &str,
        owner: Option<OwnerId>,
        fence: u64,
        at_ms: u64,
        by: Arc<str>,
    ) {
        let lock = self.hash(key);
        self.forced.push(Forced {
            lock,
            owner,
            fence,
            at_ms,
            by,
        });
        if self.forced.len() > GAPS {
            self.forced.remove(0);
        }
    }

    fn hash(&self, key: &str) -> LockHash {
        self.hasher.hash_one(key)
    }

    fn add(&mut self, lock: LockHash, at_ms: u64, what: What) {
        if self.events.len() == EVENTS
            && let Some(oldest) = self.events.pop_front()
        {
            self.forgotten_ms = self.forgotten_ms.max(oldest.at_ms);
        }
        self.events.push_back(PastEvent { lock, at_ms, what });
    }

    fn add_gap(&mut self, from_ms: u64, to_ms: u64) {
        if self.gaps.len() == GAPS {
            self.gaps.pop_front();
            // The time before the next gap counts as one.
            let next = self.gaps.front().map_or(from_ms, |gap| gap.0);
            self.forgotten_ms = self.forgotten_ms.max(next);
        }
        self.gaps.push_back((from_ms, to_ms));
    }
}
