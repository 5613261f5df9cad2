//! The values of leases and requests in logs and metrics.

use std::fmt;

/// The origin of an acquisition's lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeaseOrigin {
    /// The store granted the acquire request.
    Requested,
    /// The store granted it to the next waiter at a release, and sent a hint.
    Granted,
    /// An earlier acquisition of this process handed it over.
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

/// A kind of request to a store.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RequestKind {
    Acquire,
    Renew,
    Release,
    /// Keeps a released lease for the rest of its `min_hold`.
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
