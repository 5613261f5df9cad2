//! What holds of the lease of one store, and what fails without each of its rules.

mod common;

use common::{each_has_a_least_number_of_states, left_out_alone, run};
use dlock_model::{
    check::Expected,
    lease::{Rule, checks},
};

#[test]
fn with_all_rules_every_property_holds_in_every_state() {
    run(checks(false), |it| {
        matches!(it.expected, Expected::Holds { .. })
    });
}

#[test]
fn what_the_rules_are_about_does_happen() {
    run(checks(false), |it| {
        matches!(it.expected, Expected::Happens { .. })
    });
}

#[test]
fn without_one_of_its_rules_it_fails_after_so_many_steps() {
    run(checks(false), |it| {
        matches!(it.expected, Expected::Fails { .. })
    });
}

#[test]
fn every_rule_is_left_out_alone() {
    left_out_alone(&checks(false), &Rule::ALL, &[]);
}

#[test]
fn every_search_has_to_find_something() {
    each_has_a_least_number_of_states(&checks(false));
    each_has_a_least_number_of_states(&checks(true));
}
