//! The view of all locks and clients, and what each client says of itself.

#[cfg(feature = "admin")]
pub(super) mod inspect;
pub(super) mod presence;
#[cfg(feature = "admin")]
pub(super) mod report;
