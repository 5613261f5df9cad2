//! Protocols that others have used, each with the flaw that was found in it.
//!
//! They show what the checker can see: it has to find every one of the flaws.

mod expiring;
mod timestamps;

pub use self::{
    expiring::{Expiring, Flaw, Release},
    timestamps::Timestamps,
};
use crate::check::Check;

/// The flaws, and the same protocols without them.
#[must_use]
pub fn checks(is_large: bool) -> Vec<Check> {
    let mut checks = expiring::checks(is_large);
    checks.extend(timestamps::checks(is_large));
    checks
}
