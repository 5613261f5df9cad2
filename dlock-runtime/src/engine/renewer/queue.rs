//! The renewals that are due, and how they are grouped into requests.

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use crate::{
    owner::OwnerId,
    state::Event,
    sync::{Mutex, MutexGuard},
};

/// The maximum number of renewals in one request: other requests wait for the server in the meantime.
const MOST_IN_A_GROUP: usize = 256;

/// The maximum number of groups in flight, except those that have waited long for their answer.
const MOST_UNDER_WAY: usize = 4;

/// A lease that has to be renewed.
pub(super) struct Due<A> {
    pub(super) acquisition: Arc<A>,
    pub(super) owner: OwnerId,
    /// Continues with the result of the renewal as an event.
    pub(super) answered: fn(&A, OwnerId, Event),
    /// The limit of the answer.
    pub(super) limit: Duration,
    /// When the lease ends without a renewal.
    pub(super) deadline: Instant,
}

impl<A> Due<A> {
    /// Returns the limit of the answer to a request that is sent at `now`.
    pub(super) fn limit_at(&self, now: Instant) -> Duration {
        self.limit.min(self.deadline.saturating_duration_since(now))
    }
}

/// The renewals of a manager that are due or in flight.
pub(super) struct Renewals<A>(Mutex<RenewalQueue<A>>);

pub(super) struct RenewalQueue<A> {
    /// Ordered by deadline.
    pub(super) waiting: BTreeMap<(Instant, OwnerId), Due<A>>,
    pub(super) under_way: usize,
    /// `true` while a call of `serve` sends them. That call also sends renewals that are added in the meantime.
    pub(super) is_served: bool,
}

impl<A> Default for Renewals<A> {
    fn default() -> Self {
        Self(Mutex::new(RenewalQueue {
            waiting: BTreeMap::new(),
            under_way: 0,
            is_served: false,
        }))
    }
}

impl<A> Renewals<A> {
    pub(super) fn queue(&self) -> MutexGuard<'_, RenewalQueue<A>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<A> RenewalQueue<A> {
    /// Returns the next group to be sent at `now`.
    pub(super) fn next(&mut self, now: Instant) -> Option<Vec<Due<A>>> {
        if self.under_way >= MOST_UNDER_WAY {
            return None;
        }
        let (_, first) = self.waiting.pop_first()?;
        self.under_way += 1;
        // A lease that is about to end must not shorten the limit of the others.
        let longest = first.limit_at(now).saturating_mul(2);
        let mut group = vec![first];
        while group.len() < MOST_IN_A_GROUP
            && let Some(next) = self.waiting.first_entry()
            && next.get().limit_at(now) <= longest
        {
            group.push(next.remove());
        }
        Some(group)
    }
}
