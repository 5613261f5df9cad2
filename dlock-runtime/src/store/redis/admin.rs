//! The view of all locks and clients, with the feature `admin`, and what each client says of itself, without it too.

#[cfg(feature = "admin")]
pub(super) mod inspect;
pub(super) mod presence;
#[cfg(feature = "admin")]
pub(super) mod report;
