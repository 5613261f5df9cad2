//! Claims that hold of dlock's protocols, and claims that fail without one of their rules.

use std::fmt::Debug;

use dlock_model::check::{Check, Effort, Expected, run_all};

/// The tests of a model, and its rules that others stand in for.
macro_rules! tests_of {
    ($($model:ident: $not_needed:expr;)*) => {
        $(mod $model {
            use dlock_model::{
                check::Expected,
                $model::{Rule, checks},
            };

            use super::{each_has_a_least_number_of_states, left_out_alone, run};

            #[test]
            fn with_all_rules_every_property_holds_in_every_state() {
                run(checks(false), |it| matches!(it.expected, Expected::Holds { .. }));
            }

            #[test]
            fn what_the_rules_are_about_does_happen() {
                run(checks(false), |it| matches!(it.expected, Expected::Happens { .. }));
            }

            #[test]
            fn without_one_of_its_rules_it_fails_after_so_many_steps() {
                run(checks(false), |it| matches!(it.expected, Expected::Fails { .. }));
            }

            #[test]
            fn every_rule_is_left_out_alone() {
                left_out_alone(&checks(false), &Rule::ALL, &$not_needed);
            }

            #[test]
            fn every_rule_stands_in_the_table() {
                for rule in Rule::ALL {
                    let place = format!("[`{}::Rule::{rule:?}`]", stringify!($model));
                    assert!(include_str!("../src/lib.rs").contains(&place), "{place}");
                }
            }

            #[test]
            fn every_search_has_to_find_something() {
                each_has_a_least_number_of_states(&checks(false));
                each_has_a_least_number_of_states(&checks(true));
            }
        })*
    };
}

tests_of! {
    lease: [];
    leases: [];
    handover: [Rule::HandsOverInTime, Rule::DoubtedIsNotHandedOver];
    modes: [];
    quorum: [];
    rows: [Rule::EndIsSeenUnderTheLock, Rule::RenewalRefusesTheEnded];
}

/// Runs those of the checks that are meant. What they find is in the log.
fn run(mut checks: Vec<Check>, is_meant: impl Fn(&Check) -> bool) {
    checks.retain(is_meant);
    assert!(!checks.is_empty());
    let faults = run_all(&checks, Effort::default(), false);
    assert!(faults.is_empty(), "{faults:#?}");
}

/// Each rule is left out alone, and something fails. Of one that others stand in for it is asserted that
/// all holds without it.
fn left_out_alone<R: Debug + PartialEq>(checks: &[Check], rules: &[R], not_needed: &[R]) {
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
fn each_has_a_least_number_of_states(checks: &[Check]) {
    for check in checks {
        let least = match check.expected {
            Expected::Holds { at_least } => at_least,
            Expected::Fails { after } | Expected::Happens { after } => after,
        };
        assert!(least > 0, "{}: {}", check.protocol, check.claim);
    }
}
