//! The spans, events and metrics of locks, in one place.
//!
//! A driver calls one function for each event, with values. This module does not depend on a driver. Every
//! event has the target `dlock` and names its `key`. The store reports the events of its connections.
//!
//! Users install the recorders of metrics and the subscribers. If one panics, the panic hook reports it, and no
//! caller loses a lock, a renewal or the notification of a loss: reports about a call that has begun do not
//! unwind.

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
