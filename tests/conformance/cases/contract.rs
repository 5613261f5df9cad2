//! The cases of `dlock-conformance`, each over a store of its own, which is clean afterwards.

use dlock::store::{LockStore, QuorumNode};
use dlock_conformance::{Level, Report, Suite};

use crate::common::{Env, LIMIT};

/// The case alone with its store. A time limit is for what hangs: servers of a test may be slow. The suite
/// repeats a case whose brief leases were too brief for the machine, so they are briefer than those of managers.
fn suite<E: Env>(case: &'static str) -> Suite {
    let suite = Suite::new(Level::Grants).only(case).alone();
    let suite = suite.brief(E::BRIEF / 3).limit(2 * LIMIT);
    if E::KEEPS_PLACES {
        suite
    } else {
        suite.may_lose_places()
    }
}

async fn clean_after<E: Env>(env: &E, report: &Report, keys: usize) {
    report.assert();
    // A repeat has keys of its own.
    env.assert_clean(keys * (1 + report.repeats), &[]).await;
}

/// Makes a case of the environment's of each case of the suite, which uses so many keys.
macro_rules! cases {
    ($run:ident, $bound:ident: $($case:ident of $keys:literal,)*) => {
        $(
            pub(crate) async fn $case<E: Env<Store: $bound>>() {
                let env = E::start().await;
                let store = env.store().await;
                let report = suite::<E>(stringify!($case)).$run(&store).await;
                clean_after(&env, &report, $keys).await;
            }
        )*
    };
}

cases! { run, LockStore:
    a_free_key_is_granted_and_a_held_one_is_busy of 1,
    keys_are_independent of 14,
    concurrent_requests_get_at_most_one_grant of 1,
    a_repeated_request_returns_the_same_fence_and_restarts_the_ttl of 1,
    a_renewal_restarts_the_ttl of 1,
    a_batch_of_renewals_has_one_answer_per_request of 12,
    only_the_owner_renews_and_releases of 1,
    a_lease_expires_after_its_ttl of 2,
    a_lease_lasts_for_its_ttl of 1,
    fences_grow of 1,
    a_fence_makes_a_token of 1,
    a_request_without_waiting_takes_no_place of 1,
    advertised_modes_and_ttls_are_granted of 1,
    an_immediate_release_frees_the_key of 1,
    shared_holders_hold_together of 1,
    permits_are_counted of 1,
    a_release_of_one_holder_keeps_the_others of 1,
    each_holder_expires_by_itself of 1,
    the_key_lasts_as_long_as_its_last_holder of 1,
    one_queue_serves_all_modes of 1,
    a_release_grants_all_that_may_hold_together of 1,
    a_waiter_that_leaves_lets_in_those_behind_it of 1,
    a_grant_beside_other_holders_has_a_number of 1,
    waiters_queue_in_order_of_arrival of 1,
    a_busy_answer_names_the_holder of 1,
    a_refused_request_leaves_the_ttl_unchanged of 1,
    a_waiter_that_leaves_is_skipped of 1,
    a_crashed_waiter_is_skipped of 1,
    an_unconfirmed_grant_passes_to_the_next_waiter of 1,
    a_busy_answer_has_the_latest_fence of 1,
    the_properties_announce_grants of 0,
    a_release_grants_in_order_of_arrival of 1,
    a_newcomer_cannot_overtake_a_waiter of 1,
    a_renewal_sets_the_label of 1,
    a_granted_waiter_gets_a_hint of 1,
}

cases! { run_node, QuorumNode:
    a_proposal_sets_the_fence of 1,
    only_the_holder_raises_a_fence of 1,
    a_raise_does_not_prolong_a_lease of 1,
    a_waiter_for_a_notice_gets_no_lease of 1,
    a_waiter_for_a_notice_leaves_the_queue_with_a_grant_or_release of 1,
    a_waiter_for_a_lease_precedes_waiters_for_a_notice of 1,
    a_waiter_for_a_notice_keeps_new_sharers_out of 1,
    a_notice_has_no_fence of 1,
}
