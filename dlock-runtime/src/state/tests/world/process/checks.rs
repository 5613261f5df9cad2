//! The conditions that the model fulfills at any time.

use super::*;

impl World {
    /// Checks the conditions that hold at any time.
    pub(in crate::state::tests::world) fn check(&mut self) {
        self.store.expire(self.now.boot);
        let held: Vec<_> = (0..self.tasks.len())
            .filter_map(|task| self.state.lease(id(task)))
            .filter(|held| !held.deadline.is_reached(self.now))
            .collect();
        assert!(held.len() <= 1, "two sections trust a lease");
        let attempts = self.state.front.iter().chain(&self.state.aside);
        let mut owners: Vec<_> = attempts.map(|attempt| attempt.claim.owner).collect();
        let all = owners.len();
        owners.sort();
        owners.dedup();
        assert_eq!(all, owners.len(), "two claims have one owner");
        for held in held {
            let kept = self.store.held.expect("the trusted lease has expired");
            assert_eq!(
                kept.1,
                held.token.fence(),
                "it believes in what another has"
            );
            assert_eq!(kept.0.client(), self.client);
        }
        let gone = self.tasks.iter().all(|task| task.at == At::Gone);
        assert_eq!(
            self.state.is_idle(),
            gone,
            "nothing is left of who has gone"
        );
        self.check_progress();
    }

    /// Checks that a waiter has another attempt in front of it that will continue.
    fn check_progress(&self) {
        let waits = |waiter: &LocalWaiter<usize>| waiter.is_waiting(self.now);
        let front = self.state.front.as_ref().filter(|front| front.is_active());
        let Some(front) = front else {
            assert!(!self.state.behind.iter().any(waits), "no front attempt");
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
        let front = self.state.front.as_ref();
        let Some(front) = front.filter(|front| front.lease().is_some()) else {
            return;
        };
        let owner = front.claim.owner;
        let is_noted = self.noting.iter().any(|(other, _)| *other == owner);
        let due = self.due.get(&owner);
        assert!(is_noted || due.is_some(), "no task checks the lease");
        let timing = self.tasks[front.waiter.task].timing;
        let renewed = self.renewals.iter().any(|other| other.owner == owner);
        if let Some(due) = due
            && timing.renew
            && timing.max_hold.is_none()
            && !is_noted
            && !renewed
        {
            let deadline = front.lease().expect("it is held").deadline;
            assert!(
                due.monotonic < deadline.monotonic,
                "it is not to be renewed"
            );
        }
    }
}
