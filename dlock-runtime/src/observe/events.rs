//! The events of calls and of single leases, for logs and metrics: one function for each event.

use std::time::Duration;

use tracing::{debug, trace, warn};

use super::{
    metrics,
    trail::Trail,
    values::{LeaseOrigin, RequestKind},
};
use crate::{
    answer::Renewal,
    clock::Moment,
    error::{LockError, LostCause, StoreError},
    fence::FencingToken,
    key::LockKey,
    site::Origin,
    state::Loss,
    telemetry::{TARGET, milliseconds, told},
};

/// The events of one lease, as a part of its call.
#[derive(Clone, Copy)]
pub(crate) struct LeaseEvents<'a> {
    pub(crate) key: &'a LockKey,
    pub(crate) trail: &'a Trail,
}

/// Reports a call that was refused before its first request.
pub(crate) fn not_asked(origin: Origin, error: LockError) -> LockError {
    told(|| {
        metrics::refused(origin.template, origin.mode, error.code());
        let (key, template) = (error.key(), origin.template);
        let site = origin.site.map(tracing::field::display);
        warn!(target: TARGET, %key, site, template, %error, "not acquired");
    });
    error
}

/// Reports that one of several leases was lost before the others were acquired.
pub(crate) fn starts_over(trail: &Trail, error: &LockError) {
    told(|| {
        let key = error.key();
        debug!(target: TARGET, parent: trail.parent(), %key, %error, "acquisition starts over: one of its leases was lost");
    });
}

/// Reports that the time of day ran ahead of the monotonic clocks.
pub(crate) fn clock_jumped(ahead: Duration) {
    told(|| {
        let ahead_ms = milliseconds(ahead);
        warn!(target: TARGET, ahead_ms, "time of day jumped ahead: all leases are renewed now");
    });
}

impl LeaseEvents<'_> {
    /// Reports an acquired lease. `origin` is its origin, unless the token shows a hand-over.
    pub(crate) fn acquired(self, token: FencingToken, origin: LeaseOrigin, waited: Duration) {
        told(|| {
            let origin = if token.is_first_of_lease() {
                origin
            } else {
                LeaseOrigin::HandedOver
            };
            self.trail.counts().origin(origin);
            let (key, waited_ms) = (self.key, milliseconds(waited));
            let (origin, token) = (origin.name(), token.to_i64());
            debug!(
                target: TARGET,
                parent: self.trail.parent(),
                %key,
                token,
                waited_ms,
                origin,
                "acquired",
            );
        });
    }

    /// Reports a failed request at level DEBUG. The connection's own events report once a failure that affects
    /// all requests.
    pub(crate) fn request_failed(self, request: RequestKind, error: &StoreError) {
        told(|| {
            metrics::request_failed(request, error.kind());
            let key = self.key;
            debug!(target: TARGET, parent: self.trail.parent(), %key, %request, %error, "request failed");
        });
    }

    /// Reports the end of a renewal, with or without an answer.
    pub(crate) fn renewed(self, answer: &Result<Renewal, StoreError>) {
        told(|| self.trail.counts().renewed(answer));
    }

    /// Reports that the body has not been polled for this time. Its lease is still renewed.
    pub(crate) fn stalled(self, since: Duration) {
        told(|| {
            self.trail.counts().stalled();
            let (key, since_ms) = (self.key, milliseconds(since));
            warn!(
                target: TARGET,
                parent: self.trail.parent(),
                %key,
                since_ms,
                "body not polled for longer than its TTL: its thread is blocked or its future is not awaited",
            );
        });
    }

    /// Reports that the body's runtime has begun no blocking work for this time, and that threads of it wait for the lock.
    pub(crate) fn pool_is_full(self, since: Duration) {
        told(|| {
            let (key, since_ms) = (self.key, milliseconds(since));
            warn!(
                target: TARGET,
                parent: self.trail.parent(),
                %key,
                since_ms,
                "no thread is left in the blocking pool of the holder's runtime, while one waits for this lock: `tokio::fs` and `spawn_blocking` wait too",
            );
        });
    }

    pub(crate) fn detached(self) {
        told(|| {
            self.trail.counts().detached();
            let key = self.key;
            debug!(target: TARGET, parent: self.trail.parent(), %key, "call cancelled: the body continues without it");
        });
    }

    /// Reports that the release of the lease begins. Only the first call counts.
    pub(crate) fn left(self, now: Moment) {
        told(|| self.trail.counts().left(now));
    }

    pub(crate) fn kept(self, rest: Duration) {
        told(|| {
            let (key, rest_ms) = (self.key, milliseconds(rest));
            debug!(target: TARGET, parent: self.trail.parent(), %key, rest_ms, "kept for its min_hold");
        });
    }

    pub(crate) fn release_given_up(self) {
        told(|| {
            self.trail.counts().unreleased("no-answer");
            let key = self.key;
            warn!(
                target: TARGET,
                parent: self.trail.parent(),
                %key,
                "not released: the store did not answer before the TTL ended",
            );
        });
    }

    pub(crate) fn release_refused(self, error: &StoreError) {
        told(|| {
            self.trail.counts().unreleased("refused");
            let key = self.key;
            warn!(
                target: TARGET,
                parent: self.trail.parent(),
                %key,
                %error,
                "not released: the store refused the release; the lock stays until its TTL ends",
            );
        });
    }

    pub(crate) fn lost(self, loss: &Loss) {
        told(|| {
            self.trail.counts().lost(loss);
            let (key, parent) = (self.key, self.trail.parent());
            if loss.cause == LostCause::ShutDown {
                warn!(target: TARGET, parent: parent, %key, "lease given up by the manager's shutdown");
            } else {
                let (cause, held_for) = (&loss.cause, loss.held_for);
                warn!(target: TARGET, parent: parent, %key, %cause, ?held_for, "lease lost");
            }
        });
    }

    pub(crate) fn handed_over(self) {
        told(|| {
            let (key, parent) = (self.key, self.trail.parent());
            trace!(target: TARGET, parent: parent, %key, "handed over to the next task of this process");
        });
    }

    pub(crate) fn lost_but_finished(self, error: &LockError) {
        told(|| {
            let (key, parent) = (self.key, self.trail.parent());
            warn!(target: TARGET, parent: parent, %key, %error, "body finished without its lease");
        });
    }

    pub(crate) fn abandoned(self) {
        told(|| {
            self.trail.counts().unreleased("no-runtime");
            let key = self.key;
            warn!(
                target: TARGET,
                parent: self.trail.parent(),
                %key,
                "not released: the runtime ended first; the lock stays until its TTL ends. Call `shutdown` before the runtime ends",
            );
        });
    }
}
