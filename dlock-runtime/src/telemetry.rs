//! The way of logs and metrics to the user's recorders and subscribers, for stores and drivers alike.
//!
//! `observe` says what happens to calls and leases, a store what happens to its connections.

#[cfg(feature = "metrics")]
pub(crate) mod names;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

/// The target of every event.
pub(crate) const TARGET: &str = "dlock";

/// Runs `tell`, which calls what a user has installed. A panic in there has been told by the panic hook.
pub(crate) fn told(tell: impl FnOnce()) {
    drop(catch_unwind(AssertUnwindSafe(tell)));
}

pub(crate) fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
