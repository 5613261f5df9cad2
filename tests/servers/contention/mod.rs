//! Many tasks and processes at one key: under load, at what price, and when messages are lost and
//! parties die in the middle of it.
#![cfg(feature = "redis")]

mod cost;
mod dead_parties;
mod disturbed;
mod fairness;
mod floods;
mod forged_hints;
mod history;
mod late_hints;
mod load;
mod lost_hints;
mod many;
mod outages;
mod storms;
mod victim;
mod worker;

crate::common::for_every_store! {
    dead_parties {
        a_granted_waiter_that_died_is_passed_over,
        a_dead_head_of_the_queue_is_skipped,
    }
    storms {
        a_storm_of_cancellations_leaves_nothing,
        a_shutdown_amid_a_crowd_leaves_nothing,
    }
    many {
        ten_thousand_waiters_get_their_turn_in_order,
        twenty_thousand_keys_leave_nothing_but_fences,
    }
}
