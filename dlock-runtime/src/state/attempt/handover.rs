//! The takeover by the next waiter of this process: of a lease that is still valid, without a round
//! trip, or of the place in the store's queue.
//!
//! The store sees one owner for all the time, as if one section took longer. **Safety.** A lease is
//! handed over only while it is valid, and each section under it has a greater fencing token. For
//! the sake of other processes that goes on for [`LONGEST_TURN`] at most.

use std::time::Duration;

use super::{Attempt, Phase, hold::Hold};
use crate::{
    answer::ALIVE,
    clock::Moment,
    options::Timing,
    state::{event::Context, waiter::LocalWaiter},
};

/// The age from which a lease is released rather than handed over, counted from its grant by the
/// store.
pub(super) const LONGEST_TURN: Duration = Duration::from_millis(10);

impl<T> Attempt<T> {
    /// `true` if `next` can go on with the lease or the place of this attempt.
    pub(in crate::state) fn can_take_over(
        &self,
        next: &LocalWaiter<T>,
        context: Context<'_>,
    ) -> bool {
        self.suits(next)
            && match &self.phase {
                Phase::Asking { .. } | Phase::Waiting { .. } => true,
                Phase::Holding(hold) => {
                    context.handover
                        && self.kept_for(context.now).is_none()
                        && self.is_fresh(hold, context.now)
                        && next.timing.min_hold.is_none()
                }
                Phase::Lost(_) | Phase::Leaving => false,
            }
    }

    /// `true` if the claim can be `next`'s.
    fn suits(&self, next: &LocalWaiter<T>) -> bool {
        // A renewal for another section must not be carried out after what keeps a `min_hold`.
        next.timing.ttl == self.claim.ttl
            && next.kept.is_none()
            && (next.timing.min_hold.is_none() || !self.claim.is_spent())
    }

    fn is_fresh(&self, hold: &Hold, now: Moment) -> bool {
        hold.failure.is_none()
            && hold.granted_at.elapsed(now) <= LONGEST_TURN
            && hold.remaining(now) >= self.claim.least()
            && self.claim.next_token(hold.token.fence()).is_some()
    }

    /// `true` if the task has not looked for long: it may never do so again, and must not block the
    /// others for ever.
    pub(in crate::state) fn is_absent(&self, now: Moment) -> bool {
        let expected = match &self.phase {
            Phase::Waiting { look_at } => *look_at,
            Phase::Asking { until, .. } => *until,
            Phase::Holding(hold) if !hold.is_entered() => hold.since,
            _ => return false,
        };
        expected.plus(ALIVE).is_reached(now)
    }

    /// `next` in place of this attempt, which waits for its next turn from now on. It keeps a claim
    /// that `next` cannot use, and so what the store may know of it.
    pub(in crate::state) fn yield_to(
        self,
        next: LocalWaiter<T>,
        context: Context<'_>,
    ) -> (Self, LocalWaiter<T>) {
        let suits = self.suits(&next);
        let mut absent = self.waiter;
        absent.absent = true;
        let next = if suits {
            Self::waiting(next, self.claim, context.now)
        } else {
            absent.kept = Some(Box::new(self.claim));
            Self::after_others(next, context)
        };
        (next, absent)
    }

    /// The same claim in the hands of `next`.
    pub(in crate::state) fn hand_over(self, next: LocalWaiter<T>, now: Moment) -> Self {
        let look_at = match self.phase {
            Phase::Holding(hold) => {
                let token = self.claim.next_token(hold.token.fence());
                if let Some(token) = token.filter(|_| next.timing.renew) {
                    let kept = looks_no_earlier(&next.timing, &self.waiter.timing);
                    let mut handed = Self::waiting(next, self.claim, now);
                    handed.phase = Phase::Holding(hold.handed(token, !kept, now));
                    return handed;
                }
                // A lease that is not to be renewed must begin with its own TTL: it asks, and is
                // told that the lease is its own already.
                now
            }
            Phase::Waiting { look_at } => look_at,
            // The answer has gone with the task that waited for it.
            _ => now,
        };
        Self::waiting(next, self.claim, look_at)
    }
}

/// `true` if the renewer will look early enough for the next body as well.
fn looks_no_earlier(next: &Timing, last: &Timing) -> bool {
    next.max_hold.is_none() && next.renews() == last.renews()
}
