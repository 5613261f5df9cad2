//! A lease that has reached a task which does not take it, because its future is not polled.

use std::{mem, time::Duration};

use super::{Attempt, hold::Hold};
use crate::{clock::Moment, state::waiter::LocalWaiter};

/// The time for which a lease waits for its task. A task that was woken may have to wait for a processor.
const TAKEN_WITHIN: Duration = Duration::from_millis(250);

impl<T> Attempt<T> {
    /// Returns when the lease has to be released, if its task has not taken it yet.
    pub(in crate::state) fn give_back_at(&self) -> Option<Moment> {
        let hold = self.holding().filter(|hold| !Hold::is_entered(hold))?;
        Some(hold.since.plus(TAKEN_WITHIN.min(self.claim.least())))
    }

    /// Makes `next` bear the claim. Returns the task that bore it.
    pub(in crate::state) fn pass_to(&mut self, next: LocalWaiter<T>) -> LocalWaiter<T> {
        mem::replace(&mut self.waiter, next)
    }
}
