//! The view of all locks and clients, and what each client says of itself.

pub(super) mod inspect;
pub(super) mod presence;
pub(super) mod report;
