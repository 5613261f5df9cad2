//! An attempt that holds a lease: how the lease is granted, doubted, renewed and lost.

use super::{
    Attempt, EarlyHint, Phase,
    hold::{BETWEEN_DOUBTS, Hold, renewal_after, renewal_of_grant},
};
use crate::{
    answer::Renewal,
    clock::Moment,
    error::{LostCause, StoreError, StoreErrorKind},
    fence::is_far_ahead,
    state::{
        claim::LOOK_AGAIN,
        event::{Context, Effect, Loss, RenewAt},
    },
};

impl<T> Attempt<T> {
    pub(super) fn holding(&self) -> Option<&Hold> {
        match &self.phase {
            Phase::Holding(hold) => Some(hold),
            _ => None,
        }
    }

    /// Records that the store has granted the request that was sent at `sent`.
    pub(super) fn hold(&mut self, fence: u64, sent: Moment, context: Context<'_>) -> Effect {
        let now = context.now;
        let Some(token) = self.claim.next_token(fence) else {
            return self.on_failure(sent, no_token(fence), None, context);
        };
        let validity = self.claim.validity.asked;
        if sent.plus(validity).is_reached(now) {
            // The answer took as long as the lease: the lease is not valid, so send another request.
            let late = StoreError::timed_out(sent.elapsed(now));
            return self.on_failure(sent, late, None, context);
        }
        self.claim.succeeded();
        let renew_at = renewal_after(sent, self.claim.ttl);
        self.phase = Phase::Holding(Hold {
            granted_at: self.claim.granted_at(fence, now),
            ..Hold::new(token, (sent, validity), renew_at, now)
        });
        self.enter(now)
    }

    /// Records a wake-up message: the store has granted the lease to this claim.
    pub(super) fn on_grant(&mut self, fence: u64, number: u64, now: Moment) -> Effect {
        if fence == 0 {
            // A message about an earlier grant may come after this one.
            self.claim.forgotten();
        }
        match &mut self.phase {
            Phase::Asking { news, .. } => {
                // A later message does not take back that the lease may be gone.
                if !news.is_some_and(EarlyHint::is_doubt) {
                    *news = Some(EarlyHint::Granted { fence, number });
                }
                Effect::Nothing
            }
            Phase::Waiting { look_at } => {
                let validity = self.claim.validity.granted;
                let least = self.claim.least();
                let refreshed = self.claim.refreshed_before(number);
                let believed = refreshed.filter(|&sent| {
                    // A lease without renewal must begin with its own TTL.
                    self.waiter.timing.renew
                        && sent.plus(validity).remaining(now) >= least
                        && self.waiter.may_rely_on(sent)
                });
                // A forged message could make all later tokens too small. The fence of a store whose clock was once wrong is
                // accepted from its answer.
                let token = self.claim.next_token(fence);
                let token = token.filter(|_| !is_far_ahead(fence));
                match (believed, token) {
                    (Some(sent), Some(token)) => {
                        let renew_at = renewal_of_grant(sent.plus(validity), now);
                        self.phase = Phase::Holding(Hold {
                            granted_at: self.claim.granted_at(fence, now),
                            ..Hold::new(token, (sent, validity), renew_at, now)
                        });
                    }
                    _ => *look_at = look_at.earlier(now),
                }
                self.claim.leaves_traces(now);
                Effect::Wake
            }
            // A release that failed may be sent again.
            Phase::Leaving => Effect::Wake,
            _ => Effect::Nothing,
        }
    }

    /// Handles a message that the lease may be gone, for example because an operator has released it by
    /// force. A renewal at once shows whether it is.
    ///
    /// The message itself moves no deadline. A lease without renewal is left alone: a request would extend it
    /// in the store.
    pub(super) fn on_doubt(&mut self, context: Context<'_>) -> Effect {
        self.claim.forgotten();
        let Phase::Holding(hold) = &mut self.phase else {
            return Effect::Nothing;
        };
        hold.doubts.is_raised = true;
        // Otherwise its task has yet to see the lease, and the renewer is notified then.
        if hold.entered {
            return self.on_tick(context);
        }
        hold.unnoted = true;
        Effect::Nothing
    }

    /// Handles the first time that the task sees a lease that was handed to it.
    pub(super) fn on_lease(&mut self, now: Moment) -> Effect {
        match &self.phase {
            // It may be gone, or has not been used for a while: a request shows whether it is still held. A lease without renewal
            // must begin with its whole TTL, and a request begins it anew.
            Phase::Holding(hold)
                if !hold.is_trusted()
                    || hold.remaining(now) < self.claim.least()
                    || !self.waiter.timing.renew =>
            {
                self.phase = Phase::Waiting { look_at: now };
                Effect::Nothing
            }
            _ => self.enter(now),
        }
    }

    /// Records that the body begins.
    fn enter(&mut self, now: Moment) -> Effect {
        let timing = &self.waiter.timing;
        let Phase::Holding(hold) = &mut self.phase else {
            return Effect::Nothing;
        };
        hold.entered = true;
        hold.since = now;
        // A lease on trial has no body yet whose time could run.
        let max_hold = timing.max_hold.filter(|_| !timing.on_trial);
        hold.end = max_hold.map(|max_hold| now.plus(max_hold));
        self.claim.spend(hold.token);
        let renew_at = std::mem::take(&mut hold.unnoted).then(|| RenewAt {
            owner: self.claim.owner,
            at: hold.look_at(timing),
        });
        if !timing.on_trial {
            self.keep();
        }
        Effect::Enter { renew_at }
    }

    /// Records that a body begins whose lease has waited for other keys.
    pub(super) fn begin_max_hold(&mut self, now: Moment) -> Option<RenewAt> {
        let timing = &self.waiter.timing;
        let Phase::Holding(hold) = &mut self.phase else {
            return None;
        };
        hold.end = Some(now.plus(timing.max_hold?));
        Some(RenewAt {
            owner: self.claim.owner,
            at: hold.look_at(timing),
        })
    }

    /// Loses the lease if its deadline has passed.
    pub(in crate::state) fn check(&mut self, now: Moment) -> Effect {
        match &self.phase {
            Phase::Holding(hold) if hold.entered && hold.deadline().is_reached(now) => {
                let cause = hold.cause_of_expiry(&self.waiter.timing, now);
                self.lose(cause, now)
            }
            _ => Effect::Nothing,
        }
    }

    pub(super) fn on_tick(&mut self, context: Context<'_>) -> Effect {
        let now = context.now;
        if self.check(now) == Effect::Lose {
            return Effect::Lose;
        }
        let give_back_at = self.give_back_at();
        let Phase::Holding(hold) = &mut self.phase else {
            return Effect::Nothing;
        };
        if let Some(at) = give_back_at {
            // A task that does not respond must not keep the lease from others forever.
            hold.unnoted = true;
            let owner = self.claim.owner;
            return if at.is_reached(now) {
                Effect::GiveBack { owner }
            } else {
                Effect::WaitUntil(at)
            };
        }
        let look_at = hold.look_at(&self.waiter.timing);
        if !look_at.is_reached(now) {
            return Effect::WaitUntil(look_at);
        }
        hold.renewing = true;
        if std::mem::take(&mut hold.doubts.is_raised) {
            hold.doubts.is_checked = true;
            hold.doubts.next = now.plus(BETWEEN_DOUBTS);
        }
        let then = hold.deadline();
        // Time for a second try must remain. If there is more, the answer is awaited for longer: a late
        // answer is more useful than another request to an overloaded server.
        let left = then.remaining(now);
        let usual = context.response_limit.min(self.claim.ttl / 3);
        let limit = usual.max(left / 2).min(left);
        self.claim.leaves_traces(now);
        Effect::Renew {
            owner: self.claim.owner,
            limit,
            then,
        }
    }

    pub(super) fn on_renewed(
        &mut self,
        sent: Moment,
        answer: Result<Renewal, StoreError>,
        context: Context<'_>,
    ) -> Effect {
        let now = context.now;
        let Phase::Holding(hold) = &mut self.phase else {
            return Effect::Nothing;
        };
        hold.renewing = false;
        match answer {
            Ok(Renewal::Renewed) => {
                hold.failure = None;
                hold.doubts.is_checked = false;
                self.claim.succeeded();
                // Even a positive answer does not restore a lease whose deadline has passed.
                if !hold.deadline().is_reached(now) {
                    hold.confirm(sent, &self.claim);
                }
            }
            // Only a renewal that was sent after this lease was granted says anything about it.
            Ok(Renewal::NotOwner) if hold.granted_at.is_reached(sent) => {
                return self.lose(LostCause::Revoked, now);
            }
            Ok(Renewal::NotOwner) => {}
            // Only the parent of this process can renew it.
            Err(error) if error.kind() == StoreErrorKind::Forked => {
                return self.lose(LostCause::OtherProcess, now);
            }
            Err(error) => {
                hold.failure = Some(error);
                // Even a permanent refusal may end in time, for example when permissions change.
                let longest = LOOK_AGAIN.min(self.claim.ttl / 10);
                hold.renew_at = now.plus(self.claim.back_off(longest, context.random));
            }
        }
        self.on_tick(context)
    }

    pub(super) fn lose(&mut self, cause: LostCause, now: Moment) -> Effect {
        let Phase::Holding(hold) = &self.phase else {
            return Effect::Nothing;
        };
        if !hold.entered {
            // Its body has not begun, and the attempt sends another request.
            self.claim.forgotten();
            self.phase = Phase::Waiting { look_at: now };
            return Effect::Wake;
        }
        let held_for = hold.since.elapsed(now);
        self.phase = Phase::Lost(Loss { cause, held_for });
        Effect::Lose
    }
}

fn no_token(fence: u64) -> StoreError {
    StoreError::new(
        StoreErrorKind::BadAnswer,
        format!("the store returned the fence {fence}, which is not a valid fencing token"),
    )
}
