//! A task that wants the key, before and while it sends requests.

use std::time::Duration;

use super::{
    claim::{Claim, LastAnswer, Validity},
    event::Denial,
};
use crate::{
    answer::Holder,
    attempt::AttemptId,
    clock::Moment,
    options::{Timing, Wait},
};

/// The time before the end of a wait at which the last request is sent, in addition to the time of two
/// answers. A quarter of the remaining wait, if that is less.
const LAST_LOOK: Duration = Duration::from_millis(50);

/// The age of what is known of a lease, from which a call does not begin with it without a request of its own.
///
/// **Safety.** The store may lose its data at any moment. A call that comes after another client's body has begun
/// must not begin with an older lease, of which the store knows nothing any more. Within this time it may.
const KNOWN_FOR: Duration = Duration::from_millis(10);

/// The last request of a wait.
///
/// A waiter receives no message when another client deletes a raw key, and a wake-up message can be lost. The
/// answer to a request in the middle of the wait therefore does not show that the key is held at its end.
#[derive(Clone, Copy, Debug)]
enum LastLook {
    /// No answer has arrived yet from which the time of the last request could be planned.
    Unplanned,
    Planned {
        at: Moment,
        /// The minimum time to wait for its answer, so that a task that is woken late does not send it in
        /// vain.
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
    /// When the wait is over; `None` for no limit.
    pub(super) give_up: Option<Moment>,
    last_look: LastLook,
    /// The manager has closed before there was a lease.
    pub(super) refused: bool,
    /// The task did not respond when it was in front, and has not responded since.
    pub(super) absent: bool,
    /// The task was woken to ask beside the attempt in front, and has not looked since.
    pub(super) is_called: bool,
    /// The claim that it had when it was in front, and that no other attempt could use.
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
            is_called: false,
            kept: None,
        }
    }

    /// Returns `true` if the caller does not wait any longer.
    pub(super) fn is_over(&self, now: Moment) -> bool {
        self.give_up.is_some_and(|give_up| give_up.is_reached(now))
    }

    /// Records that a request was answered after `took`. Returns when the last request is due, if it is still
    /// to be sent.
    pub(super) fn plan_last_look(&mut self, took: Duration, now: Moment) -> Option<Moment> {
        let rest = self.give_up?.remaining(now);
        if rest.is_zero() {
            // This request was in flight at the end of the wait.
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

    /// Returns `true` if the last request of the wait is planned and not sent yet.
    pub(super) fn owes_last_look(&self) -> bool {
        matches!(self.last_look, LastLook::Planned { .. })
    }

    /// Records that a request is about to be sent. Returns the minimum time to wait for its answer, which is
    /// zero except for the last request.
    pub(super) fn begins_last_look(&mut self, now: Moment) -> Duration {
        match self.last_look {
            LastLook::Planned { at, least } if at.is_reached(now) => {
                self.last_look = LastLook::Asked;
                least
            }
            _ => Duration::ZERO,
        }
    }

    /// Returns `true` if the caller wants the lock only if it is free.
    pub(super) fn asks_once(&self) -> bool {
        self.timing.wait == Wait::Never && !self.refused
    }

    /// Returns `true` if the caller still wants the lock and its task seems to respond.
    pub(super) fn is_waiting(&self, now: Moment) -> bool {
        !self.refused && !self.absent && !self.is_over(now)
    }

    /// Returns `true` if the call may begin with a lease that the store has had after `sent`, without a request of
    /// its own: it came before that moment, or shortly after it.
    pub(super) fn may_rely_on(&self, sent: Moment) -> bool {
        sent.elapsed(self.entered) <= KNOWN_FOR
    }

    pub(super) fn denial(&self, last_answer: &LastAnswer, now: Moment) -> Denial {
        let waited = self.entered.elapsed(now);
        match last_answer.clone() {
            _ if self.refused => Denial::Closed,
            LastAnswer::Busy(holder) => Denial::Busy { waited, holder },
            LastAnswer::Failed(reason) => Denial::Unavailable { waited, reason },
            // Another attempt of this process is before it, and the store has time left for its first answer.
            LastAnswer::NotAsked => Denial::Busy {
                waited,
                holder: Holder::here(),
            },
        }
    }
}
