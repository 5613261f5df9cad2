//! Calls of the user's recorders and subscribers, which may panic.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

/// The target of every event.
pub(super) const TARGET: &str = "dlock";

/// Runs `tell`, which calls what a user has installed. A panic in there has been told by the panic hook.
pub(crate) fn told(tell: impl FnOnce()) {
    drop(catch_unwind(AssertUnwindSafe(tell)));
}

pub(super) fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
