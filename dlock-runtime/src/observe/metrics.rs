//! Counters through the facade `metrics`, labeled by the template of the key and the mode, and never by the key, so
//! that the number of series is bounded.
//!
//! A call counts once, however many keys it has. Events of a single lease (lost, renewed, handed over) count
//! for each key.
//!
//! A recorder may be installed at any time, and tests have one for each thread. Counters therefore keep no
//! handle for the next call. A gauge is lowered through the handle that raised it; otherwise it would not
//! return to zero in its recorder. The names with their labels are kept, one set for each template and mode, because
//! creating and hashing them again would cost more than all the rest.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use metrics::{
    Gauge, Histogram, Key, Label, Level, Metadata, Recorder, counter, histogram, with_recorder,
};
use tokio::time::Instant;

use super::values::{LeaseOrigin, RequestKind};
use crate::{
    answer::Renewal,
    clock::Moment,
    error::{StoreError, StoreErrorKind},
    mode::LockMode,
    state::Loss,
    telemetry::{
        TARGET,
        names::{
            self, ACQUIRED, CANCELLED, DETACHED, HANDED_OVER, HELD, HELD_SECONDS, LOST, REFUSED,
            RENEWALS, REQUEST_SECONDS, REQUESTS_FAILED, STALLED, UNRELEASED, WAIT_SECONDS, WAITING,
        },
        told,
    },
};

/// The template of locks without a template.
const NO_TEMPLATE: &str = "none";

/// The counters for alerts.
const WATCHED: [(&str, &str, &str); 7] = [
    (LOST, "cause", "revoked"),
    (LOST, "cause", "not-renewed"),
    (LOST, "cause", "expired"),
    (REFUSED, "reason", "busy"),
    (REFUSED, "reason", "unavailable"),
    (REFUSED, "reason", "would-deadlock"),
    (RENEWALS, "outcome", "failed"),
];

static METADATA: Metadata<'static> = Metadata::new(TARGET, Level::INFO, Some(module_path!()));

/// The address of the recorder that last received the descriptions.
static DESCRIBED: AtomicUsize = AtomicUsize::new(0);

/// Sends the descriptions to the current recorder.
pub(crate) fn describe() {
    // Another recorder may have been at this address.
    DESCRIBED.store(0, Ordering::Relaxed);
    with_recorder(describe_to);
}

fn describe_to(recorder: &dyn Recorder) {
    let address = std::ptr::from_ref(recorder).addr();
    if DESCRIBED.load(Ordering::Relaxed) != address {
        DESCRIBED.store(address, Ordering::Relaxed);
        names::describe(recorder);
    }
}

/// The metrics of every call, for one template and one mode.
struct MetricKeys {
    template: &'static str,
    mode: &'static str,
    waiting: Key,
    acquired: Key,
    wait_seconds: Key,
    held: Key,
    held_seconds: Key,
    /// The address of the recorder that last received the counters for alerts.
    announced: AtomicUsize,
}

impl MetricKeys {
    /// Returns the metrics of a template. They are kept for the life of the process, because a program has a
    /// fixed number of templates.
    fn of(template: Option<&'static str>, mode: LockMode) -> &'static Self {
        static ALL: RwLock<Option<HashMap<(&str, &str), &MetricKeys>>> = RwLock::new(None);
        let (template, mode) = (template.unwrap_or(NO_TEMPLATE), mode.name());
        let known = ALL.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(keys) = known.as_ref().and_then(|all| all.get(&(template, mode))) {
            return keys;
        }
        drop(known);
        let mut all = ALL.write().unwrap_or_else(PoisonError::into_inner);
        let all = all.get_or_insert_default();
        all.entry((template, mode))
            .or_insert_with(|| Box::leak(Box::new(Self::new(template, mode))))
    }

    fn new(template: &'static str, mode: &'static str) -> Self {
        let labels = [Label::new("template", template), Label::new("mode", mode)];
        let key = |name| Key::from_parts(name, labels.to_vec());
        Self {
            template,
            mode,
            waiting: key(WAITING),
            acquired: key(ACQUIRED),
            wait_seconds: key(WAIT_SECONDS),
            held: key(HELD),
            held_seconds: key(HELD_SECONDS),
            announced: AtomicUsize::new(0),
        }
    }

    /// Registers the counters for alerts with zero. The first appearance of a counter is not an increase, so
    /// the first loss would raise no alarm.
    fn announce_to(&self, recorder: &dyn Recorder) {
        let address = std::ptr::from_ref(recorder).addr();
        if self.announced.load(Ordering::Relaxed) == address {
            return;
        }
        self.announced.store(address, Ordering::Relaxed);
        for (name, label, value) in WATCHED {
            let labels = vec![
                Label::new("template", self.template),
                Label::new("mode", self.mode),
                Label::new(label, value),
            ];
            let counter = recorder.register_counter(&Key::from_parts(name, labels), &METADATA);
            counter.increment(0);
        }
    }
}

/// One call, from its first request to the end of its lease.
#[derive(Clone)]
pub(super) struct CallCounts(Arc<Inner>);

struct Inner {
    keys: &'static MetricKeys,
    waiting: Gauge,
    held: Mutex<Option<HeldCall>>,
}

struct HeldCall {
    since: Moment,
    gauge: Gauge,
    seconds: Histogram,
}

impl CallCounts {
    pub(super) fn begin(template: Option<&'static str>, mode: LockMode) -> Self {
        let keys = MetricKeys::of(template, mode);
        let waiting = with_recorder(|recorder| {
            describe_to(recorder);
            keys.announce_to(recorder);
            recorder.register_gauge(&keys.waiting, &METADATA)
        });
        waiting.increment(1);
        Self(Arc::new(Inner {
            keys,
            waiting,
            held: Mutex::new(None),
        }))
    }

    pub(super) fn origin(&self, origin: LeaseOrigin) {
        let by = match origin {
            LeaseOrigin::Requested => return,
            LeaseOrigin::Granted => "store",
            LeaseOrigin::HandedOver => "task",
        };
        counter!(HANDED_OVER, "template" => self.template(), "mode" => self.mode(), "by" => by)
            .increment(1);
    }

    pub(super) fn entered(&self, waited: Duration, now: Moment) {
        let Inner { keys, waiting, .. } = &*self.0;
        waiting.decrement(1);
        let held = with_recorder(|recorder| {
            let acquired = recorder.register_counter(&keys.acquired, &METADATA);
            acquired.increment(1);
            let wait_seconds = recorder.register_histogram(&keys.wait_seconds, &METADATA);
            wait_seconds.record(waited);
            HeldCall {
                since: now,
                gauge: recorder.register_gauge(&keys.held, &METADATA),
                seconds: recorder.register_histogram(&keys.held_seconds, &METADATA),
            }
        });
        held.gauge.increment(1);
        *self.held() = Some(held);
    }

    pub(super) fn refused(&self, reason: &'static str) {
        self.0.waiting.decrement(1);
        count_refused(self.template(), self.mode(), reason);
    }

    pub(super) fn given_up(&self) {
        self.0.waiting.decrement(1);
        counter!(CANCELLED, "template" => self.template(), "mode" => self.mode()).increment(1);
    }

    pub(super) fn left(&self, now: Moment) {
        self.end(|held| held.since.elapsed(now));
    }

    pub(super) fn lost(&self, loss: &Loss) {
        counter!(LOST, "template" => self.template(), "mode" => self.mode(), "cause" => loss.cause.code()).increment(1);
        self.end(|_| loss.held_for);
    }

    pub(super) fn renewed(&self, answer: &Result<Renewal, StoreError>) {
        let outcome = match answer {
            Ok(Renewal::Renewed) => "renewed",
            Ok(Renewal::NotOwner) => "not-owner",
            Err(_) => "failed",
        };
        counter!(RENEWALS, "template" => self.template(), "mode" => self.mode(), "outcome" => outcome).increment(1);
    }

    pub(super) fn detached(&self) {
        counter!(DETACHED, "template" => self.template(), "mode" => self.mode()).increment(1);
    }

    pub(super) fn stalled(&self) {
        counter!(STALLED, "template" => self.template(), "mode" => self.mode()).increment(1);
    }

    pub(super) fn unreleased(&self, reason: &'static str) {
        counter!(UNRELEASED, "template" => self.template(), "mode" => self.mode(), "reason" => reason).increment(1);
    }

    fn template(&self) -> &'static str {
        self.0.keys.template
    }

    fn mode(&self) -> &'static str {
        self.0.keys.mode
    }

    fn held(&self) -> std::sync::MutexGuard<'_, Option<HeldCall>> {
        self.0.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self, held_for: impl FnOnce(&HeldCall) -> Duration) {
        let held = self.held().take();
        if let Some(held) = held {
            held.gauge.decrement(1);
            held.seconds.record(held_for(&held));
        }
    }
}

/// Counts a call that was refused before its first request.
pub(super) fn refused(template: Option<&'static str>, mode: LockMode, reason: &'static str) {
    with_recorder(describe_to);
    count_refused(template.unwrap_or(NO_TEMPLATE), mode.name(), reason);
}

fn count_refused(template: &'static str, mode: &'static str, reason: &'static str) {
    counter!(REFUSED, "template" => template, "mode" => mode, "reason" => reason).increment(1);
}

/// A request in progress.
pub(crate) struct SentRequest {
    request: RequestKind,
    at: Instant,
}

impl SentRequest {
    pub(crate) fn now(request: RequestKind) -> Self {
        let at = Instant::now();
        Self { request, at }
    }

    pub(crate) fn answered(self) {
        told(|| {
            let seconds = match self.request {
                RequestKind::Acquire => histogram!(REQUEST_SECONDS, "request" => "acquire"),
                RequestKind::Renew => histogram!(REQUEST_SECONDS, "request" => "renew"),
                RequestKind::Release => histogram!(REQUEST_SECONDS, "request" => "release"),
                RequestKind::Keep => histogram!(REQUEST_SECONDS, "request" => "keep"),
            };
            seconds.record(self.at.elapsed());
        });
    }
}

pub(super) fn request_failed(request: RequestKind, kind: StoreErrorKind) {
    counter!(REQUESTS_FAILED, "request" => request.name(), "kind" => kind.code()).increment(1);
}
