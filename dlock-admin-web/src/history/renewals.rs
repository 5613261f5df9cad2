//! The times of renewals. There are many more of them than of other events, and they are the first to be forgotten: what
//! is missing here is no gap.

use std::collections::{HashMap, VecDeque};

use super::identity::{LeaseId, LockHash};

/// The number of renewals that are remembered, of all locks together.
const ALL: usize = 20_000;

/// The number of the latest renewals of one lock that are shown.
const OF_ONE: usize = 500;

/// The number of locks whose renewals are remembered apart.
const WATCHED: usize = 64;

#[derive(Debug, Default)]
pub(super) struct PastRenewals {
    /// A hundred thousand locks renew more often between two pictures than it has places.
    all: VecDeque<(LockHash, LeaseId, u64)>,
    /// The locks that a browser shows.
    watched: HashMap<LockHash, Watched>,
}

#[derive(Debug, Default)]
struct Watched {
    asked_ms: u64,
    renewals: VecDeque<(LeaseId, u64)>,
}

impl PastRenewals {
    /// Remembers the renewals of a lock apart from now on, until many others have been asked for.
    pub(super) fn watch(&mut self, lock: LockHash, now_ms: u64) {
        self.watched.entry(lock).or_default().asked_ms = now_ms;
        if self.watched.len() > WATCHED {
            let others = self.watched.iter().filter(|(it, _)| **it != lock);
            let oldest = others.min_by_key(|(_, it)| it.asked_ms);
            if let Some(oldest) = oldest.map(|(it, _)| *it) {
                self.watched.remove(&oldest);
            }
        }
    }

    pub(super) fn add(&mut self, lock: LockHash, lease: LeaseId, at_ms: u64) {
        if let Some(watched) = self.watched.get_mut(&lock) {
            if watched.renewals.len() == OF_ONE {
                watched.renewals.pop_front();
            }
            watched.renewals.push_back((lease, at_ms));
            return;
        }
        if self.all.len() == ALL {
            self.all.pop_front();
        }
        self.all.push_back((lock, lease, at_ms));
    }

    /// Returns the latest renewals of a lock since `from_ms`, in the order of their times.
    pub(super) fn since(&self, lock: LockHash, from_ms: u64) -> HashMap<LeaseId, Vec<u64>> {
        let all = self.all.iter().filter(|it| it.0 == lock);
        let all = all.map(|(_, lease, at_ms)| (*lease, *at_ms));
        let watched = self.watched.get(&lock);
        let watched = watched
            .into_iter()
            .flat_map(|it| it.renewals.iter().copied());
        let mut found: Vec<_> = all.chain(watched).filter(|it| it.1 >= from_ms).collect();
        found.sort_by_key(|(_, at_ms)| *at_ms);
        found.drain(..found.len().saturating_sub(OF_ONE));
        let mut renewed: HashMap<_, Vec<_>> = HashMap::new();
        for (lease, at_ms) in found {
            renewed.entry(lease).or_default().push(at_ms);
        }
        renewed
    }
}
