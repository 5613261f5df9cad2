//! Lets other processes go first after a turn, for stores that do not do this themselves.
//!
//! Such a store only notifies a waiter that the lock is free. The next task of this process would send its
//! request before the waiter receives the message, and the process could keep the lock forever. A claim after
//! a turn of [`LONGEST_TURN`] therefore sends its request later: when the release has been answered, and
//! other processes have had time to send theirs. That time is about as long as the release took, which shows
//! the distance to the store, plus the delay of a message. It costs some milliseconds in each turn, whether
//! another process waits or not.

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

/// The maximum time for which messages of some of a quorum's stores wait for those of the others.
const NOTICED_WITHIN: Duration = Duration::from_millis(5);

impl<T> Attempt<T> {
    /// Records that this attempt, which has sent no request yet, follows `last`.
    pub(in crate::state) fn follow(&mut self, last: &Self, context: Context<'_>) {
        let now = context.now;
        self.claim.kept_until = last.kept_for(now).map(|rest| now.plus(rest));
        // A caller that does not wait has one request, which must be sent.
        let may_wait = !context.grants && !self.waiter.is_over(now);
        if !may_wait || !matches!(last.phase, Phase::Leaving) {
            return;
        }
        match last.claim.turn {
            Some(begun) if begun.elapsed(now) > LONGEST_TURN => self.pause(
                TurnPause {
                    after: last.claim.owner,
                    since: now,
                    // The end of the pause if the release gets no answer.
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

    /// Records that the release of `owner` has been answered. Returns whether this attempt has waited for
    /// that.
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
            // Time for a request must remain.
            Some(end) => pause.until.earlier(now.plus(end.remaining(now) / 2)),
            None => pause.until,
        };
        *look_at = until;
        self.claim.pause = Some(TurnPause { until, ..pause });
    }
}
