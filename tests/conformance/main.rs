//! Every store keeps one contract: the cases of `dlock-conformance`, and those of managers over a store.
//!
//! Managers stand for processes: those of one test share nothing but the store.
#![allow(
    clippy::unwrap_used,
    reason = "a test that fails there has said what it has to say"
)]

#[path = "../common/mod.rs"]
mod common;
mod contract;
mod hints;
mod leases;
mod managers;
mod nodes;
mod protocol;

use std::time::Duration;

use common::{Env, OneKey};

const TTL: Duration = Duration::from_secs(30);

/// What every store has to do.
macro_rules! cases_of_every_store {
    ($time:ident $env:path) => {
        crate::common::cases! { $time $env:
            contract {
                a_free_key_is_granted_and_a_held_one_is_busy,
                keys_do_not_hinder_each_other_in_the_store,
                of_many_requests_at_once_one_is_granted,
                asking_again_returns_the_same_fence_and_starts_the_ttl_anew,
                a_renewal_starts_the_ttl_anew,
                many_renewals_have_an_answer_each,
                another_owner_can_neither_renew_nor_release,
                a_lease_that_ran_out_is_nobodys,
                a_lease_lasts_for_its_ttl,
                fences_grow,
                asking_once_takes_no_place,
                modes_and_ttls_of_the_properties_are_kept,
                a_release_at_once_is_a_release,
                waiters_have_places_in_the_order_of_their_arrival,
                busy_tells_the_holder,
                a_strangers_request_prolongs_nothing,
                a_waiter_that_left_is_skipped,
                a_waiter_that_died_is_skipped,
                a_grant_that_nobody_confirms_goes_to_the_next_waiter,
                a_refusal_tells_old_grants_from_new_ones,
            }
            protocol {
                asking_once_leaves_nothing,
                fences_grow_however_the_key_changes_hands,
            }
            managers {
                keys_do_not_hinder_each_other,
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
        }
    };
}

/// What a store does that makes the first waiter the holder. A quorum only tells its waiters that
/// the lock is free, as no node can know who is next on the others: whoever then asks may get it.
macro_rules! cases_of_stores_with_turns {
    ($time:ident $env:path) => {
        crate::common::cases! { $time $env:
            contract {
                the_properties_say_that_a_release_grants,
                waiters_are_granted_in_the_order_of_their_arrival,
                a_newcomer_cannot_overtake_a_waiter,
                a_renewal_names_the_holder,
                a_granted_waiter_is_told,
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
                a_proposal_takes_the_place_of_the_clock,
                only_the_holder_raises_a_fence,
                a_raise_does_not_prolong_a_lease,
                a_waiter_for_a_notice_gets_no_lease,
                a_waiter_that_gets_the_lock_or_leaves_waits_no_more,
                a_waiter_for_a_lease_goes_before_a_waiter_for_a_notice,
                a_notice_has_no_fence,
            }
            nodes {
                who_gets_the_lock_or_leaves_waits_no_more,
            }
        }
    };
}

mod memory {
    cases_of_every_store! { paused crate::common::Memory }
    cases_of_stores_with_turns! { paused crate::common::Memory }
    cases_of_nodes! { paused crate::common::Memory }
}

#[cfg(feature = "redis")]
mod redis {
    cases_of_every_store! { real crate::common::Redis }
    cases_of_stores_with_turns! { real crate::common::Redis }
    cases_of_nodes! { real crate::common::Redis }
}

#[cfg(feature = "redis")]
mod raw_keys {
    cases_of_every_store! { real crate::common::RawKeys }
    cases_of_stores_with_turns! { real crate::common::RawKeys }
    cases_of_nodes! { real crate::common::RawKeys }
}

#[cfg(feature = "redis")]
mod valkey {
    cases_of_every_store! { real crate::common::Valkey }
    cases_of_stores_with_turns! { real crate::common::Valkey }
    cases_of_nodes! { real crate::common::Valkey }
}

#[cfg(feature = "redis")]
mod old_redis {
    cases_of_every_store! { real crate::common::OldRedis }
    cases_of_stores_with_turns! { real crate::common::OldRedis }
    cases_of_nodes! { real crate::common::OldRedis }
}

#[cfg(feature = "redis")]
mod redis_cluster {
    cases_of_every_store! { real crate::common::RedisCluster }
    cases_of_stores_with_turns! { real crate::common::RedisCluster }
    cases_of_nodes! { real crate::common::RedisCluster }
}

#[cfg(all(feature = "redis", feature = "tls"))]
mod redis_under_acl {
    cases_of_every_store! { real crate::common::RedisUnderAcl }
    cases_of_stores_with_turns! { real crate::common::RedisUnderAcl }
    cases_of_nodes! { real crate::common::RedisUnderAcl }
}

#[cfg(all(feature = "redis", feature = "tls"))]
mod redis_by_resp2 {
    cases_of_every_store! { real crate::common::RedisByResp2 }
    cases_of_stores_with_turns! { real crate::common::RedisByResp2 }
    cases_of_nodes! { real crate::common::RedisByResp2 }
}

#[cfg(all(feature = "redis", feature = "tls"))]
mod redis_over_tls {
    cases_of_every_store! { real crate::common::RedisOverTls }
    cases_of_stores_with_turns! { real crate::common::RedisOverTls }
    cases_of_nodes! { real crate::common::RedisOverTls }
}

#[cfg(feature = "redis")]
mod sentinel {
    cases_of_every_store! { real crate::common::Sentinel }
    cases_of_stores_with_turns! { real crate::common::Sentinel }
}

#[cfg(feature = "redis")]
mod min_replicas {
    cases_of_every_store! { real crate::common::Confirmed }
    cases_of_stores_with_turns! { real crate::common::Confirmed }
    cases_of_nodes! { real crate::common::Confirmed }
}

mod quorum {
    cases_of_every_store! { paused crate::common::QuorumOfMemory }
}

mod quorum_with_faults {
    cases_of_every_store! { paused crate::common::QuorumWithFaults }
}

#[cfg(feature = "redis")]
mod quorum_of_redis {
    cases_of_every_store! { real crate::common::QuorumOfRedis }
}

async fn one_key<E: Env>() -> (E, OneKey<E::Store>) {
    let env = E::start().await;
    let store = env.store().await;
    (env, OneKey::new(store, "order:42"))
}
