//! What logs and metrics say of locks, in one place: spans, events and their fields, and what is counted.
//!
//! A driver calls one function for each thing that happens. Every event goes to the target `dlock`
//! and names its `key`. Those of a store's connection are the store's.
//!
//! Recorders of metrics and subscribers are the user's. One that panics has been told of by the panic
//! hook, and costs nobody a lock, a renewal or the news of a loss: what is told here of a call that has
//! begun does not unwind.

#[cfg(feature = "metrics")]
mod metrics;
#[cfg(not(feature = "metrics"))]
#[path = "observe/no_metrics.rs"]
mod metrics;
mod trail;

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

#[cfg(feature = "redis")]
use tracing::info;
use tracing::{debug, trace, warn};

use crate::{
    clock::Moment,
    engine::acquisition::Section,
    error::{LockError, LostCause},
    fence::FencingToken,
    site::Origin,
    state::Loss,
    store::{Renewal, StoreError},
};

#[cfg(feature = "redis")]
pub(crate) use self::metrics::Outage;
pub(crate) use self::{
    metrics::describe,
    trail::{Asking, Trail},
};

const TARGET: &str = "dlock";

/// How a section has come to its lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Came {
    /// The store has granted what it asked for.
    Granted,
    /// The store has handed it on when somebody gave it back, and has told.
    HandedOn,
    /// It was that of the section before it in this process.
    HandedOver,
}

impl Came {
    fn name(self) -> &'static str {
        match self {
            Self::Granted => "granted",
            Self::HandedOn => "handed-on",
            Self::HandedOver => "handed-over",
        }
    }
}

/// What a store is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Request {
    Acquire,
    Renew,
    Release,
    /// To keep a lease that is given back for the rest of its `min_hold`.
    Keep,
}

impl Request {
    fn name(self) -> &'static str {
        match self {
            Self::Acquire => "acquire",
            Self::Renew => "renew",
            Self::Release => "release",
            Self::Keep => "keep",
        }
    }

    /// It is sent now.
    pub(crate) fn sent(self) -> metrics::Sent {
        metrics::Sent::now(self)
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
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

/// A section has its lease; `came` says how, unless its token does.
pub(crate) fn acquired(section: &Section, token: FencingToken, came: Came, waited: Duration) {
    told(|| {
        let came = if token.is_first_of_lease() {
            came
        } else {
            Came::HandedOver
        };
        section.trail.counts().came(came);
        let (key, waited_ms) = (section.key(), milliseconds(waited));
        let (came, token) = (came.name(), token.to_i64());
        debug!(
            target: TARGET,
            parent: section.trail.parent(),
            %key,
            token,
            waited_ms,
            came,
            "acquired",
        );
    });
}

/// A lease of several was lost before the others were there.
pub(crate) fn starts_over(trail: &Trail, error: &LockError) {
    told(|| {
        let key = error.key();
        debug!(target: TARGET, parent: trail.parent(), %key, %error, "starts over");
    });
}

/// Single failures are details; the connection's own events say once what concerns everybody.
pub(crate) fn request_failed(section: &Section, request: Request, error: &StoreError) {
    told(|| {
        metrics::request_failed(request, error.kind());
        let key = section.key();
        debug!(target: TARGET, parent: section.trail.parent(), %key, %request, %error, "request failed");
    });
}

/// A renewal has ended, with an answer or without.
pub(crate) fn renewed(section: &Section, answer: &Result<Renewal, StoreError>) {
    told(|| section.trail.counts().renewed(answer));
}

/// The time of day has run ahead of the clocks that count.
pub(crate) fn clock_jumped(ahead: Duration) {
    told(|| {
        let ahead_ms = milliseconds(ahead);
        warn!(target: TARGET, ahead_ms, "time of day jumped: every lease is renewed now");
    });
}

/// The body has not been polled for so long, and its lease is renewed all the same.
pub(crate) fn stalled(section: &Section, since: Duration) {
    told(|| {
        section.trail.counts().stalled();
        let (key, since_ms) = (section.key(), milliseconds(since));
        warn!(
            target: TARGET,
            parent: section.trail.parent(),
            %key,
            since_ms,
            "body not polled for longer than its TTL: its thread is blocked or its future is not awaited",
        );
    });
}

pub(crate) fn detached(section: &Section) {
    told(|| {
        section.trail.counts().detached();
        let key = section.key();
        debug!(target: TARGET, parent: section.trail.parent(), %key, "caller gone: the section goes on");
    });
}

/// The section gives its lease back from now on. Told more than once, the first time counts.
pub(crate) fn left(section: &Section, now: Moment) {
    told(|| section.trail.counts().left(now));
}

pub(crate) fn kept(section: &Section, rest: Duration) {
    told(|| {
        let (key, rest_ms) = (section.key(), milliseconds(rest));
        debug!(target: TARGET, parent: section.trail.parent(), %key, rest_ms, "kept for its min_hold");
    });
}

pub(crate) fn release_given_up(section: &Section) {
    told(|| {
        section.trail.counts().unreleased("no-answer");
        let key = section.key();
        warn!(
            target: TARGET,
            parent: section.trail.parent(),
            %key,
            "not released: its TTL has ended by now",
        );
    });
}

pub(crate) fn release_refused(section: &Section, error: &StoreError) {
    told(|| {
        section.trail.counts().unreleased("refused");
        let key = section.key();
        warn!(
            target: TARGET,
            parent: section.trail.parent(),
            %key,
            %error,
            "not released: the store refuses it, so it stays until its TTL",
        );
    });
}

pub(crate) fn lost(section: &Section, loss: &Loss) {
    told(|| {
        section.trail.counts().lost(loss);
        let (key, parent) = (section.key(), section.trail.parent());
        if loss.cause == LostCause::ShutDown {
            warn!(target: TARGET, parent: parent, %key, "lease given up by the manager's shutdown");
        } else {
            let (cause, held_for) = (&loss.cause, loss.held_for);
            warn!(target: TARGET, parent: parent, %key, %cause, ?held_for, "lease lost");
        }
    });
}

pub(crate) fn handed_over(section: &Section) {
    told(|| {
        let (key, parent) = (section.key(), section.trail.parent());
        trace!(target: TARGET, parent: parent, %key, "handed over to the next in this process");
    });
}

pub(crate) fn lost_but_finished(section: &Section, error: &LockError) {
    told(|| {
        let (key, parent) = (section.key(), section.trail.parent());
        warn!(target: TARGET, parent: parent, %key, %error, "body finished without its lease");
    });
}

pub(crate) fn abandoned(section: &Section) {
    told(|| {
        section.trail.counts().unreleased("no-runtime");
        let key = section.key();
        warn!(
            target: TARGET,
            parent: section.trail.parent(),
            %key,
            "not released: its runtime ended first, so it stays until its TTL; call `shutdown` before",
        );
    });
}

/// The environment has a password for dlock, and whoever connects to `server` has not asked for it.
#[cfg(feature = "redis")]
pub(crate) fn password_unread(server: &str) {
    told(|| {
        warn!(
            target: TARGET, %server,
            "the password in DLOCK_PASSWORD is not used: only `connect_env` and `from_env` read it",
        );
    });
}

/// A server let no script publish a wake-up message, and this process has sent it instead, or tried to.
#[cfg(feature = "redis")]
pub(crate) fn wake_up_resent(server: &str, is_published: bool, is_first: bool) {
    told(|| {
        let outcome = if is_published { "sent" } else { "failed" };
        metrics::wake_up_resent(server, outcome);
        if is_first {
            info!(
                target: TARGET, %server, outcome,
                "scripts cannot publish on this server: wake-up messages are sent separately",
            );
        }
    });
}

/// Tells what the user has put in to be told.
pub(crate) fn told(tell: impl FnOnce()) {
    drop(catch_unwind(AssertUnwindSafe(tell)));
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
