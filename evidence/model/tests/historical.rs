//! The flaws of protocols that others have used are found, each by a shortest way.

use dlock_model::{
    check::{Effort, run_all},
    historical::checks,
};

#[test]
fn every_flaw_is_found_and_without_it_the_protocol_holds() {
    let faults = run_all(&checks(false), Effort::default(), false);
    assert!(faults.is_empty(), "{faults:#?}");
}

/// The steps by which `claim` of the first protocol with this name fails.
fn steps(name: &str) -> Vec<String> {
    let checks = checks(false);
    let check = checks.iter().find(|it| it.protocol.starts_with(name));
    let report = check.expect("it is among them").run(Effort::default());
    report.path.expect("it fails")
}

#[test]
fn a_deletion_that_comes_late_takes_the_next_ones_lock() {
    let expected = [
        "Ask(0)",
        "Serve(0)",
        "Answer(0)",
        "Leave(0)",
        "Tick",
        "Ask(1)",
        "Ask(2)",
        "Tick",
        "Tick",
        "Serve(1)",
        "Delete(0)",
        "Answer(1)",
        "Serve(2)",
        "Answer(2)",
    ];
    assert_eq!(steps("SET NX PX, any DEL"), expected);
}

#[test]
fn an_answer_that_comes_late_promises_time_that_has_passed() {
    let expected = [
        "Ask(0)",
        "Serve(0)",
        "Ask(1)",
        "Tick",
        "Answer(0)",
        "Tick",
        "Tick",
        "Serve(1)",
        "Answer(1)",
    ];
    assert_eq!(steps("SET NX PX, deadline from the answer"), expected);
}

#[test]
fn a_clock_that_is_ahead_ends_the_locks_of_others() {
    let expected = ["SetNx(0)", "SetNx(1)", "Get(1)", "GetSet(1)"];
    assert_eq!(steps("timestamps, one clock ahead by 2"), expected);
}
