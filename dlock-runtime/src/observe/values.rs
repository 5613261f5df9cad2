//! The values of leases and requests that logs and metrics show.

use std::fmt;

/// The origin of an acquisition's lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeaseOrigin {
    /// The store has said yes to its request.
    Requested,
    /// The store has granted it to the next waiter at a release, and has sent a hint.
    Granted,
    /// It was that of the acquisition before it in this process.
    HandedOver,
}

impl LeaseOrigin {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Requested => "requested",
            Self::Granted => "granted",
            Self::HandedOver => "handed-over",
        }
    }
}

/// The request that is sent to a store.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RequestKind {
    Acquire,
    Renew,
    Release,
    /// To keep a lease that is given back for the rest of its `min_hold`.
    Keep,
}

impl RequestKind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Acquire => "acquire",
            Self::Renew => "renew",
            Self::Release => "release",
            Self::Keep => "keep",
        }
    }
}

impl fmt::Display for RequestKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
