//! Metrics: each event counts once, under its template, and gauges return to zero.
#![cfg(feature = "metrics")]
#![allow(
    clippy::async_yields_async,
    reason = "a task that was started is waited for later"
)]
#![allow(
    clippy::float_cmp,
    reason = "counts are whole, and paused time is exact"
)]

mod calls;
mod leases;
#[cfg(feature = "redis")]
mod outages;
mod random;
mod recorded;
mod recorders;
mod table;
#[cfg(feature = "redis")]
mod wake_ups;

use dlock::{LockManager, store::memory::MemoryStore};

/// A manager whose moments are exact while time is paused, which the machine's boot clock is not.
fn exact() -> LockManager {
    let builder = LockManager::builder().clock(crate::common::TestClock::new());
    builder.build_with_store(MemoryStore::new()).unwrap()
}
