//! Each rule has a store that breaks it, and the case of that rule reports it.
//!
//! A wrong store is a store in memory with one fault. The table lists the failing cases: first the case of the
//! rule, then the cases that depend on the rule. All other cases must pass.

#![allow(
    clippy::unwrap_used,
    reason = "a test that fails there has said what it has to say"
)]

mod common;

use std::collections::BTreeSet;

use common::{
    Fault, Wrong,
    modes::{ModeFault, WrongModes},
};
use dlock_conformance::{Level, Suite, cases};
use dlock_runtime::store::memory::MemoryStore;

/// Every fault, and the cases that find it.
const TABLE: &[(Fault, &[&str])] = &[
    (
        Fault::SharesHeldKeys,
        &[
            "a_free_key_is_granted_and_a_held_one_is_busy",
            "a_lease_lasts_for_its_ttl",
            "a_lease_expires_after_its_ttl",
            "a_newcomer_cannot_overtake_a_waiter",
            "a_raise_does_not_prolong_a_lease",
            "a_renewal_restarts_the_ttl",
            "a_repeated_request_returns_the_same_fence_and_restarts_the_ttl",
            "a_request_without_waiting_takes_no_place",
            "a_busy_answer_names_the_holder",
            "fences_grow",
            "keys_are_independent",
            "concurrent_requests_get_at_most_one_grant",
            "a_release_grants_in_order_of_arrival",
            "advertised_modes_and_ttls_are_granted",
        ],
    ),
    (
        Fault::OneLock,
        &[
            "keys_are_independent",
            "a_lease_expires_after_its_ttl",
            "a_granted_waiter_gets_a_hint",
            "a_notice_has_no_fence",
            "a_batch_of_renewals_has_one_answer_per_request",
        ],
    ),
    (Fault::LowercasesKeys, &["keys_are_independent"]),
    (
        Fault::ClampsTtls,
        &[
            "advertised_modes_and_ttls_are_granted",
            "a_batch_of_renewals_has_one_answer_per_request",
            "a_busy_answer_names_the_holder",
        ],
    ),
    (
        Fault::FirstFenceIsZero,
        &[
            "a_fence_makes_a_token",
            "a_newcomer_cannot_overtake_a_waiter",
            "a_busy_answer_names_the_holder",
            "a_refused_request_leaves_the_ttl_unchanged",
            "a_proposal_sets_the_fence",
            "a_raise_does_not_prolong_a_lease",
            "only_the_holder_raises_a_fence",
        ],
    ),
    (Fault::RevivesTheDead, &["a_lease_expires_after_its_ttl"]),
    (
        Fault::GrantsAllAtOnce,
        &["concurrent_requests_get_at_most_one_grant"],
    ),
    (
        Fault::NewFenceForARepeat,
        &[
            "a_repeated_request_returns_the_same_fence_and_restarts_the_ttl",
            "a_renewal_restarts_the_ttl",
            "only_the_owner_renews_and_releases",
            "only_the_holder_raises_a_fence",
        ],
    ),
    (
        Fault::RepeatKeepsTtl,
        &[
            "a_repeated_request_returns_the_same_fence_and_restarts_the_ttl",
            "only_the_holder_raises_a_fence",
        ],
    ),
    (
        Fault::RenewalKeepsTtl,
        &[
            "a_renewal_restarts_the_ttl",
            "a_lease_expires_after_its_ttl",
            "a_batch_of_renewals_has_one_answer_per_request",
        ],
    ),
    (
        Fault::BatchReversed,
        &["a_batch_of_renewals_has_one_answer_per_request"],
    ),
    (
        Fault::BatchShort,
        &["a_batch_of_renewals_has_one_answer_per_request"],
    ),
    (
        Fault::AnybodyReleases,
        &[
            "only_the_owner_renews_and_releases",
            "a_lease_expires_after_its_ttl",
            "a_refused_request_leaves_the_ttl_unchanged",
        ],
    ),
    (
        Fault::AnybodyRenews,
        &[
            "only_the_owner_renews_and_releases",
            "an_unconfirmed_grant_passes_to_the_next_waiter",
            "a_lease_expires_after_its_ttl",
            "a_raise_does_not_prolong_a_lease",
            "a_refused_request_leaves_the_ttl_unchanged",
            "keys_are_independent",
            "a_batch_of_renewals_has_one_answer_per_request",
        ],
    ),
    (
        Fault::RenewsTheDead,
        &[
            "a_lease_expires_after_its_ttl",
            "a_raise_does_not_prolong_a_lease",
        ],
    ),
    (Fault::ShortLeases, &["a_lease_lasts_for_its_ttl"]),
    (Fault::FencesFall, &["fences_grow", "a_fence_makes_a_token"]),
    (
        Fault::AlwaysQueues,
        &["a_request_without_waiting_takes_no_place"],
    ),
    (
        Fault::RefusesModes,
        &["advertised_modes_and_ttls_are_granted"],
    ),
    (
        Fault::FeignsRelease,
        &["an_immediate_release_frees_the_key"],
    ),
    (
        Fault::LosesPlaces,
        &[
            "waiters_queue_in_order_of_arrival",
            "a_granted_waiter_gets_a_hint",
            "a_newcomer_cannot_overtake_a_waiter",
            "a_waiter_for_a_lease_precedes_waiters_for_a_notice",
            "a_release_grants_in_order_of_arrival",
        ],
    ),
    (Fault::NoFunction, &["a_busy_answer_names_the_holder"]),
    (
        Fault::StrangersProlong,
        &[
            "a_refused_request_leaves_the_ttl_unchanged",
            "a_batch_of_renewals_has_one_answer_per_request",
        ],
    ),
    (
        Fault::KeepsPlaces,
        &[
            "a_waiter_that_leaves_is_skipped",
            "a_waiter_for_a_notice_leaves_the_queue_with_a_grant_or_release",
            "only_the_holder_raises_a_fence",
        ],
    ),
    (Fault::ForgetsWaiters, &["a_crashed_waiter_is_skipped"]),
    (
        Fault::GrantsForEver,
        &[
            "an_unconfirmed_grant_passes_to_the_next_waiter",
            "a_waiter_for_a_lease_precedes_waiters_for_a_notice",
            "a_release_grants_in_order_of_arrival",
        ],
    ),
    (
        Fault::OldLastFence,
        &[
            "a_busy_answer_has_the_latest_fence",
            "a_refused_request_leaves_the_ttl_unchanged",
            "a_busy_answer_names_the_holder",
            "only_the_holder_raises_a_fence",
        ],
    ),
    (Fault::HidesGrants, &["the_properties_announce_grants"]),
    (
        Fault::LastComeFirstServed,
        &[
            "a_release_grants_in_order_of_arrival",
            "a_notice_has_no_fence",
            "a_waiter_for_a_lease_precedes_waiters_for_a_notice",
            "a_waiter_for_a_notice_gets_no_lease",
        ],
    ),
    (
        Fault::LetsOvertake,
        &["a_newcomer_cannot_overtake_a_waiter"],
    ),
    (Fault::RenewalUnnames, &["a_renewal_sets_the_label"]),
    (Fault::HintsWrongFence, &["a_granted_waiter_gets_a_hint"]),
    (
        Fault::NoHints,
        &["a_granted_waiter_gets_a_hint", "a_notice_has_no_fence"],
    ),
    (Fault::HintsForAll, &["a_granted_waiter_gets_a_hint"]),
    (Fault::IgnoresProposals, &["a_proposal_sets_the_fence"]),
    (Fault::RaisesAnyGrant, &["only_the_holder_raises_a_fence"]),
    (Fault::RaiseProlongs, &["a_raise_does_not_prolong_a_lease"]),
    (
        Fault::GrantsToNotice,
        &[
            "a_waiter_for_a_notice_gets_no_lease",
            "a_notice_has_no_fence",
        ],
    ),
    (
        Fault::StaysInQueue,
        &["a_waiter_for_a_notice_leaves_the_queue_with_a_grant_or_release"],
    ),
    (
        Fault::LeaseWaitersWaitForNotice,
        &[
            "a_waiter_for_a_lease_precedes_waiters_for_a_notice",
            "a_newcomer_cannot_overtake_a_waiter",
            "a_renewal_sets_the_label",
            "a_release_grants_in_order_of_arrival",
        ],
    ),
    (Fault::NoticeWithFence, &["a_notice_has_no_fence"]),
];

#[tokio::test(start_paused = true)]
async fn each_is_caught_by_the_case_of_its_rule_and_by_no_other() {
    let mut mistakes = Vec::new();
    for (fault, expected) in TABLE {
        let mut found = BTreeSet::new();
        for case in cases() {
            // A new store, so that the remains of a failed case are not a fault in the next case.
            let store = Wrong::new(MemoryStore::new(), *fault);
            let suite = Suite::new(Level::Grants).alone().only(case.name);
            let report = suite.run_node(&store).await;
            found.extend(report.failures.iter().map(|it| it.case));
        }
        if found != expected.iter().copied().collect() {
            mistakes.push(format!("{fault:?}: {found:?}"));
        }
    }
    assert!(mistakes.is_empty(), "{}", mistakes.join("\n"));
}

/// Every fault in modes, and the cases that find it.
const MODES: &[(ModeFault, &[&str])] = &[
    (ModeFault::AllExclusive, &["shared_holders_hold_together"]),
    (ModeFault::AnyNumber, &["permits_are_counted"]),
    (
        ModeFault::ReleasesAll,
        &["a_release_of_one_holder_keeps_the_others"],
    ),
    (ModeFault::RenewsTheDead, &["each_holder_expires_by_itself"]),
    (
        ModeFault::LastTtlCounts,
        &["the_key_lasts_as_long_as_its_last_holder"],
    ),
    (
        ModeFault::WritersHaveNoPlace,
        &["one_queue_serves_all_modes"],
    ),
    (
        ModeFault::GrantsOne,
        &["a_release_grants_all_that_may_hold_together"],
    ),
    (
        ModeFault::WritersStay,
        &["a_waiter_that_leaves_lets_in_those_behind_it"],
    ),
    (
        ModeFault::NoNumbers,
        &["a_grant_beside_other_holders_has_a_number"],
    ),
    (
        ModeFault::SharersPassNotices,
        &["a_waiter_for_a_notice_keeps_new_sharers_out"],
    ),
];

#[tokio::test(start_paused = true)]
async fn each_fault_in_modes_is_caught_by_the_case_of_its_rule() {
    let rules: Vec<_> = MODES.iter().map(|(_, found)| found[0]).collect();
    for (fault, expected) in MODES {
        let mut found = BTreeSet::new();
        for case in &rules {
            let store = WrongModes::new(*fault);
            let suite = Suite::new(Level::Grants).alone().only(case);
            let report = suite.run_node(&store).await;
            found.extend(report.failures.iter().map(|it| it.case));
        }
        assert!(found.contains(expected[0]), "{fault:?}: {found:?}");
    }
    let store = WrongModes::new(ModeFault::None);
    let suite = Suite::new(Level::Grants).alone();
    suite.run_node(&store).await.assert();
}

#[test]
fn each_rule_has_a_store_that_breaks_it() {
    let tried = TABLE.iter().map(|(_, found)| found[0]);
    let tried: BTreeSet<_> = tried
        .chain(MODES.iter().map(|(_, found)| found[0]))
        .collect();
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
        (Fault::ReleasePanics, "a panic: on purpose"),
    ] {
        let store = Wrong::new(MemoryStore::new(), fault);
        let report = Suite::new(Level::Minimal).only("a_renewal_restarts_the_ttl");
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

#[tokio::test(start_paused = true)]
async fn a_failure_says_whether_a_promise_is_broken() {
    for (fault, case, is_promise) in [
        (
            Fault::SharesHeldKeys,
            "a_free_key_is_granted_and_a_held_one_is_busy",
            true,
        ),
        (Fault::RevivesTheDead, "a_lease_expires_after_its_ttl", true),
        (
            Fault::BatchShort,
            "a_batch_of_renewals_has_one_answer_per_request",
            false,
        ),
    ] {
        let store = Wrong::new(MemoryStore::new(), fault);
        let report = Suite::new(Level::Minimal).only(case).run(&store).await;
        let [failure] = &*report.failures else {
            panic!("{report}");
        };
        let says = failure.seen.starts_with("broken promise: ");
        assert_eq!(says, is_promise, "{failure}");
    }
}
