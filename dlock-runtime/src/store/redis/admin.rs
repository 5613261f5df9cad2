//! Inspection of all locks and clients, with the feature `admin`. The record that each client publishes exists
//! without the feature too.

#[cfg(feature = "admin")]
pub(super) mod inspect;
pub(super) mod presence;
#[cfg(feature = "admin")]
pub(super) mod report;
