//! All that logs and metrics contain of locks, in one place: spans, events and their fields, and
//! counters.
//!
//! A driver calls one function for each thing that happens, with values: no driver is known here. Every event goes to
//! the target `dlock` and names its `key`. Those of a store's connection are the store's.
//!
//! Recorders of metrics and subscribers are the user's. One that panics has been told of by the panic
//! hook, and costs no caller a lock, a renewal or the news of a loss: what is told here of a call that has
//! begun does not unwind.

mod events;
#[cfg(feature = "metrics")]
mod metrics;
#[cfg(not(feature = "metrics"))]
#[path = "observe/no_metrics.rs"]
mod metrics;
#[cfg(feature = "redis")]
mod servers;
mod trail;
mod values;

#[cfg(feature = "redis")]
pub(crate) use self::servers::password_unread;
pub(crate) use self::{
    events::{LeaseEvents, clock_jumped, not_asked, starts_over},
    metrics::{SentRequest, describe},
    trail::{Asking, Trail},
    values::{LeaseOrigin, RequestKind},
};
