//! The names of all metrics, and their descriptions for exporters. The table in
//! `docs/book/src/reference/metrics.md` lists the same metrics.

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
    (ACQUIRED, "Calls that acquired their lock."),
    (REFUSED, "Calls that did not acquire their lock, by reason."),
    (
        CANCELLED,
        "Calls that were cancelled before they acquired their lock.",
    ),
    (LOST, "Leases that ended before their release, by cause."),
    (
        HANDED_OVER,
        "Leases that needed no acquire request: handed over by a task of this process, or granted by the store.",
    ),
    (
        DETACHED,
        "Critical sections that continued without their caller.",
    ),
    (
        STALLED,
        "Bodies that were not polled for longer than their TTL; their locks are kept.",
    ),
    (RENEWALS, "Renewals of leases, by outcome."),
    (
        UNRELEASED,
        "Locks that may stay until their TTL ends, because no release was confirmed, by reason.",
    ),
    (
        REQUESTS_FAILED,
        "Requests without a useful answer from the store, by kind of failure.",
    ),
    (CONNECTIONS_LOST, "Connections to a server that broke."),
    (
        WAKE_UPS_RESENT,
        "Wake-up messages that a client published because a script could not, by outcome.",
    ),
];

const GAUGES: [(&str, &str); 3] = [
    (WAITING, "Calls that currently wait for their lock."),
    (HELD, "Critical sections that currently hold their lock."),
    (
        DISCONNECTED,
        "Connections to a server that are currently missing.",
    ),
];

const HISTOGRAMS: [(&str, &str); 3] = [
    (WAIT_SECONDS, "Time that calls took to acquire their lock."),
    (
        HELD_SECONDS,
        "Time for which critical sections held their lock.",
    ),
    (REQUEST_SECONDS, "Response time of the store."),
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
