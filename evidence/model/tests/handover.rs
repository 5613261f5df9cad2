//! What holds of a lease in the hands of one process, and what fails without each of its rules.

use dlock_model::{
    check::{Check, Effort, Expected, run_all},
    handover::{Rule, checks},
};

fn check(is_meant: impl Fn(&Check) -> bool) {
    let mut checks = checks(false);
    checks.retain(is_meant);
    assert!(!checks.is_empty());
    let faults = run_all(&checks, Effort::default(), false);
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn with_all_rules_every_property_holds_in_every_state() {
    check(|it| matches!(it.expected, Expected::Holds { .. }));
}

#[test]
fn what_the_rules_are_about_does_happen() {
    check(|it| matches!(it.expected, Expected::Happens { .. }));
}

#[test]
fn without_one_of_its_rules_it_fails_after_so_many_steps() {
    check(|it| matches!(it.expected, Expected::Fails { .. }));
}

#[test]
fn every_rule_is_left_out_once() {
    let checks = checks(false);
    for rule in Rule::ALL {
        let name = format!("{rule:?}");
        let is_left_out = |it: &Check| {
            let left_out = it.protocol.split_once(" without [");
            left_out.is_some_and(|(_, rules)| rules.contains(&name))
        };
        assert!(checks.iter().any(is_left_out), "{name}");
    }
}
