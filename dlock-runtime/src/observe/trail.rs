//! The span and the metrics of one call. All events of its attempts belong to it.

use std::time::Duration;

use tracing::{Span, debug, field, info, info_span, warn};

use super::metrics::CallCounts;
use crate::{
    clock::Moment,
    error::LockError,
    fence::FencingToken,
    key::{LockKey, LockKeys},
    options::Wait,
    site::{LockSite, Origin},
    telemetry::{TARGET, milliseconds, told},
};

#[derive(Clone)]
pub(crate) struct Trail {
    /// Open from the first request until the last lease is released.
    span: Span,
    /// The caller's span, if no subscriber records the span of the call. A filter for warnings must not
    /// separate them from the caller's request.
    caller: Option<Span>,
    counts: CallCounts,
    site: Option<&'static LockSite>,
}

impl Trail {
    fn begin(key: &LockKey, origin: Origin) -> Self {
        let span = info_span!(
            target: TARGET,
            "lock",
            %key,
            keys = field::Empty,
            site = field::Empty,
            template = field::Empty,
            mode = origin.mode.name(),
            token = field::Empty,
            waited_ms = field::Empty,
        );
        if let Some(site) = origin.site {
            span.record("site", field::display(site));
        }
        if let Some(template) = origin.template {
            span.record("template", template);
        }
        Self {
            caller: span.is_disabled().then(Span::current),
            span,
            counts: CallCounts::begin(origin.template, origin.mode),
            site: origin.site,
        }
    }

    /// The span in which the body runs.
    pub(crate) fn span(&self) -> &Span {
        &self.span
    }

    /// The annotated function, if this is a call of one.
    pub(crate) fn site(&self) -> Option<&'static LockSite> {
        self.site
    }

    pub(super) fn parent(&self) -> &Span {
        self.caller.as_ref().unwrap_or(&self.span)
    }

    pub(super) fn counts(&self) -> &CallCounts {
        &self.counts
    }
}

/// A call that has not acquired its lock yet. Dropping it reports that the call was cancelled.
pub(crate) struct Asking {
    trail: Trail,
    key: LockKey,
    has_ended: bool,
}

impl Asking {
    pub(crate) fn for_one(key: &LockKey, origin: Origin) -> Self {
        Self {
            trail: Trail::begin(key, origin),
            key: key.clone(),
            has_ended: false,
        }
    }

    /// The same for several keys, which are recorded in `keys`.
    pub(crate) fn for_several(keys: &LockKeys, origin: Origin) -> Self {
        let asking = Self::for_one(keys.first(), origin);
        asking.trail.span.record("keys", field::display(keys));
        asking
    }

    pub(crate) fn trail(&self) -> &Trail {
        &self.trail
    }

    /// Reports that the call acquired all of its leases at `now`. The token is that of its first key.
    pub(crate) fn entered(mut self, token: FencingToken, waited: Duration, now: Moment) {
        self.has_ended = true;
        told(|| {
            self.trail.counts.entered(waited, now);
            let span = &self.trail.span;
            span.record("token", token.to_i64());
            span.record("waited_ms", milliseconds(waited));
        });
    }

    pub(crate) fn refused(mut self, wait: Wait, error: LockError) -> LockError {
        self.has_ended = true;
        told(|| self.tell_refused(wait, &error));
        error
    }

    fn tell_refused(&self, wait: Wait, error: &LockError) {
        let (key, parent) = (error.key(), self.trail.parent());
        let LockError::Busy { waited, holder, .. } = error else {
            self.trail.counts.refused(error.code());
            warn!(target: TARGET, parent: parent, %key, %error, "not acquired");
            return;
        };
        if wait == Wait::Never {
            // A caller that tries now and then may find the lock held most of the time.
            self.trail.counts.refused("taken");
            debug!(target: TARGET, parent: parent, %key, %holder, "busy");
        } else {
            self.trail.counts.refused(error.code());
            let waited_ms = milliseconds(*waited);
            info!(target: TARGET, parent: parent, %key, waited_ms, %holder, "busy");
        }
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        if self.has_ended {
            return;
        }
        told(|| {
            self.trail.counts.given_up();
            let key = &self.key;
            debug!(target: TARGET, parent: self.trail.parent(), %key, "call cancelled: not acquired");
        });
    }
}
