//! Events of calls and of single leases, for logs and metrics: one function for each.

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

/// A call was refused before it could ask for anything.
pub(crate) fn not_asked(origin: Origin, error: LockError) -> LockError {
    told(|| {
        metrics::refused(origin.template, error.code());
        let (key, template) = (error.key(), origin.template);
        let site = origin.site.map(tracing::field::display);
        warn!(target: TARGET, %key, site, template, %error, "not acquired");
    });
    error
}

/// A lease of several was lost before the others were there.
pub(crate) fn starts_over(trail: &Trail, error: &LockError) {
    told(|| {
        let key = error.key();
        debug!(target: TARGET, parent: trail.parent(), %key, %error, "starts over");
    });
}

/// The time of day has run ahead of the clocks that count.
pub(crate) fn clock_jumped(ahead: Duration) {
    told(|| {
        let ahead_ms = milliseconds(ahead);
        warn!(target: TARGET, ahead_ms, "time of day jumped: every lease is renewed now");
    });
}

impl LeaseEvents<'_> {
    /// A section has its lease; `origin` says how, unless its token does.
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

    /// Single failures are details; the connection's own events say once what concerns all.
    pub(crate) fn request_failed(self, request: RequestKind, error: &StoreError) {
        told(|| {
            metrics::request_failed(request, error.kind());
            let key = self.key;
            debug!(target: TARGET, parent: self.trail.parent(), %key, %request, %error, "request failed");
        });
    }

    /// A renewal has ended, with an answer or without.
    pub(crate) fn renewed(self, answer: &Result<Renewal, StoreError>) {
        told(|| self.trail.counts().renewed(answer));
    }

    /// The body has not been polled for so long, and its lease is renewed all the same.
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

    pub(crate) fn detached(self) {
        told(|| {
            self.trail.counts().detached();
            let key = self.key;
            debug!(target: TARGET, parent: self.trail.parent(), %key, "caller gone: the section goes on");
        });
    }

    /// The section gives its lease back from now on. Told more than once, the first time counts.
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
                "not released: its TTL has ended by now",
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
                "not released: the store refuses it, so it stays until its TTL",
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
            trace!(target: TARGET, parent: parent, %key, "handed over to the next in this process");
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
                "not released: its runtime ended first, so it stays until its TTL; call `shutdown` before",
            );
        });
    }
}
