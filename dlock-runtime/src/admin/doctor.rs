//! The checks of `dlock doctor`, which the page shows too. Not part of the public API.
#![allow(
    missing_docs,
    clippy::must_use_candidate,
    clippy::return_self_not_must_use,
    reason = "only the command of the same version uses it"
)]

pub mod facts;
pub mod finding;
mod judge;
mod text;

pub use judge::judge;
