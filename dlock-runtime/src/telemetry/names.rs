//! The names of all metrics, and what an exporter says of them. The table in `docs/book/src/reference/metrics.md`
//! has the same.

use metrics::{Recorder, Unit};

pub(crate) const ACQUIRED: &str = "dlock_acquired_total";
pub(crate) const REFUSED: &str = "dlock_refused_total";
pub(crate) const CANCELLED: &str = "dlock_cancelled_total";
pub(crate) const WAIT_SECONDS: &str = "dlock_wait_seconds";
pub(crate) const WAITING: &str = "dlock_waiting";
pub(crate) const HELD: &str = "dlock_held";
pub(crate) const HELD_SECONDS: &str = "dlock_held_seconds";
pub(crate) const LOST: &str = "dlock_lost_total";
pub(crate) const HANDED_OVER: &str = "dlock_handed_over_total";
pub(crate) const DETACHED: &str = "dlock_detached_total";
pub(crate) const STALLED: &str = "dlock_stalled_total";
pub(crate) const RENEWALS: &str = "dlock_renewals_total";
pub(crate) const UNRELEASED: &str = "dlock_unreleased_total";
pub(crate) const REQUEST_SECONDS: &str = "dlock_request_seconds";
pub(crate) const REQUESTS_FAILED: &str = "dlock_requests_failed_total";
pub(crate) const DISCONNECTED: &str = "dlock_disconnected";
pub(crate) const CONNECTIONS_LOST: &str = "dlock_connections_lost_total";
pub(crate) const WAKE_UPS_RESENT: &str = "dlock_wake_ups_resent_total";

const COUNTERS: [(&str, &str); 12] = [
    (ACQUIRED, "Calls that got their lock."),
    (REFUSED, "Calls that did not get their lock, by reason."),
    (
        CANCELLED,
        "Calls whose caller went away before they had their lock.",
    ),
    (
        LOST,
        "Leases that ended before they were given back, by cause.",
    ),
    (
        HANDED_OVER,
        "Leases that came without a request: handed over by a task of this process, or granted by the store.",
    ),
    (DETACHED, "Sections that went on without their caller."),
    (
        STALLED,
        "Bodies that were not polled for longer than their TTL, and keep their locks.",
    ),
    (RENEWALS, "Renewals of leases, by outcome."),
    (
        UNRELEASED,
        "Locks that the store may keep until their TTL ends, as the release did not reach it.",
    ),
    (
        REQUESTS_FAILED,
        "Requests that the store did not answer as it should, by kind of failure.",
    ),
    (CONNECTIONS_LOST, "Connections to a server that broke."),
    (
        WAKE_UPS_RESENT,
        "Wake-up messages that no script could publish and a client sent instead, by outcome.",
    ),
];

const GAUGES: [(&str, &str); 3] = [
    (WAITING, "Calls that ask or wait for their lock now."),
    (HELD, "Sections that hold their lock now."),
    (
        DISCONNECTED,
        "Connections to a server that are missing now.",
    ),
];

const HISTOGRAMS: [(&str, &str); 3] = [
    (WAIT_SECONDS, "How long calls took to get their lock."),
    (HELD_SECONDS, "How long sections held their lock."),
    (REQUEST_SECONDS, "How long the store took to answer."),
];

pub(crate) fn describe(recorder: &dyn Recorder) {
    for (name, text) in COUNTERS {
        recorder.describe_counter(name.into(), Some(Unit::Count), text.into());
    }
    for (name, text) in GAUGES {
        recorder.describe_gauge(name.into(), Some(Unit::Count), text.into());
    }
    for (name, text) in HISTOGRAMS {
        recorder.describe_histogram(name.into(), Some(Unit::Seconds), text.into());
    }
}
