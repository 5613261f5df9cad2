//! The time a lease is held: how long it is to be trusted, when it is renewed, how it is lost.

use std::time::Duration;

use super::{Attempt, LOOK_AGAIN, Phase};
use crate::{
    clock::Moment,
    error::LostCause,
    fence::FencingToken,
    options::Timing,
    state::{Effect, Loss, Surroundings},
    store::{Renewal, StoreError},
};

#[derive(Debug)]
pub(super) struct Hold {
    pub(super) token: FencingToken,
    pub(super) since: Moment,
    /// Past it the lease is not to be trusted, whatever the store says.
    pub(super) deadline: Moment,
    /// The end of `max_hold`, which no renewal moves.
    end: Option<Moment>,
    renew_at: Option<Moment>,
    renewing: bool,
    failure: Option<StoreError>,
}

impl Attempt {
    /// The store has answered what was sent at `sent` with a grant.
    pub(super) fn hold(
        &mut self,
        token: FencingToken,
        sent: Moment,
        around: Surroundings,
    ) -> Effect {
        let mut hold = Hold {
            token,
            since: around.now,
            deadline: sent,
            end: self
                .timing
                .max_hold
                .map(|max_hold| around.now.plus(max_hold)),
            renew_at: None,
            renewing: false,
            failure: None,
        };
        hold.confirm(sent, &self.timing, self.drift);
        if hold.deadline.is_reached(around.now) {
            // The answer took as long as the lease: it is not to be trusted, so ask again.
            let late = StoreError::timed_out(sent.elapsed(around.now));
            return self.on_failure(late, around);
        }
        self.failures = 0;
        self.keep_until = self
            .timing
            .min_hold
            .map(|min_hold| hold.since.plus(min_hold));
        self.phase = Phase::Holding(hold);
        Effect::Enter
    }

    /// Loses the lease if its deadline has passed.
    pub(in crate::state) fn check(&mut self, now: Moment) -> Effect {
        match &self.phase {
            Phase::Holding(hold) if hold.deadline.is_reached(now) => {
                let cause = hold.cause_of_expiry(&self.timing, now);
                self.lose(cause, now)
            }
            _ => Effect::Nothing,
        }
    }

    pub(super) fn on_tick(&mut self, around: Surroundings) -> Effect {
        let now = around.now;
        if self.check(now) == Effect::Lose {
            return Effect::Lose;
        }
        let Phase::Holding(hold) = &mut self.phase else {
            return Effect::Nothing;
        };
        match hold.renew_at {
            Some(renew_at) if !hold.renewing => {
                if !renew_at.is_reached(now) {
                    return Effect::WaitUntil(renew_at.earlier(hold.deadline));
                }
                hold.renewing = true;
                let then = hold.deadline;
                // Time for a second try has to be left.
                let limit = around
                    .response_limit
                    .min(self.timing.ttl / 3)
                    .min(then.remaining(now));
                self.leaves_traces(now);
                Effect::Renew { limit, then }
            }
            _ => Effect::WaitUntil(hold.deadline),
        }
    }

    pub(super) fn on_renewed(
        &mut self,
        sent: Moment,
        answer: Result<Renewal, StoreError>,
        around: Surroundings,
    ) -> Effect {
        let now = around.now;
        let Phase::Holding(hold) = &mut self.phase else {
            return Effect::Nothing;
        };
        hold.renewing = false;
        match answer {
            Ok(Renewal::Renewed) => {
                hold.failure = None;
                self.failures = 0;
                // Even a good answer does not bring back a lease whose deadline has passed.
                if !hold.deadline.is_reached(now) {
                    hold.confirm(sent, &self.timing, self.drift);
                }
            }
            Ok(Renewal::NotOwner) => return self.lose(LostCause::TakenAway, now),
            Err(error) => {
                hold.failure = Some(error);
                // Even what a store refuses for good may be allowed again in time.
                let pause = self.back_off(LOOK_AGAIN.min(self.timing.ttl / 10), around);
                self.renew_in(pause, now);
            }
        }
        self.on_tick(around)
    }

    fn renew_in(&mut self, pause: Duration, now: Moment) {
        if let Phase::Holding(hold) = &mut self.phase {
            hold.renew_at = Some(now.plus(pause));
        }
    }

    pub(super) fn lose(&mut self, cause: LostCause, now: Moment) -> Effect {
        let Phase::Holding(hold) = &self.phase else {
            return Effect::Nothing;
        };
        let held_for = hold.since.elapsed(now);
        self.phase = Phase::Lost(Loss { cause, held_for });
        Effect::Lose
    }
}

impl Hold {
    /// The store has confirmed the lease by answering what was sent at `sent`.
    fn confirm(&mut self, sent: Moment, timing: &Timing, drift: Duration) {
        let confirmed = sent.plus(timing.ttl.saturating_sub(drift));
        self.deadline = match self.end {
            Some(end) => confirmed.earlier(end),
            None => confirmed,
        };
        // A third of the TTL leaves time for two more tries.
        self.renew_at = timing.renew.then(|| sent.plus(timing.ttl / 3));
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
