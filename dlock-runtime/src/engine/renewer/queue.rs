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
    /// Passes the answer on, as an event.
    pub(super) on_answer: fn(&A, OwnerId, Event),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{owner::ClientId, random::SystemRandom};

    const SECOND: Duration = Duration::from_secs(1);

    /// A queue of leases with these times until they end, and these limits of their answers.
    fn queue(now: Instant, leases: &[(Duration, Duration)]) -> RenewalQueue<()> {
        let client = ClientId::new(&SystemRandom);
        let leases = (1..).zip(leases).map(|(number, &(left, limit))| {
            let owner = OwnerId::new(client, number);
            let due = Due {
                acquisition: Arc::new(()),
                owner,
                on_answer: |(), _, _| {},
                limit,
                deadline: now + left,
            };
            ((due.deadline, owner), due)
        });
        RenewalQueue {
            waiting: leases.collect(),
            under_way: 0,
            is_served: false,
        }
    }

    /// Returns the numbers of the leases of the next group.
    fn next(queue: &mut RenewalQueue<()>, now: Instant) -> Option<Vec<u64>> {
        let group = queue.next(now)?;
        Some(group.iter().map(|due| due.owner.number()).collect())
    }

    #[test]
    fn groups_have_the_leases_that_end_first_and_no_more_than_a_request_may_have() {
        let now = Instant::now();
        // Those that came last end first.
        let ends = (0..300_u32).rev().map(|more| (10 + more) * SECOND);
        let leases: Vec<_> = ends.map(|it| (it, SECOND)).collect();
        let mut queue = queue(now, &leases);
        let first: Vec<_> = (45..=300).rev().collect();
        assert_eq!(next(&mut queue, now), Some(first));
        let second: Vec<_> = (1..45).rev().collect();
        assert_eq!(next(&mut queue, now), Some(second));
        assert_eq!(next(&mut queue, now), None);
        assert_eq!(queue.under_way, 2, "nothing is no group");
    }

    #[test]
    fn four_groups_are_under_way_at_a_time() {
        let now = Instant::now();
        // Each has more than twice the time of the one before.
        let leases: Vec<_> = (0..6).map(|power| SECOND * 3u32.pow(power)).collect();
        let leases: Vec<_> = leases.into_iter().map(|it| (it, it)).collect();
        let mut queue = queue(now, &leases);
        for number in 1..=4 {
            assert_eq!(next(&mut queue, now), Some(vec![number]));
        }
        assert_eq!(next(&mut queue, now), None);
        queue.under_way -= 1;
        assert_eq!(next(&mut queue, now), Some(vec![5]));
        assert_eq!(next(&mut queue, now), None);
        assert_eq!(queue.waiting.len(), 1);
    }

    #[test]
    fn a_lease_that_is_about_to_end_shortens_no_answer_of_others_by_more_than_a_half() {
        let now = Instant::now();
        let leases = [
            (SECOND, 3 * SECOND),
            (4 * SECOND, 2 * SECOND),
            (5 * SECOND, 3 * SECOND),
            (6 * SECOND, SECOND),
        ];
        let mut queue = queue(now, &leases);
        assert_eq!(next(&mut queue, now), Some(vec![1, 2]));
        assert_eq!(next(&mut queue, now), Some(vec![3, 4]));
    }

    #[test]
    fn an_answer_is_not_waited_for_beyond_the_end_of_its_lease() {
        let now = Instant::now();
        let queue = queue(now, &[(4 * SECOND, 3 * SECOND)]);
        let due = queue.waiting.values().next().expect("there is one");
        assert_eq!(due.limit_at(now), 3 * SECOND);
        assert_eq!(due.limit_at(now + 2 * SECOND), 2 * SECOND);
        assert_eq!(due.limit_at(now + 5 * SECOND), Duration::ZERO);
    }
}
