//! What the tests of all models have in common.

use std::fmt::Debug;

use dlock_model::check::{Check, Effort, Expected, run_all};

/// Runs those of the checks that are meant. What they find is in the log.
pub(crate) fn run(mut checks: Vec<Check>, is_meant: impl Fn(&Check) -> bool) {
    checks.retain(is_meant);
    assert!(!checks.is_empty());
    let faults = run_all(&checks, Effort::default(), false);
    assert!(faults.is_empty(), "{faults:#?}");
}

/// Each rule is left out alone, and something fails. Of one that others stand in for it is asserted that
/// all holds without it.
pub(crate) fn left_out_alone<R: Debug + PartialEq>(
    checks: &[Check],
    rules: &[R],
    not_needed: &[R],
) {
    for rule in rules {
        let alone = format!(" without [{rule:?}]");
        let is_needed = !not_needed.contains(rule);
        let is_meant = |it: &&Check| it.protocol.ends_with(&alone);
        let fails = |it: &Check| matches!(it.expected, Expected::Fails { .. });
        let holds = |it: &Check| matches!(it.expected, Expected::Holds { .. });
        let mut meant = checks.iter().filter(is_meant);
        let is_shown = if is_needed {
            meant.any(fails)
        } else {
            meant.clone().any(holds) && !meant.any(fails)
        };
        assert!(is_shown, "{rule:?}");
    }
}

/// A model that has lost its states by mistake would hold as well, and one that was searched to no end.
pub(crate) fn each_has_a_least_number_of_states(checks: &[Check]) {
    for check in checks {
        let least = match check.expected {
            Expected::Holds { at_least } => at_least,
            Expected::Fails { after } | Expected::Happens { after } => after,
        };
        assert!(least > 0, "{}: {}", check.protocol, check.claim);
    }
}
