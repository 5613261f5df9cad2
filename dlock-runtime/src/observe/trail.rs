//! The trail of one call in logs and metrics: all events of its attempts are recorded as a part of
//! it.

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
    /// From the first question until the last lease has been given back.
    span: Span,
    /// The caller's span, if no subscriber wants the call's own: a filter that lets only warnings
    /// pass must not cut them off from the request that they belong to.
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
            counts: CallCounts::begin(origin.template),
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

/// A call that has no lock yet. Dropped, it says that its caller has given up.
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

    /// The same for several keys, all of which stand in `keys`.
    pub(crate) fn for_several(keys: &LockKeys, origin: Origin) -> Self {
        let asking = Self::for_one(keys.first(), origin);
        asking.trail.span.record("keys", field::display(keys));
        asking
    }

    pub(crate) fn trail(&self) -> &Trail {
        &self.trail
    }

    /// The call has all it needs since `now`; its token is that of its first key.
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
            // A caller that asks now and then finds it held most of the time.
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
            debug!(target: TARGET, parent: self.trail.parent(), %key, "caller gone: not acquired");
        });
    }
}
