//! The hand-over to the next waiter of this process: of a valid lease, without a round trip, or of the place
//! in the store's queue.
//!
//! The store sees one owner for the whole time, as if one body took longer. **Safety.** A lease is handed
//! over only while it is valid, and each body under it has a greater fencing token. For the sake of other
//! processes, a series of hand-overs lasts [`LONGEST_TURN`] at most.

use std::time::Duration;

use super::{Attempt, Phase, hold::Hold};
use crate::{
    answer::ALIVE,
    clock::Moment,
    options::Timing,
    state::{event::Context, waiter::LocalWaiter},
};

/// The age, counted from the store's grant, from which a lease is released instead of handed over.
pub(super) const LONGEST_TURN: Duration = Duration::from_millis(10);

impl<T> Attempt<T> {
    /// Returns `true` if `next` can continue with the lease or the place of this attempt, which is active.
    pub(in crate::state) fn can_take_over(
        &self,
        next: &LocalWaiter<T>,
        context: Context<'_>,
    ) -> bool {
        self.suits(next)
            && match &self.phase {
                Phase::Holding(hold) => {
                    context.handover
                        && self.kept_for(context.now).is_none()
                        && self.is_fresh(hold, context.now)
                        && next.may_rely_on(hold.known_since)
                        && next.timing.min_hold.is_none()
                }
                _ => true,
            }
    }

    /// Returns `true` if `next` can use the claim.
    pub(super) fn suits(&self, next: &LocalWaiter<T>) -> bool {
        // A renewal for another body must not be carried out after the request that keeps a `min_hold`.
        next.timing.ttl == self.claim.ttl
            && next.timing.mode == self.claim.mode
            && next.kept.is_none()
            && (next.timing.min_hold.is_none() || !self.claim.is_spent())
    }

    fn is_fresh(&self, hold: &Hold, now: Moment) -> bool {
        hold.is_trusted()
            && !hold.is_bound
            && hold.granted_at.elapsed(now) <= LONGEST_TURN
            && hold.remaining(now) >= self.claim.least()
            && self.claim.next_token(hold.token.fence()).is_some()
    }

    /// Returns `true` if the task has not responded for long: it may never respond again, and must not block
    /// the others forever.
    pub(in crate::state) fn is_absent(&self, now: Moment) -> bool {
        let expected = match &self.phase {
            Phase::Waiting { look_at } => *look_at,
            Phase::Asking { until, .. } => *until,
            Phase::Holding(hold) if !hold.is_entered() => hold.since,
            _ => return false,
        };
        expected.plus(ALIVE).is_reached(now)
    }

    /// Puts `next` in place of this attempt, which waits for its next turn. It keeps a claim that `next`
    /// cannot use, and with it what the store may keep of it.
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

    /// Passes the same claim to `next`.
    pub(in crate::state) fn hand_over(self, next: LocalWaiter<T>, now: Moment) -> Self {
        let look_at = match self.phase {
            Phase::Holding(hold) => {
                let token = self.claim.next_token(hold.token.fence());
                if let Some(token) = token {
                    let kept = looks_no_earlier(&next.timing, &self.waiter.timing);
                    let mut handed = Self::waiting(next, self.claim, now);
                    handed.phase = Phase::Holding(hold.handed(token, !kept, now));
                    return handed;
                }
                now
            }
            Phase::Waiting { look_at } => look_at,
            // The answer was lost with the task that waited for it.
            _ => now,
        };
        Self::waiting(next, self.claim, look_at)
    }
}

/// Returns `true` if the renewer will check early enough for the next body as well.
fn looks_no_earlier(next: &Timing, last: &Timing) -> bool {
    next.max_hold.is_none() && next.renews() == last.renews()
}
