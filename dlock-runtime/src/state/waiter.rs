//! A task that wants the key, before it asks for it and while it does.

use std::time::Duration;

use super::{
    claim::{Claim, LastAnswer, Validity},
    event::Denial,
};
use crate::{
    answer::Holder,
    attempt::AttemptId,
    clock::Moment,
    error::StoreError,
    options::{Timing, Wait},
};

/// The time before the end of a wait at which the store is asked once more, besides the time that
/// two answers take; a quarter of the wait that is left if that is less.
const LAST_LOOK: Duration = Duration::from_millis(50);

/// The last question of a wait.
///
/// Nothing tells a waiter that another client has deleted a raw key, and a wake-up message can be lost. So
/// the answer to a question from the middle of the wait does not say that the key is held at its end.
#[derive(Clone, Copy, Debug)]
enum LastLook {
    /// There is no answer yet that the end of the wait could be planned by.
    Unplanned,
    Planned {
        at: Moment,
        /// For how long its answer is waited for at least, so that a task that is woken late does not ask
        /// in vain.
        least: Duration,
    },
    Asked,
}

#[derive(Debug)]
pub(crate) struct LocalWaiter<T> {
    pub(super) id: AttemptId,
    /// The handle that wakes its task; opaque to the state.
    pub(super) task: T,
    pub(super) timing: Timing,
    pub(super) validity: Validity,
    pub(super) entered: Moment,
    /// When the wait is over; `None` for ever.
    pub(super) give_up: Option<Moment>,
    last_look: LastLook,
    /// The manager has closed before there was a lease.
    pub(super) refused: bool,
    /// It did not look when it was in front, and has not looked since.
    pub(super) absent: bool,
    /// The claim that it had when it was in front, and no other could use.
    pub(super) kept: Option<Box<Claim>>,
}

impl<T> LocalWaiter<T> {
    pub(crate) fn new(
        id: AttemptId,
        task: T,
        timing: Timing,
        validity: Validity,
        now: Moment,
    ) -> Self {
        Self {
            id,
            task,
            timing,
            validity,
            entered: now,
            give_up: match timing.wait {
                Wait::Never => Some(now),
                Wait::For(limit) => Some(now.plus(limit)),
                Wait::Forever => None,
            },
            last_look: LastLook::Unplanned,
            refused: false,
            absent: false,
            kept: None,
        }
    }

    /// `true` if the caller waits no longer.
    pub(super) fn is_over(&self, now: Moment) -> bool {
        self.give_up.is_some_and(|give_up| give_up.is_reached(now))
    }

    /// A question has been answered after it `took` so long; returns when the last one is due, if that is
    /// still to be asked.
    pub(super) fn plan_last_look(&mut self, took: Duration, now: Moment) -> Option<Moment> {
        let rest = self.give_up?.remaining(now);
        if rest.is_zero() {
            // This one was under way at the end of the wait.
            self.last_look = LastLook::Asked;
        }
        if matches!(self.last_look, LastLook::Asked) {
            return None;
        }
        let lead = took
            .saturating_mul(2)
            .saturating_add(LAST_LOOK.min(rest / 4));
        let lead = lead.min(rest / 2);
        let at = now.plus(rest.saturating_sub(lead));
        self.last_look = LastLook::Planned {
            at,
            least: lead.min(LAST_LOOK),
        };
        Some(at)
    }

    /// `true` if the last question of the wait was planned and is not asked yet.
    pub(super) fn owes_last_look(&self) -> bool {
        matches!(self.last_look, LastLook::Planned { .. })
    }

    /// A question is about to be sent; returns for how long its answer is waited for at least, which is
    /// zero for all but the last one.
    pub(super) fn begins_last_look(&mut self, now: Moment) -> Duration {
        match self.last_look {
            LastLook::Planned { at, least } if at.is_reached(now) => {
                self.last_look = LastLook::Asked;
                least
            }
            _ => Duration::ZERO,
        }
    }

    /// `true` if it wants the lock only if that is free.
    pub(super) fn asks_once(&self) -> bool {
        self.timing.wait == Wait::Never && !self.refused
    }

    /// `true` if the lock is still of use to the caller, and it looks like coming for it.
    pub(super) fn is_waiting(&self, now: Moment) -> bool {
        !self.refused && !self.absent && !self.is_over(now)
    }

    pub(super) fn denial(&self, last_answer: &LastAnswer, now: Moment) -> Denial {
        let waited = self.entered.elapsed(now);
        match last_answer.clone() {
            _ if self.refused => Denial::Closed,
            LastAnswer::Busy(holder) => Denial::Busy { waited, holder },
            LastAnswer::Failed(reason) => Denial::Unavailable { waited, reason },
            // A caller that does not wait finds another of this process before it; any other has waited
            // in vain for the answer to that one's first question.
            LastAnswer::NotAsked if self.timing.wait == Wait::Never => Denial::Busy {
                waited,
                holder: Holder::here(),
            },
            LastAnswer::NotAsked => Denial::Unavailable {
                waited,
                reason: StoreError::timed_out(waited),
            },
        }
    }
}
