//! A task that uses the lease of an attempt, beside the task that bears its claim.

use crate::{
    clock::Moment,
    error::LostCause,
    state::{event::Loss, waiter::LocalWaiter},
};

/// A task that uses the lease of an attempt.
#[derive(Debug)]
pub(in crate::state) struct Sharer<T> {
    pub(in crate::state) waiter: LocalWaiter<T>,
    pub(super) since: Moment,
    pub(super) loss: Option<Loss>,
}

impl<T> Sharer<T> {
    pub(super) fn lose(&mut self, cause: LostCause, now: Moment) {
        let held_for = self.since.elapsed(now);
        self.loss = Some(Loss { cause, held_for });
    }
}
