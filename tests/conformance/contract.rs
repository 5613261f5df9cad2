//! The cases of `dlock-conformance`, each over a store of its own, which is clean afterwards.

use dlock::{LockStore, store::QuorumNode};
use dlock_conformance::{Level, Report, Suite};

use crate::common::{Env, LIMIT};

/// The case alone with its store. A time limit is for what hangs: servers of a test may be slow.
fn suite<E: Env>(case: &'static str) -> Suite {
    let suite = Suite::new(Level::Grants).only(case).alone();
    let suite = suite.brief(E::BRIEF).limit(2 * LIMIT);
    if E::KEEPS_PLACES {
        suite
    } else {
        suite.may_lose_places()
    }
}

async fn clean_after<E: Env>(env: &E, report: &Report, keys: usize) {
    report.assert();
    env.assert_clean(keys, &[]).await;
}

/// Makes a case of the environment's of each case of the suite, which uses so many keys.
macro_rules! cases {
    ($run:ident, $bound:ident: $($name:ident is $case:ident of $keys:literal,)*) => {
        $(
            pub(crate) async fn $name<E: Env<Store: $bound>>() {
                let env = E::start().await;
                let store = env.store().await;
                let report = suite::<E>(stringify!($case)).$run(&store).await;
                clean_after(&env, &report, $keys).await;
            }
        )*
    };
}

cases! { run, LockStore:
    a_free_key_is_granted_and_a_held_one_is_busy is a_free_key_is_granted_and_a_held_one_is_busy of 1,
    keys_do_not_hinder_each_other_in_the_store is keys_do_not_hinder_each_other of 2,
    of_many_requests_at_once_one_is_granted is of_many_requests_at_once_one_is_granted of 1,
    asking_again_returns_the_same_fence_and_starts_the_ttl_anew
        is asking_again_returns_the_same_fence_and_starts_the_ttl_anew of 1,
    a_renewal_starts_the_ttl_anew is a_renewal_starts_the_ttl_anew of 1,
    many_renewals_have_an_answer_each is many_renewals_have_an_answer_each of 12,
    another_owner_can_neither_renew_nor_release is another_owner_can_neither_renew_nor_release of 1,
    a_lease_that_ran_out_is_nobodys is a_lease_that_ran_out_is_nobodys of 1,
    a_lease_lasts_for_its_ttl is a_lease_lasts_for_its_ttl of 1,
    fences_grow is fences_grow of 1,
    asking_once_takes_no_place is asking_once_takes_no_place of 1,
    modes_and_ttls_of_the_properties_are_kept is modes_and_ttls_of_the_properties_are_kept of 1,
    a_release_at_once_is_a_release is a_release_at_once_is_a_release of 1,
    waiters_have_places_in_the_order_of_their_arrival
        is waiters_have_places_in_the_order_of_their_arrival of 1,
    busy_tells_the_holder is busy_names_the_holder of 1,
    a_strangers_request_prolongs_nothing is a_strangers_request_prolongs_nothing of 1,
    a_waiter_that_left_is_skipped is a_waiter_that_left_is_skipped of 1,
    a_waiter_that_died_is_skipped is a_waiter_that_died_is_skipped of 1,
    a_grant_that_nobody_confirms_goes_to_the_next_waiter
        is a_grant_that_nobody_confirms_goes_to_the_next_waiter of 1,
    a_refusal_tells_old_grants_from_new_ones is a_refusal_tells_old_grants_from_new_ones of 1,
    the_properties_say_that_a_release_grants is the_properties_say_that_a_release_grants of 0,
    waiters_are_granted_in_the_order_of_their_arrival
        is waiters_are_granted_in_the_order_of_their_arrival of 1,
    a_newcomer_cannot_overtake_a_waiter is a_newcomer_cannot_overtake_a_waiter of 1,
    a_renewal_names_the_holder is a_renewal_names_the_holder of 1,
    a_granted_waiter_is_told is a_granted_waiter_is_told of 1,
}

cases! { run_node, QuorumNode:
    a_proposal_takes_the_place_of_the_clock is a_proposal_takes_the_place_of_the_clock of 1,
    only_the_holder_raises_a_fence is only_the_holder_raises_a_fence of 1,
    a_raise_does_not_prolong_a_lease is a_raise_does_not_prolong_a_lease of 1,
    a_waiter_for_a_notice_gets_no_lease is a_waiter_for_a_notice_gets_no_lease of 1,
    a_waiter_that_gets_the_lock_or_leaves_waits_no_more
        is a_waiter_that_gets_the_lock_or_leaves_waits_no_more of 1,
    a_waiter_for_a_lease_goes_before_a_waiter_for_a_notice
        is a_waiter_for_a_lease_goes_before_a_waiter_for_a_notice of 1,
    a_notice_has_no_fence is a_notice_has_no_fence of 1,
}

/// Every case of the suite is run here.
#[test]
fn no_case_is_left_out() {
    let source = include_str!("contract.rs").replace("\n        is ", " is ");
    for case in dlock_conformance::cases() {
        let run = format!(" is {} of ", case.name);
        assert!(source.contains(&run), "{}", case.name);
    }
}
