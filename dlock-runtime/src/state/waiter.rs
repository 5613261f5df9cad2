//! A task that wants the key, before it asks for it and while it does.

use super::{
    Denial,
    claim::{Claim, Refusal, Trust},
};
use crate::{
    clock::Moment,
    options::{Timing, Wait},
    owner::OwnerId,
    store::{Holder, StoreError},
};

#[derive(Debug)]
pub(crate) struct Waiter<T> {
    pub(super) id: OwnerId,
    /// Whom to ring; opaque to the state.
    pub(super) task: T,
    pub(super) timing: Timing,
    pub(super) trust: Trust,
    pub(super) entered: Moment,
    /// When the wait is over; `None` for ever.
    pub(super) give_up: Option<Moment>,
    /// The manager has closed before there was a lease.
    pub(super) refused: bool,
    /// It did not look when it was in front, and has not looked since.
    pub(super) absent: bool,
    /// Its id is the owner of a claim that somebody else bears now, or has borne.
    pub(super) has_lent_id: bool,
    /// What it had when it was in front, and nobody else could use.
    pub(super) kept: Option<Box<Claim>>,
}

impl<T> Waiter<T> {
    pub(crate) fn new(id: OwnerId, task: T, timing: Timing, trust: Trust, now: Moment) -> Self {
        Self {
            id,
            task,
            timing,
            trust,
            entered: now,
            give_up: match timing.wait {
                Wait::Never => Some(now),
                Wait::For(limit) => Some(now.plus(limit)),
                Wait::Forever => None,
            },
            refused: false,
            absent: false,
            has_lent_id: false,
            kept: None,
        }
    }

    /// Whether the caller waits no longer.
    pub(super) fn is_over(&self, now: Moment) -> bool {
        self.give_up.is_some_and(|give_up| give_up.is_reached(now))
    }

    /// Whether it wants the lock only if that is free.
    pub(super) fn asks_once(&self) -> bool {
        self.timing.wait == Wait::Never && !self.refused
    }

    /// Whether the lock is still of use to the caller, and it looks like coming for it.
    pub(super) fn is_waiting(&self, now: Moment) -> bool {
        !self.refused && !self.absent && !self.is_over(now)
    }

    pub(super) fn denial(&self, refusal: &Refusal, now: Moment) -> Denial {
        let waited = self.entered.elapsed(now);
        match refusal.clone() {
            _ if self.refused => Denial::Closed,
            Refusal::Busy(holder) => Denial::Busy { waited, holder },
            Refusal::Failed(reason) => Denial::Unavailable { waited, reason },
            // Who does not wait finds somebody of this process before him; anybody else has waited
            // in vain for the answer to that one's first question.
            Refusal::NotAsked if self.timing.wait == Wait::Never => Denial::Busy {
                waited,
                holder: Holder::here(),
            },
            Refusal::NotAsked => Denial::Unavailable {
                waited,
                reason: StoreError::timed_out(waited),
            },
        }
    }
}
