//! What the next waiter of this process takes over from the attempt before it: a lease that is still
//! valid, without a round trip, or the place in the store's queue.
//!
//! The store sees one owner for all the time, as if one section took longer. **Safety.** A lease is
//! handed over only while it is valid, and each section under it has a greater fencing token. For
//! the sake of other processes that goes on for [`LONGEST_TURN`] at most.

use std::time::Duration;

use super::{Attempt, Hold, Phase};
use crate::{
    clock::Moment,
    options::Timing,
    state::{Surroundings, waiter::Waiter},
    store::GRANT_TTL,
};

/// How long after it came from the store a lease is given back rather than handed over.
const LONGEST_TURN: Duration = Duration::from_millis(10);

impl<T> Attempt<T> {
    /// Whether `next` can go on with what this attempt leaves.
    pub(in crate::state) fn can_pass_to(&self, next: &Waiter<T>, around: Surroundings<'_>) -> bool {
        if next.timing.ttl != self.claim.ttl {
            return false;
        }
        match &self.phase {
            Phase::Asking { .. } | Phase::Waiting { .. } => true,
            Phase::Holding(hold) => {
                around.handover
                    && self.kept_for(around.now).is_none()
                    && self.is_fresh(hold, around.now)
                    // The rest of one `min_hold` must not be mixed up with a renewal for another.
                    && next.timing.min_hold.is_none()
            }
            Phase::Lost(_) | Phase::Leaving => false,
        }
    }

    fn is_fresh(&self, hold: &Hold, now: Moment) -> bool {
        // Enough for a renewal, and for another if the first gets no answer.
        let least = self.claim.ttl.min(GRANT_TTL) / 3;
        hold.failure.is_none()
            && hold.came.elapsed(now) <= LONGEST_TURN
            && hold.remaining(now) >= least
            && self.claim.next_token(hold.token.fence()).is_some()
    }

    /// The same claim in the hands of `next`.
    pub(in crate::state) fn pass_to(self, next: Waiter<T>, now: Moment) -> Self {
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

/// Whether the keeper will look early enough for the next section as well.
fn looks_no_earlier(next: &Timing, last: &Timing) -> bool {
    next.max_hold.is_none() && next.renew == last.renew
}
