//! The time for which a lease is held: its validity, when it is renewed, and how it is lost.

use std::time::Duration;

use crate::{
    clock::Moment,
    error::{LostCause, StoreError},
    fence::FencingToken,
    options::Timing,
    state::claim::Claim,
};

/// The minimum time between two renewals because of a doubt, and before the first one. Messages about the
/// time before the lease may still arrive, in a quorum from its slower nodes.
pub(super) const BETWEEN_DOUBTS: Duration = Duration::from_millis(250);

/// A lease that was granted at a release is renewed after one to two of these.
const GRANT_STEP: Duration = Duration::from_millis(100);

#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "four facts that do not depend on each other"
)]
pub(super) struct Hold {
    pub(super) token: FencingToken,
    /// When the body received the lease, which may expire before that.
    pub(super) since: Moment,
    /// After this time the lease is not valid, whatever the store answers.
    pub(super) confirmed: Moment,
    /// The end of `max_hold`, which a renewal does not move.
    pub(super) end: Option<Moment>,
    /// When the store granted the lease, to whichever attempt.
    pub(super) granted_at: Moment,
    /// The store had the lease at some time after this moment: before the request was sent that was granted, or the
    /// last one before the grant.
    pub(super) known_since: Moment,
    pub(super) renew_at: Moment,
    pub(super) renewing: bool,
    pub(super) failure: Option<StoreError>,
    pub(super) doubts: Doubts,
    pub(super) entered: bool,
    /// `true` if the renewer would not check, or not early enough.
    pub(super) unnoted: bool,
    /// `true` if something outside this process, such as a transaction, depends on this lease of this owner, and
    /// perhaps for longer than the body.
    pub(super) is_bound: bool,
}

/// Messages that cast doubt on the lease.
#[derive(Debug)]
pub(super) struct Doubts {
    /// `true` if the lease may be gone, according to a message since the last renewal was sent.
    pub(super) is_raised: bool,
    /// `true` until the renewal is answered that was sent because of such a message.
    pub(super) is_checked: bool,
    /// Before this time, a doubt does not cause a renewal: a client that may publish can send any number of
    /// messages.
    pub(super) next: Moment,
}

impl Doubts {
    /// Returns `true` if no message since the last confirmation says that the lease may be gone.
    pub(super) fn are_none(&self) -> bool {
        !self.is_raised && !self.is_checked
    }
}

impl Hold {
    /// Creates a lease that the store has had since `sent`, for `validity` from then on.
    pub(super) fn new(
        token: FencingToken,
        (sent, validity): (Moment, Duration),
        renew_at: Moment,
        now: Moment,
    ) -> Self {
        Self {
            token,
            since: now,
            confirmed: sent.plus(validity),
            end: None,
            granted_at: now,
            known_since: sent,
            renew_at,
            renewing: false,
            failure: None,
            doubts: Doubts {
                is_raised: false,
                is_checked: false,
                next: now.plus(BETWEEN_DOUBTS),
            },
            entered: false,
            unnoted: true,
            is_bound: false,
        }
    }

    /// Returns `true` if the task knows that it holds the lease.
    pub(super) fn is_entered(&self) -> bool {
        self.entered
    }

    /// Returns `true` if nothing says that the lease may be gone: no message, and no renewal that has failed.
    pub(super) fn is_trusted(&self) -> bool {
        self.failure.is_none() && self.doubts.are_none()
    }

    /// Returns the deadline, after which the body must not continue.
    pub(super) fn deadline(&self) -> Moment {
        match self.end {
            Some(end) => self.confirmed.earlier(end),
            None => self.confirmed,
        }
    }

    /// Returns when the lease has to be renewed, or is lost.
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

    /// Returns the remaining validity of the lease.
    pub(super) fn remaining(&self, now: Moment) -> Duration {
        self.confirmed.remaining(now)
    }

    /// Returns the same lease for the next body.
    ///
    /// Set `unnoted` if the renewer has to check earlier for it than for the last one.
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

    /// Records that the store has confirmed the lease with its answer to the request that was sent at `sent`.
    pub(super) fn confirm(&mut self, sent: Moment, claim: &Claim) {
        // An answer may be older than the previous one. Each of them is valid for its whole time.
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

/// Returns when a lease is renewed: after a third of the TTL, which leaves time for two more tries. Up to a
/// 512th earlier, so that leases that were acquired shortly after each other fall due together.
pub(super) fn renewal_after(sent: Moment, ttl: Duration) -> Moment {
    let (third, step) = (ttl / 3, (ttl / 512).as_nanos().max(1));
    let past_step = (sent.boot + third).as_nanos() % step;
    let past_step = Duration::from_nanos(u64::try_from(past_step).unwrap_or(0));
    sent.plus(third.saturating_sub(past_step))
}

/// Returns when a lease that was granted at a release is renewed.
///
/// It has a short TTL, most of which may be over: a server that pauses for two seconds would end it. Its own
/// TTL is therefore requested soon, but a body that is shorter than that sends no request. All leases that
/// are granted within the same 100 ms fall due together.
pub(super) fn renewal_of_grant(until: Moment, now: Moment) -> Moment {
    let past_step = now.boot.as_nanos() % GRANT_STEP.as_nanos();
    let past_step = Duration::from_nanos(u64::try_from(past_step).unwrap_or(0));
    let soon = (2 * GRANT_STEP).saturating_sub(past_step);
    now.plus(soon.min(until.remaining(now) / 3))
}
