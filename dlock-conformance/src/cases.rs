//! The table of cases: their names, levels and rules.

mod grants;
mod minimal;
mod modes;
mod node;
mod queue;

use dlock_runtime::store::{LockStore, QuorumNode};
use futures_util::FutureExt;

use crate::{Attempt, Case, Level};

/// Creates a table of the cases of some levels, and the function that lists them with their code.
macro_rules! table {
    ($names:ident, $list:ident, $bound:ident: $($level:ident in $module:ident {
        $($case:ident: $rule:literal,)*
    })*) => {
        const $names: &[Case] = &[$($(Case {
            name: stringify!($case),
            level: Level::$level,
            rule: $rule,
        },)*)*];

        pub(crate) fn $list<S: $bound>() -> Vec<Attempt<S>> {
            let runs = [$($(
                (|trial| $module::$case(trial).boxed_local())
                    as for<'a> fn(&'a crate::trial::Trial<'a, S>) -> futures_util::future::LocalBoxFuture<'a, crate::Outcome>,
            )*)*];
            let both = $names.iter().zip(runs);
            both.map(|(case, run)| Attempt { case: *case, run }).collect()
        }
    };
}

table! { STORES, of_stores, LockStore:
    Minimal in minimal {
        a_free_key_is_granted_and_a_held_one_is_busy:
            "A free key is granted to the requesting owner, and a held key is busy for every other owner.",
        keys_are_independent:
            "Each key is a separate lock, and two keys are the same lock only if all their bytes are equal.",
        concurrent_requests_get_at_most_one_grant:
            "If several owners request a key at the same time, at most one of them holds it.",
        a_repeated_request_returns_the_same_fence_and_restarts_the_ttl:
            "A repeated request returns the fence of the first, and the TTL starts anew.",
        a_renewal_restarts_the_ttl:
            "A renewal of the owner starts the TTL anew, and keeps the fence.",
        a_batch_of_renewals_has_one_answer_per_request:
            "A batch has one answer for each of its requests, in their order.",
        only_the_owner_renews_and_releases:
            "Only the owner renews and releases; a request of another owner is answered and changes nothing.",
        a_lease_expires_after_its_ttl:
            "A lease expires when its TTL ends, and its owner can then neither renew nor release it, even if no other owner holds the key.",
        a_lease_lasts_for_its_ttl:
            "A lease does not end before its TTL.",
        fences_grow:
            "A new grant has a fence greater than that of every earlier grant of its key, released or expired.",
        a_fence_makes_a_token:
            "A fence is at least 1 and less than 2^51, so that it makes a fencing token.",
        a_request_without_waiting_takes_no_place:
            "An owner that does not wait has no place in a queue, and is not made the holder by a release.",
        advertised_modes_and_ttls_are_granted:
            "The store grants every mode that its properties list, and every TTL from the shortest to the longest, and shortens no TTL.",
        an_immediate_release_frees_the_key:
            "If `release_at_once` returns `true`, the key is free.",
    }
    Minimal in modes {
        shared_holders_hold_together:
            "Any number of owners share a key, but none beside an exclusive holder. A store that grants gives all of them the same fence, which is greater than every one before and less than the next.",
        permits_are_counted:
            "A request for one of n permits is granted while fewer than n owners hold the key, and none exclusively.",
        a_release_of_one_holder_keeps_the_others:
            "A release ends the lease of its owner and of no other one.",
        each_holder_expires_by_itself:
            "A holder that ends gives up its own place, and a late renewal does not bring it back beside those that came after it.",
        the_key_lasts_as_long_as_its_last_holder:
            "The end of one lease does not end those of the other holders.",
    }
    Queue in queue {
        waiters_queue_in_order_of_arrival:
            "A waiter has a place behind all earlier waiters, and keeps it when it repeats its request.",
        a_busy_answer_names_the_holder:
            "`Busy` contains the label, the function, the TTL and the fence of the holder.",
        a_refused_request_leaves_the_ttl_unchanged:
            "A refused renewal or release does not change the TTL.",
        a_waiter_that_leaves_is_skipped:
            "A release of a waiting owner removes it from the queue.",
        a_crashed_waiter_is_skipped:
            "A waiter counts as alive for `ALIVE` after its last request, and not much longer.",
        an_unconfirmed_grant_passes_to_the_next_waiter:
            "If a granted waiter does not confirm its grant, the next waiter gets the key.",
        a_busy_answer_has_the_latest_fence:
            "`last_fence` of a busy answer is not less than the fence of any earlier grant, and less than that of any later one.",
    }
    Grants in grants {
        the_properties_announce_grants:
            "A store whose releases grant sets `grants` in its properties.",
        a_release_grants_in_order_of_arrival:
            "A release makes the first waiter the holder, for no longer than `GRANT_TTL` until it confirms the grant by a request.",
        a_newcomer_cannot_overtake_a_waiter:
            "A request for a free key with waiters makes the first waiter the holder.",
        a_renewal_sets_the_label:
            "A granted lease has no label before its first renewal. A renewal with a label sets it, and a renewal without a label does not change it.",
        a_granted_waiter_gets_a_hint:
            "The manager of a granted waiter receives a hint with the key, the owner and the fence of the grant, or 0 if the waiter must send a request. Other managers receive none.",
    }
    Grants in modes {
        one_queue_serves_all_modes:
            "Waiters of all modes are served in the order of their arrival: a shared request behind an exclusive one waits.",
        a_release_grants_all_that_may_hold_together:
            "A release makes all waiters at the head of the queue holders that may hold the key together.",
        a_waiter_that_leaves_lets_in_those_behind_it:
            "If an exclusive waiter leaves the queue, shared waiters behind it join the holders.",
        a_grant_beside_other_holders_has_a_number:
            "The hint for a waiter that joins other holders has their fence, and a number greater than `last_fence` of every earlier answer and not greater than that of a later one.",
    }
}

table! { NODES, of_nodes, QuorumNode:
    Node in node {
        a_proposal_sets_the_fence:
            "A new fence is the proposed one, or one more than the last if that is greater.",
        only_the_holder_raises_a_fence:
            "Only the holder raises the fence of its current grant, no request lowers it, and later grants exceed it.",
        a_raise_does_not_prolong_a_lease:
            "A raise does not change the TTL.",
        a_waiter_for_a_notice_gets_no_lease:
            "A release does not make a waiter for a notice the holder: the key is free, and the waiter keeps its place.",
        a_waiter_for_a_notice_leaves_the_queue_with_a_grant_or_release:
            "A waiter for a notice leaves the queue when it acquires the key or releases its place.",
        a_waiter_for_a_lease_precedes_waiters_for_a_notice:
            "A release makes a waiter for a lease the holder before it notifies waiters for a notice.",
        a_waiter_for_a_notice_keeps_new_sharers_out:
            "While an exclusive request waits for a notice, a new shared request does not join the holders.",
        a_notice_has_no_fence:
            "At a release, the manager of the first waiter for a notice receives a hint with a fence of 0.",
    }
}

/// Returns `true` if the case of this name needs the requests of a node.
pub(crate) fn is_of_a_node(name: &str) -> bool {
    NODES.iter().any(|case| case.name == name)
}

/// Returns all cases of all levels.
///
/// ```
/// for case in dlock_conformance::cases() {
///     println!("{} ({}): {}", case.name, case.level, case.rule);
/// }
/// ```
pub fn cases() -> impl Iterator<Item = Case> {
    STORES.iter().chain(NODES).copied()
}
