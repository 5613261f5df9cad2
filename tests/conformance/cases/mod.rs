//! The cases of the contract, and the suites that make tests of them for a store.
//!
//! The executables `conformance` and `makes` share them, each with stores of its own. A suite finds the cases in modules of the
//! executable's root. A test that belongs to no suite stands there and not here, or both would run it.

pub(crate) mod contract;
pub(crate) mod leases;
pub(crate) mod managers;
pub(crate) mod modes;
pub(crate) mod nodes;
pub(crate) mod protocol;

use std::time::Duration;

use crate::common::{Env, OneKey};

pub(crate) const TTL: Duration = Duration::from_secs(30);

/// What every store has to do.
macro_rules! cases_of_every_store {
    ($time:ident $env:path) => {
        crate::common::cases! { $time $env:
            contract {
                a_free_key_is_granted_and_a_held_one_is_busy,
                keys_are_independent,
                concurrent_requests_get_at_most_one_grant,
                a_repeated_request_returns_the_same_fence_and_restarts_the_ttl,
                a_renewal_restarts_the_ttl,
                a_batch_of_renewals_has_one_answer_per_request,
                only_the_owner_renews_and_releases,
                a_lease_expires_after_its_ttl,
                a_lease_lasts_for_its_ttl,
                fences_grow,
                a_fence_makes_a_token,
                a_request_without_waiting_takes_no_place,
                advertised_modes_and_ttls_are_granted,
                an_immediate_release_frees_the_key,
                shared_holders_hold_together,
                permits_are_counted,
                a_release_of_one_holder_keeps_the_others,
                each_holder_expires_by_itself,
                the_key_lasts_as_long_as_its_last_holder,
                waiters_queue_in_order_of_arrival,
                a_busy_answer_names_the_holder,
                a_refused_request_leaves_the_ttl_unchanged,
                a_waiter_that_leaves_is_skipped,
                a_crashed_waiter_is_skipped,
                an_unconfirmed_grant_passes_to_the_next_waiter,
                a_busy_answer_has_the_latest_fence,
            }
            protocol {
                a_request_without_waiting_leaves_nothing,
                fences_grow_however_the_key_changes_hands,
            }
            managers {
                locks_of_different_keys_are_independent,
                no_two_bodies_overlap_and_their_tokens_grow,
                a_release_wakes_the_next_manager,
                a_wait_ends_in_busy_and_leaves_no_place,
                a_wait_for_ever_outlasts_the_holder,
                try_acquire_does_not_wait,
                busy_names_the_holder,
                busy_names_the_function,
            }
            leases {
                a_lease_is_renewed_as_long_as_its_body_runs,
                max_hold_ends_a_lease_that_is_renewed,
                min_hold_keeps_others_out_when_the_holder_has_gone,
                a_lease_without_renewal_ends_after_its_ttl,
                a_body_is_cancelled_when_the_store_says_it_is_lost,
                a_body_that_may_finish_does_so_without_its_lease,
                a_release_tells_that_the_lease_was_gone,
                a_short_body_whose_lock_was_deleted_is_no_success,
                a_lost_lease_does_not_harm_its_successor,
            }
            modes {
                readers_and_writers_never_overlap,
                no_more_than_n_permits_are_held,
                a_shared_lease_is_renewed_until_its_last_body_ends,
                a_lost_shared_lease_ends_all_of_its_bodies,
                calls_for_keys_of_mixed_modes_all_end,
            }
        }
    };
}

/// What a store does that makes the first waiter the holder. A quorum only tells its waiters that
/// the lock is free, as no node can know who is next on the others: whoever then asks may get it.
macro_rules! cases_of_stores_with_turns {
    ($time:ident $env:path) => {
        crate::common::cases! { $time $env:
            contract {
                the_properties_announce_grants,
                a_release_grants_in_order_of_arrival,
                a_newcomer_cannot_overtake_a_waiter,
                a_renewal_sets_the_label,
                a_granted_waiter_gets_a_hint,
                one_queue_serves_all_modes,
                a_release_grants_all_that_may_hold_together,
                a_waiter_that_leaves_lets_in_those_behind_it,
                a_grant_beside_other_holders_has_a_number,
            }
            managers {
                managers_get_their_turn_in_order,
            }
        }
    };
}

/// What a quorum asks of its stores, and is itself not asked for.
macro_rules! cases_of_nodes {
    ($time:ident $env:path) => {
        crate::common::cases! { $time $env:
            contract {
                a_proposal_sets_the_fence,
                only_the_holder_raises_a_fence,
                a_raise_does_not_prolong_a_lease,
                a_waiter_for_a_notice_gets_no_lease,
                a_waiter_for_a_notice_leaves_the_queue_with_a_grant_or_release,
                a_waiter_for_a_lease_precedes_waiters_for_a_notice,
                a_waiter_for_a_notice_keeps_new_sharers_out,
                a_notice_has_no_fence,
            }
            nodes {
                a_waiter_for_a_notice_leaves_the_queue_when_the_lock_is_free,
            }
        }
    };
}

pub(crate) async fn one_key<E: Env>() -> (E, OneKey<E::Store>) {
    let env = E::start().await;
    let store = env.store().await;
    (env, OneKey::new(store, "order:42"))
}
