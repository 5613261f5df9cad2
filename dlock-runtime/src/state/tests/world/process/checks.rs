//! The conditions that the model fulfills at any time.

use super::*;

impl World {
    /// Checks the conditions that hold at any time.
    pub(in crate::state::tests::world) fn check(&mut self) {
        self.store.expire(self.now.boot);
        let held: Vec<_> = self.trusted().collect();
        check_together(&held);
        let mut owners: Vec<_> = self.state.attempts().map(|it| it.claim.owner).collect();
        let all = owners.len();
        owners.sort();
        owners.dedup();
        assert_eq!(
            all,
            owners.len(),
            "broken promise: two claims have one owner"
        );
        let kept = self.store.held.iter();
        let kept = kept.filter(|kept| kept.owner.client() == self.client);
        for (lease, _) in &held {
            assert!(
                kept.clone().any(|it| it.fence == lease.token.fence()),
                "broken promise: it believes in what another has, or nobody"
            );
        }
        let permits = held.iter().filter(|(_, mode)| *mode != LockMode::Shared);
        assert!(
            permits.count() <= kept.count(),
            "broken promise: two bodies with one lease"
        );
        let gone = self.tasks.iter().all(|task| task.at == At::Gone);
        assert_eq!(
            self.state.is_idle(),
            gone,
            "nothing is left of who has gone"
        );
        self.state.pool.check();
        self.check_progress();
    }

    /// Checks that a waiter has another attempt in front of it that will continue.
    fn check_progress(&self) {
        let waits = |waiter: &LocalWaiter<usize>| waiter.is_waiting(self.now);
        let front = self.state.front.as_ref().filter(|front| front.is_active());
        let Some(front) = front else {
            // The next is woken and comes to the front by itself; or somebody before it is, and wakes it in turn.
            let mut behind = self.state.behind.iter();
            if let Some(next) = behind.position(waits) {
                let handed = self.state.pool.iter();
                let handed = handed.filter(|it| !it.is_asking() && it.lease().is_none());
                let before = self.state.behind.iter().take(next + 1);
                let mut woken = handed.map(|it| &it.waiter).chain(before);
                let is_woken = woken.any(|waiter| self.tasks[waiter.task].woken);
                assert!(is_woken, "no front attempt");
            }
            return;
        };
        let task = &self.tasks[front.waiter.task];
        let goes_on = match task.at {
            At::Asking { .. } | At::Inside => true,
            At::Parked(until) => task.woken || until.is_some(),
            _ => false,
        };
        assert!(goes_on, "the one in front is {:?}", task.at);
    }

    /// Checks that the renewer checks every lease in time.
    pub(in crate::state::tests::world) fn check_care(&self) {
        for attempt in self.state.front.iter().chain(self.state.pool.iter()) {
            self.check_care_of(attempt);
        }
    }

    fn check_care_of(&self, attempt: &attempt::Attempt<usize>) {
        let owner = attempt.claim.owner;
        let is_noted = self.noting.iter().any(|(other, _)| *other == owner);
        let due = self.due.get(&owner);
        if let Some(at) = attempt.give_back_at() {
            let is_due = due.is_some_and(|due| due.monotonic <= at.monotonic);
            assert!(is_noted || is_due, "no task gives back an untaken lease");
        }
        let Some(lease) = attempt.lease() else {
            return;
        };
        assert!(is_noted || due.is_some(), "no task checks the lease");
        let timing = self.tasks[attempt.waiter.task].timing;
        let renewed = self.renewals.iter().any(|other| other.owner == owner);
        // After a failure shortly before the end there is no time for another try.
        let has_time = !attempt.is_doubted() || lease.deadline.remaining(self.now) > timing.ttl / 4;
        if let Some(due) = due
            && timing.renew
            && timing.max_hold.is_none()
            && !is_noted
            && !renewed
            && has_time
        {
            assert!(
                due.monotonic < lease.deadline.monotonic,
                "it is not to be renewed"
            );
        }
    }

    /// Returns the leases that bodies trust, with their modes.
    pub(in crate::state::tests::world) fn trusted(
        &self,
    ) -> impl Iterator<Item = (HeldLease, LockMode)> {
        let held = |task| Some((self.state.lease(id(task))?, self.tasks[task].timing.mode));
        let held = (0..self.tasks.len()).filter_map(held);
        held.filter(|(lease, _)| !lease.deadline.is_reached(self.now))
    }
}

/// Checks that these bodies may be there together.
pub(in crate::state::tests::world) fn check_together(held: &[(HeldLease, LockMode)]) {
    let Some((first, _)) = held.first() else {
        return;
    };
    let alone = held.iter().filter(|(_, mode)| mode.is_exclusive()).count();
    assert!(
        alone == 0 || held.len() == 1,
        "broken promise: two sections trust a lease"
    );
    assert!(
        held.iter().all(|(lease, _)| lease.token == first.token),
        "broken promise: two tokens together"
    );
    let permits = held.iter().filter(|(_, mode)| *mode == PERMITS).count();
    assert!(permits <= 2, "broken promise: one permit too many");
}
