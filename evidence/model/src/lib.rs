//! The protocols, as states and messages: every order of events, within bounds.

pub mod check;
pub mod handover;
pub mod historical;
pub mod lease;
mod list;
pub mod quorum;

use check::Check;

/// All that is checked; the larger bounds take minutes each.
#[must_use]
pub fn checks(is_large: bool) -> Vec<Check> {
    let mut checks = historical::checks(is_large);
    checks.extend(lease::checks(is_large));
    checks.extend(handover::checks(is_large));
    checks.extend(quorum::checks(is_large));
    checks
}
