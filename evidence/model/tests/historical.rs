//! The flaws of protocols that others have used are found, each by a shortest way.

use std::collections::{HashSet, VecDeque};

use dlock_model::{
    check::{Check, Effort, Expected, run_all},
    historical::{Expiring, Release, Timestamps, checks},
};
use stateright::Model;

#[test]
fn every_flaw_is_found_and_without_it_the_protocol_holds() {
    let checks = checks(false);
    let count = |is_meant: fn(&Expected) -> bool| {
        let all = checks.iter();
        all.filter(|check| is_meant(&check.expected)).count()
    };
    assert_eq!(count(|it| matches!(it, Expected::Fails { .. })), 12);
    assert_eq!(count(|it| matches!(it, Expected::Holds { .. })), 4);
    let faults = run_all(&checks, Effort::default(), false);
    assert!(faults.is_empty(), "{faults:#?}");
}

/// How many states there are, by a search that knows them whole and not by their hashes.
fn states<M: Model>(model: &M) -> usize
where
    M::State: std::hash::Hash + Eq + Clone,
{
    let mut known: HashSet<_> = model.init_states().into_iter().collect();
    let mut open: VecDeque<_> = known.iter().cloned().collect();
    while let Some(state) = open.pop_front() {
        for next in model.next_states(&state) {
            if model.within_boundary(&next) && known.insert(next.clone()) {
                open.push_back(next);
            }
        }
    }
    known.len()
}

#[test]
fn the_checker_leaves_no_state_out() {
    let timestamps = Timestamps {
        clients: 3,
        ahead: 0,
        compares: true,
    };
    let expiring = Expiring {
        clients: 3,
        flaw: None,
        release: Release::Script,
    };
    for threads in [1, 2] {
        let effort = Effort {
            threads,
            ..Effort::default()
        };
        let found = |check: Check| check.run(effort).unique;
        assert_eq!(
            found(Check::holds("", timestamps.clone(), 1)),
            states(&timestamps)
        );
        assert_eq!(
            found(Check::holds("", expiring.clone(), 1)),
            states(&expiring)
        );
    }
}

/// The steps by which `claim` of the first protocol with this name fails.
fn steps(name: &str) -> Vec<String> {
    let checks = checks(false);
    let check = checks.iter().find(|it| it.protocol.starts_with(name));
    let report = check.expect("it is among them").run(Effort::default());
    report
        .path
        .expect("broken promise: the flaw of a protocol is not found")
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
fn without_watch_the_lock_changes_hands_between_the_comparison_and_the_deletion() {
    let expected = [
        "Ask(0)",
        "Serve(0)",
        "Answer(0)",
        "Leave(0)",
        "Compare(0)",
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
    assert_eq!(steps("SET NX PX, MULTI, DEL, EXEC without WATCH"), expected);
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
