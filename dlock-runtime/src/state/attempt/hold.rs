//! The time a lease is held: how long it is to be trusted, when it is renewed, how it is lost.

use std::time::Duration;

use crate::{
    clock::Moment,
    error::{LostCause, StoreError},
    fence::FencingToken,
    options::Timing,
    state::claim::Claim,
};

/// The shortest time between two renewals that a doubt is the reason for, and before the first: hints about the time
/// before the lease may still come, in a quorum from its slower nodes.
pub(super) const BETWEEN_DOUBTS: Duration = Duration::from_millis(250);

/// A lease that was granted at a release is renewed one to two of these later.
const GRANT_STEP: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(super) struct Hold {
    pub(super) token: FencingToken,
    /// When the section was told of the lease, which may run out before that.
    pub(super) since: Moment,
    /// Past it the lease is not to be trusted, whatever the store says.
    pub(super) confirmed: Moment,
    /// The end of `max_hold`, which no renewal moves.
    pub(super) end: Option<Moment>,
    /// When the lease came from the store, to whichever section.
    pub(super) granted_at: Moment,
    pub(super) renew_at: Moment,
    pub(super) renewing: bool,
    pub(super) failure: Option<StoreError>,
    pub(super) doubts: Doubts,
    pub(super) entered: bool,
    /// `true` if the renewer would not look, or not early enough.
    pub(super) unnoted: bool,
}

/// The doubts of others about the lease.
#[derive(Debug)]
pub(super) struct Doubts {
    /// That it may be gone, since the last renewal was sent.
    pub(super) is_raised: bool,
    /// Not before that are they a reason to renew: a client that may publish can raise any number.
    pub(super) next: Moment,
}

impl Hold {
    pub(super) fn new(
        token: FencingToken,
        confirmed: Moment,
        renew_at: Moment,
        now: Moment,
    ) -> Self {
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

    /// `true` if the task knows that it holds the lease.
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
    pub(super) fn look_at(&self, timing: &Timing) -> Moment {
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

    /// The rest of the time for which the lease may be trusted.
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
    pub(super) fn confirm(&mut self, sent: Moment, claim: &Claim) {
        // An answer may be older than the one before: each of them is good for its whole time.
        self.confirmed = self.confirmed.later(sent.plus(claim.validity.asked));
        self.renew_at = renewal_after(sent, claim.ttl);
    }

    pub(super) fn cause_of_expiry(&self, timing: &Timing, now: Moment) -> LostCause {
        if self.end.is_some_and(|end| end.is_reached(now)) {
            return LostCause::MaxHold;
        }
        match &self.failure {
            Some(reason) => LostCause::NotRenewed {
                reason: reason.clone(),
            },
            None if timing.renew => LostCause::Expired,
            None => LostCause::RenewalDisabled,
        }
    }
}

/// A third of the TTL leaves time for two more tries. Up to a 512th less, so that leases which came
/// one after the other fall due together.
pub(super) fn renewal_after(sent: Moment, ttl: Duration) -> Moment {
    let (third, step) = (ttl / 3, (ttl / 512).as_nanos().max(1));
    let past_step = (sent.boot + third).as_nanos() % step;
    let past_step = Duration::from_nanos(u64::try_from(past_step).unwrap_or(0));
    sent.plus(third.saturating_sub(past_step))
}

/// A lease that was granted at a release has a short TTL, most of which may be over: a server that pauses
/// for two seconds would end it. So its own TTL is asked for soon, but a section that is shorter
/// than that asks for nothing. All that come within the same 100 ms fall due together.
pub(super) fn renewal_of_grant(until: Moment, now: Moment) -> Moment {
    let past_step = now.boot.as_nanos() % GRANT_STEP.as_nanos();
    let past_step = Duration::from_nanos(u64::try_from(past_step).unwrap_or(0));
    let soon = (2 * GRANT_STEP).saturating_sub(past_step);
    now.plus(soon.min(until.remaining(now) / 3))
}
