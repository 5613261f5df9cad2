//! Each rule has a store that breaks it, and the case of that rule says so.
//!
//! A wrong store is a store in memory with one fault. The table names the cases that fail: first
//! that of the rule, then those that rest on it as well. All others have to be kept.

#![allow(
    clippy::unwrap_used,
    reason = "a test that fails there has said what it has to say"
)]

mod common;

use std::collections::BTreeSet;

use common::{Fault, Wrong};
use dlock_conformance::{Level, Suite, cases};
use dlock_runtime::store::memory::MemoryStore;

/// Every fault, and the cases that find it.
const TABLE: &[(Fault, &[&str])] = &[
    (
        Fault::SharesHeldKeys,
        &[
            "a_free_key_is_granted_and_a_held_one_is_busy",
            "a_lease_lasts_for_its_ttl",
            "a_lease_that_ran_out_is_nobodys",
            "a_newcomer_cannot_overtake_a_waiter",
            "a_raise_does_not_prolong_a_lease",
            "a_renewal_starts_the_ttl_anew",
            "asking_again_returns_the_same_fence_and_starts_the_ttl_anew",
            "asking_once_takes_no_place",
            "busy_names_the_holder",
            "fences_grow",
            "keys_do_not_hinder_each_other",
            "of_many_requests_at_once_one_is_granted",
            "waiters_are_granted_in_the_order_of_their_arrival",
        ],
    ),
    (
        Fault::OneLock,
        &[
            "keys_do_not_hinder_each_other",
            "a_granted_waiter_is_told",
            "a_notice_has_no_fence",
            "many_renewals_have_an_answer_each",
        ],
    ),
    (
        Fault::GrantsAllAtOnce,
        &["of_many_requests_at_once_one_is_granted"],
    ),
    (
        Fault::NewFenceForARepeat,
        &[
            "asking_again_returns_the_same_fence_and_starts_the_ttl_anew",
            "a_renewal_starts_the_ttl_anew",
            "another_owner_can_neither_renew_nor_release",
            "only_the_holder_raises_a_fence",
        ],
    ),
    (
        Fault::RepeatKeepsTtl,
        &[
            "asking_again_returns_the_same_fence_and_starts_the_ttl_anew",
            "only_the_holder_raises_a_fence",
        ],
    ),
    (
        Fault::RenewalKeepsTtl,
        &[
            "a_renewal_starts_the_ttl_anew",
            "many_renewals_have_an_answer_each",
        ],
    ),
    (Fault::BatchReversed, &["many_renewals_have_an_answer_each"]),
    (Fault::BatchShort, &["many_renewals_have_an_answer_each"]),
    (
        Fault::AnybodyReleases,
        &[
            "another_owner_can_neither_renew_nor_release",
            "a_lease_that_ran_out_is_nobodys",
            "a_strangers_request_prolongs_nothing",
        ],
    ),
    (
        Fault::AnybodyRenews,
        &[
            "another_owner_can_neither_renew_nor_release",
            "a_grant_that_nobody_confirms_goes_to_the_next_waiter",
            "a_lease_that_ran_out_is_nobodys",
            "a_raise_does_not_prolong_a_lease",
            "a_strangers_request_prolongs_nothing",
            "keys_do_not_hinder_each_other",
            "many_renewals_have_an_answer_each",
        ],
    ),
    (
        Fault::RenewsTheDead,
        &[
            "a_lease_that_ran_out_is_nobodys",
            "a_raise_does_not_prolong_a_lease",
        ],
    ),
    (Fault::ShortLeases, &["a_lease_lasts_for_its_ttl"]),
    (Fault::FencesFall, &["fences_grow"]),
    (Fault::AlwaysQueues, &["asking_once_takes_no_place"]),
    (
        Fault::RefusesModes,
        &["modes_and_ttls_of_the_properties_are_kept"],
    ),
    (Fault::FeignsRelease, &["a_release_at_once_is_a_release"]),
    (
        Fault::LosesPlaces,
        &[
            "waiters_have_places_in_the_order_of_their_arrival",
            "a_granted_waiter_is_told",
            "a_newcomer_cannot_overtake_a_waiter",
            "a_waiter_for_a_lease_goes_before_a_waiter_for_a_notice",
            "waiters_are_granted_in_the_order_of_their_arrival",
        ],
    ),
    (Fault::NoFunction, &["busy_names_the_holder"]),
    (
        Fault::StrangersProlong,
        &[
            "a_strangers_request_prolongs_nothing",
            "many_renewals_have_an_answer_each",
        ],
    ),
    (
        Fault::KeepsPlaces,
        &[
            "a_waiter_that_left_is_skipped",
            "a_waiter_that_gets_the_lock_or_leaves_waits_no_more",
            "only_the_holder_raises_a_fence",
        ],
    ),
    (Fault::ForgetsWaiters, &["a_waiter_that_died_is_skipped"]),
    (
        Fault::GrantsForEver,
        &[
            "a_grant_that_nobody_confirms_goes_to_the_next_waiter",
            "a_waiter_for_a_lease_goes_before_a_waiter_for_a_notice",
            "waiters_are_granted_in_the_order_of_their_arrival",
        ],
    ),
    (
        Fault::OldLastFence,
        &[
            "a_refusal_tells_old_grants_from_new_ones",
            "a_strangers_request_prolongs_nothing",
            "busy_names_the_holder",
            "only_the_holder_raises_a_fence",
        ],
    ),
    (
        Fault::HidesGrants,
        &["the_properties_say_that_a_release_grants"],
    ),
    (
        Fault::LastComeFirstServed,
        &[
            "waiters_are_granted_in_the_order_of_their_arrival",
            "a_notice_has_no_fence",
            "a_waiter_for_a_lease_goes_before_a_waiter_for_a_notice",
            "a_waiter_for_a_notice_gets_no_lease",
        ],
    ),
    (
        Fault::LetsOvertake,
        &["a_newcomer_cannot_overtake_a_waiter"],
    ),
    (Fault::RenewalUnnames, &["a_renewal_names_the_holder"]),
    (Fault::HintsWrongFence, &["a_granted_waiter_is_told"]),
    (
        Fault::NoHints,
        &["a_granted_waiter_is_told", "a_notice_has_no_fence"],
    ),
    (Fault::HintsForAll, &["a_granted_waiter_is_told"]),
    (
        Fault::IgnoresProposals,
        &["a_proposal_takes_the_place_of_the_clock"],
    ),
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
        &["a_waiter_that_gets_the_lock_or_leaves_waits_no_more"],
    ),
    (
        Fault::LeaseWaitersWaitForNotice,
        &[
            "a_waiter_for_a_lease_goes_before_a_waiter_for_a_notice",
            "a_newcomer_cannot_overtake_a_waiter",
            "a_renewal_names_the_holder",
            "waiters_are_granted_in_the_order_of_their_arrival",
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
            // What a case that fails leaves behind is no fault in the next one's eyes.
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
