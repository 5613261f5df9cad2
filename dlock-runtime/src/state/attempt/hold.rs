//! The time a lease is held: how long it is to be trusted, when it is renewed, how it is lost.

use std::time::Duration;

use super::{Attempt, EarlyHint, Phase};
use crate::{
    clock::Moment,
    error::LostCause,
    fence::FencingToken,
    options::Timing,
    state::{
        Context, Effect, Loss, RenewAt,
        claim::{Claim, LOOK_AGAIN},
    },
    store::{Renewal, StoreError, StoreErrorKind},
};

/// Between two renewals for the reason that somebody has doubted the lease, and before the first: a lease
/// that has just come may still be told about what was before it. In a quorum it is, by its slower nodes.
const BETWEEN_DOUBTS: Duration = Duration::from_millis(250);

/// A lease that was granted at a release is renewed one to two of these later.
const GRANT_STEP: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(super) struct Hold {
    pub(super) token: FencingToken,
    /// When the section was told of the lease, which may run out before that.
    pub(super) since: Moment,
    /// Past it the lease is not to be trusted, whatever the store says.
    confirmed: Moment,
    /// The end of `max_hold`, which no renewal moves.
    end: Option<Moment>,
    /// When the lease came from the store, to whichever section.
    pub(super) granted_at: Moment,
    pub(super) renew_at: Moment,
    renewing: bool,
    pub(super) failure: Option<StoreError>,
    doubts: Doubts,
    entered: bool,
    /// Whether the renewer would not look, or not early enough.
    unnoted: bool,
}

/// What others have said of the lease.
#[derive(Debug)]
struct Doubts {
    /// That it may be gone, since the last renewal was sent.
    is_raised: bool,
    /// Not before that are they a reason to renew: whoever may publish can raise any number.
    next: Moment,
}

impl Hold {
    fn new(token: FencingToken, confirmed: Moment, renew_at: Moment, now: Moment) -> Self {
        Self {
            token,
            since: now,
            confirmed,
            end: None,
            granted_at: now,
            renew_at,
            renewing: false,
            failure: None,
            doubts: Doubts {
                is_raised: false,
                next: now.plus(BETWEEN_DOUBTS),
            },
            entered: false,
            unnoted: true,
        }
    }

    /// Whether the section knows that it holds the lease.
    pub(super) fn is_entered(&self) -> bool {
        self.entered
    }

    /// Past it the section must not go on.
    pub(super) fn deadline(&self) -> Moment {
        match self.end {
            Some(end) => self.confirmed.earlier(end),
            None => self.confirmed,
        }
    }

    /// When the lease has to be renewed, or is lost.
    fn look_at(&self, timing: &Timing) -> Moment {
        if !timing.renews() || self.renewing {
            return self.deadline();
        }
        let renew_at = if self.doubts.is_raised {
            self.renew_at.earlier(self.doubts.next)
        } else {
            self.renew_at
        };
        renew_at.earlier(self.deadline())
    }

    /// What is left of the time for which the lease may be trusted.
    pub(super) fn remaining(&self, now: Moment) -> Duration {
        self.confirmed.remaining(now)
    }

    /// The same lease for the next section.
    ///
    /// `unnoted` if the renewer has to look earlier for it than for the last one.
    pub(super) fn handed(self, token: FencingToken, unnoted: bool, now: Moment) -> Self {
        Self {
            token,
            since: now,
            end: None,
            entered: false,
            unnoted: self.unnoted || unnoted,
            ..self
        }
    }

    /// The store has confirmed the lease by answering what was sent at `sent`.
    fn confirm(&mut self, sent: Moment, claim: &Claim) {
        // An answer may be older than the one before: each of them is good for its whole time.
        self.confirmed = self.confirmed.later(sent.plus(claim.validity.asked));
        self.renew_at = renewal_after(sent, claim.ttl);
    }

    fn cause_of_expiry(&self, timing: &Timing, now: Moment) -> LostCause {
        if self.end.is_some_and(|end| end.is_reached(now)) {
            return LostCause::MaxHold;
        }
        match &self.failure {
            Some(reason) => LostCause::NotRenewed {
                reason: reason.clone(),
            },
            None if timing.renew => LostCause::Expired,
            None => LostCause::NotToBeRenewed,
        }
    }
}

/// A third of the TTL leaves time for two more tries. Up to a 512th less, so that leases which came
/// one after the other fall due together.
fn renewal_after(sent: Moment, ttl: Duration) -> Moment {
    let (third, step) = (ttl / 3, (ttl / 512).as_nanos().max(1));
    let past_step = (sent.boot + third).as_nanos() % step;
    let past_step = Duration::from_nanos(u64::try_from(past_step).unwrap_or(0));
    sent.plus(third.saturating_sub(past_step))
}

/// A lease that was granted at a release has a short TTL, most of which may be over: a server that pauses
/// for two seconds would end it. So its own TTL is asked for soon, but a section that is shorter
/// than that asks for nothing. All that come within the same 100 ms fall due together.
fn renewal_of_grant(until: Moment, now: Moment) -> Moment {
    let past_step = now.boot.as_nanos() % GRANT_STEP.as_nanos();
    let past_step = Duration::from_nanos(u64::try_from(past_step).unwrap_or(0));
    let soon = (2 * GRANT_STEP).saturating_sub(past_step);
    now.plus(soon.min(until.remaining(now) / 3))
}

impl<T> Attempt<T> {
    pub(super) fn holding(&self) -> Option<&Hold> {
        match &self.phase {
            Phase::Holding(hold) => Some(hold),
            _ => None,
        }
    }

    /// The store has answered what was sent at `sent` with a grant.
    pub(super) fn hold(&mut self, fence: u64, sent: Moment, context: Context<'_>) -> Effect {
        let now = context.now;
        let Some(token) = self.claim.next_token(fence) else {
            return self.on_failure(sent, no_token(fence), None, context);
        };
        let confirmed = sent.plus(self.claim.validity.asked);
        if confirmed.is_reached(now) {
            // The answer took as long as the lease: it is not to be trusted, so ask again.
            let late = StoreError::timed_out(sent.elapsed(now));
            return self.on_failure(sent, late, None, context);
        }
        self.claim.succeeded();
        let renew_at = renewal_after(sent, self.claim.ttl);
        self.phase = Phase::Holding(Hold {
            granted_at: self.claim.granted_at(fence, now),
            ..Hold::new(token, confirmed, renew_at, now)
        });
        self.enter(now)
    }

    /// The store has let us know that it has handed us the lease.
    pub(super) fn on_grant(&mut self, fence: u64, now: Moment) -> Effect {
        match &mut self.phase {
            Phase::Asking { news, .. } => {
                *news = Some(EarlyHint::Granted { fence });
                Effect::Nothing
            }
            Phase::Waiting { look_at } => {
                let granted = self.claim.granted_until(fence);
                // A lease that is not to be renewed must begin with its own TTL.
                let renewed = self.waiter.timing.renew;
                let least = self.claim.least();
                let believed = granted.filter(|until| renewed && until.remaining(now) >= least);
                match (believed, self.claim.next_token(fence)) {
                    (Some(until), Some(token)) => {
                        let renew_at = renewal_of_grant(until, now);
                        self.phase = Phase::Holding(Hold {
                            granted_at: self.claim.granted_at(fence, now),
                            ..Hold::new(token, until, renew_at, now)
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

    /// Somebody says that the lease may be gone: it was taken away by hand, say. The store knows, and
    /// is asked by a renewal at once.
    ///
    /// By itself this moves no deadline, and one that is not to be renewed is left alone: to ask for
    /// it would prolong it in the store.
    pub(super) fn on_doubt(&mut self, context: Context<'_>) -> Effect {
        let Phase::Holding(hold) = &mut self.phase else {
            return Effect::Nothing;
        };
        hold.doubts.is_raised = true;
        // Else its task has yet to look, and the renewer is told when it has.
        if hold.entered {
            return self.on_tick(context);
        }
        hold.unnoted = true;
        Effect::Nothing
    }

    /// The task looks for the first time at a lease that it was handed.
    pub(super) fn on_lease(&mut self, now: Moment) -> Effect {
        match &self.phase {
            Phase::Holding(hold) if hold.remaining(now) < self.claim.least() => {
                // It has not been used for a while: asking tells whether it is still ours.
                self.phase = Phase::Waiting { look_at: now };
                Effect::Nothing
            }
            _ => self.enter(now),
        }
    }

    /// The section begins.
    fn enter(&mut self, now: Moment) -> Effect {
        let timing = &self.waiter.timing;
        let Phase::Holding(hold) = &mut self.phase else {
            return Effect::Nothing;
        };
        hold.entered = true;
        hold.since = now;
        // What is only tried has no body yet whose time could run.
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

    /// The body begins of a section whose lease has been waiting for others.
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
        let Phase::Holding(hold) = &mut self.phase else {
            return Effect::Nothing;
        };
        if !hold.entered {
            // A task that does not look is not to keep the lease from others for ever.
            hold.unnoted = true;
            return Effect::Nothing;
        }
        let look_at = hold.look_at(&self.waiter.timing);
        if !look_at.is_reached(now) {
            return Effect::WaitUntil(look_at);
        }
        hold.renewing = true;
        if std::mem::take(&mut hold.doubts.is_raised) {
            hold.doubts.next = now.plus(BETWEEN_DOUBTS);
        }
        let then = hold.deadline();
        // Time for a second try has to be left. With more of it the answer is waited for longer: one that
        // comes late is worth more than another request to a server that has too many.
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
                self.claim.succeeded();
                // Even a good answer does not bring back a lease whose deadline has passed.
                if !hold.deadline().is_reached(now) {
                    hold.confirm(sent, &self.claim);
                }
            }
            // What was asked for before this lease came is no news of it.
            Ok(Renewal::NotOwner) if hold.granted_at.is_reached(sent) => {
                return self.lose(LostCause::TakenAway, now);
            }
            Ok(Renewal::NotOwner) => {}
            // Only the parent of this process can renew it.
            Err(error) if error.kind() == StoreErrorKind::Forked => {
                return self.lose(LostCause::OtherProcess, now);
            }
            Err(error) => {
                hold.failure = Some(error);
                // Even what a store refuses for good may be allowed again in time.
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
            // Its section has not begun, and asks again.
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
        format!("the store counted a fence of {fence}, which makes no fencing token"),
    )
}
