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
mod other_libraries;
mod outages;
mod storms;
mod unpolled;
mod victim;
mod worker;

crate::common::for_every_store! {
    dead_parties {
        a_granted_waiter_that_died_is_passed_over,
        a_dead_head_of_the_queue_is_skipped,
    }
    unpolled {
        a_lease_that_its_task_does_not_take_is_soon_that_of_another_process,
    }
    storms {
        a_storm_of_cancellations_leaves_nothing,
        a_shutdown_amid_a_crowd_leaves_nothing,
    }
    many {
        ten_thousand_waiters_get_their_turn_in_order,
        five_thousand_keys_leave_nothing_but_fences,
    }
    other_libraries {
        one_to_three_are_inside_with_three_permits,
        as_many_as_there_are_permits_are_inside_at_once,
        readers_that_waited_for_a_writer_are_inside_together,
        a_permit_is_renewed_while_its_body_runs,
        nobody_sleeps_on_when_it_is_their_turn,
    }
}
