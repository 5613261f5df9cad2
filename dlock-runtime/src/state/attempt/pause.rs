//! Lets other processes go first after a turn, where the store does not see to that itself.
//!
//! Such a store only tells a waiter that the lock is free. The next task of this process would ask
//! while the waiter has yet to hear of it, and so have the lock for ever. Hence a claim that comes
//! after a turn of [`LONGEST_TURN`] asks later: when the release has been answered, and others have had
//! the time to ask. That is about as long as the release took, which tells how far away the store is,
//! and what a notice takes besides. It costs some milliseconds in each turn, whether anybody else
//! waits or not.

use std::time::Duration;

use super::{Attempt, Phase, handover::LONGEST_TURN};
use crate::{
    clock::Moment,
    owner::OwnerId,
    random::jittered,
    state::{
        claim::{LOOK_AGAIN, TurnPause},
        event::Context,
    },
};

/// The longest time for which the notices of some of a quorum's stores wait for those of the
/// others.
const NOTICED_WITHIN: Duration = Duration::from_millis(5);

impl<T> Attempt<T> {
    /// This attempt, which has asked for nothing yet, comes after `last`.
    pub(in crate::state) fn follow(&mut self, last: &Self, context: Context<'_>) {
        let now = context.now;
        // A caller that does not wait has one question, which is to be asked.
        let may_wait = !context.grants && !self.waiter.is_over(now);
        if !may_wait || !matches!(last.phase, Phase::Leaving) {
            return;
        }
        match last.claim.turn {
            Some(begun) if begun.elapsed(now) > LONGEST_TURN => self.pause(
                TurnPause {
                    after: last.claim.owner,
                    since: now,
                    // Should the release get no answer.
                    until: now.plus(LOOK_AGAIN),
                },
                now,
            ),
            turn => {
                self.claim.turn = turn;
                if let Some(pause) = last.claim.pause {
                    self.pause(pause, now);
                }
            }
        }
    }

    /// The release of `owner` has been answered; whether this attempt has waited for that.
    pub(in crate::state) fn others_are_told(
        &mut self,
        owner: OwnerId,
        context: Context<'_>,
    ) -> bool {
        let pause = self.claim.pause.filter(|pause| pause.after == owner);
        let Some(pause) = pause else {
            return false;
        };
        let took = pause.since.elapsed(context.now);
        let rest = jittered(took + NOTICED_WITHIN, context.random.next_u64());
        let until = context.now.plus(rest);
        self.pause(TurnPause { until, ..pause }, context.now);
        true
    }

    fn pause(&mut self, pause: TurnPause, now: Moment) {
        let Phase::Waiting { look_at } = &mut self.phase else {
            return;
        };
        let until = match self.waiter.give_up {
            // Time for asking has to be left.
            Some(end) => pause.until.earlier(now.plus(end.remaining(now) / 2)),
            None => pause.until,
        };
        *look_at = until;
        self.claim.pause = Some(TurnPause { until, ..pause });
    }
}
