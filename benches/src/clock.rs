//! The clock that all processes of a machine share.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Waits until `moment` by [`now`], closer than timers can.
pub(crate) async fn until(moment: u64) {
    // A timer of tokio may be late by a millisecond, so the rest is spun.
    const SPUN: u64 = 1_200_000;
    let left = moment.saturating_sub(now());
    if left > SPUN {
        tokio::time::sleep(Duration::from_nanos(left - SPUN)).await;
    }
    while now() < moment {
        tokio::task::yield_now().await;
    }
}

/// Nanoseconds of `CLOCK_MONOTONIC`.
pub(crate) fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(time.tv_sec).expect("this clock starts at zero");
    let nanos = u64::try_from(time.tv_nsec).expect("a part of a second is not negative");
    seconds * 1_000_000_000 + nanos
}

/// A span of time in the unit of the results.
pub(crate) fn micros(nanos: u64) -> f64 {
    Duration::from_nanos(nanos).as_secs_f64() * 1e6
}

pub(crate) fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}
