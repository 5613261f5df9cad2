//! Each rule has a store that breaks it, and the case of that rule says so.
//!
//! A wrong store is a store in memory with one fault. The table names the cases that fail: first
//! that of the rule, then those that rest on it as well. All others have to be kept.

mod common;

use std::collections::BTreeSet;

use common::{Fault, Wrong};
use dlock_conformance::{Level, Suite, cases};
use dlock_runtime::store::memory::MemoryStore;

/// Every fault, and the cases that find it.
const TABLE: &[(Fault, &[&str])] = &[];

#[tokio::test(start_paused = true)]
async fn each_is_caught_by_the_case_of_its_rule_and_by_no_other() {
    let mut mistakes = Vec::new();
    for (fault, expected) in TABLE {
        let store = Wrong::new(MemoryStore::new(), *fault);
        let report = Suite::new(Level::Grants).alone().run_node(&store).await;
        let found: BTreeSet<_> = report.failures.iter().map(|it| it.case).collect();
        if found != expected.iter().copied().collect() {
            mistakes.push(format!("{fault:?}: {found:?}"));
        }
        for failure in &report.failures {
            assert!(!failure.rule.is_empty() && !failure.expected.is_empty());
        }
    }
    assert!(mistakes.is_empty(), "{}", mistakes.join("\n"));
}

#[test]
fn each_rule_has_a_store_that_breaks_it() {
    let tried: BTreeSet<_> = TABLE.iter().map(|(_, found)| found[0]).collect();
    let rules: BTreeSet<_> = cases().map(|case| case.name).collect();
    assert_eq!(tried, rules);
}

#[tokio::test(start_paused = true)]
async fn a_store_without_a_fault_is_kept() {
    let store = Wrong::new(MemoryStore::new(), Fault::None);
    Suite::new(Level::Grants)
        .alone()
        .run_node(&store)
        .await
        .assert();
}

#[tokio::test(start_paused = true)]
async fn a_store_that_panics_or_hangs_fails_its_case_and_not_the_run() {
    for (fault, seen) in [
        (Fault::Panics, "a panic: on purpose"),
        (Fault::Hangs, "without an answer"),
    ] {
        let store = Wrong::new(MemoryStore::new(), fault);
        let report = Suite::new(Level::Minimal).only("a_renewal_starts_the_ttl_anew");
        let report = report.run(&store).await;
        let [failure] = &*report.failures else {
            panic!("{report}");
        };
        assert!(failure.seen.contains(seen), "{failure}");
        assert!(
            failure
                .to_string()
                .contains("rule:     A renewal of the owner"),
            "{failure}"
        );
    }
}
