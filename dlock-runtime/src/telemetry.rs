//! Calls the user's recorders and subscribers, for stores and drivers.
//!
//! `observe` reports events of calls and leases; a store reports events of its connections.

#[cfg(test)]
pub(crate) mod log;
#[cfg(feature = "metrics")]
pub(crate) mod names;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

/// The target of every event.
pub(crate) const TARGET: &str = "dlock";

/// Runs `tell`, which calls code that a user has installed. The panic hook has already reported a panic in this
/// code.
pub(crate) fn told(tell: impl FnOnce()) {
    drop(catch_unwind(AssertUnwindSafe(tell)));
}

pub(crate) fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
