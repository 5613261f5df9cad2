//! Everything that awaits, interrupted at every await: dropped, stopped with its runtime, ended by a
//! panic or by the shutdown of its manager; over connections that fail at any request. Every lock that was
//! taken is given back, and no lease is relied on that was not confirmed.
//!
//! `operations` lists what is interrupted, `driver` has the loops over operations and awaits, and `dropped`,
//! `panics`, `runtimes` and `shutdown` each have one way to interrupt, over a store in memory that can be stopped
//! at every step (`stage`, `stepwise`). After every single interruption another process gets the lock, without
//! waiting for a TTL where anything lives that can give it back; the table of keys is empty, the store has
//! forgotten every owner that asked, and no task is left. Each of these tests prints the number of its
//! interruptions and wants as many as there are awaits, so that one that is not reached any more is noticed.
//!
//! `stores` drops the calls of users over every store, and `guards` guards in every place; `faults` loses, holds
//! and delays requests and answers; `redis_behind_a_proxy`, `slow_servers` and `postgres` do it to real servers, the first and the last by the cases
//! of `cut`.
//!
//! An executable of its own: it counts every panic of its process. A package of its own, as it takes long.
#![allow(
    clippy::unwrap_used,
    reason = "a test that fails there has said what it has to say"
)]

#[path = "../common/mod.rs"]
mod common;
#[cfg(feature = "redis")]
mod cut;
mod driver;
mod dropped;
mod faults;
mod guards;
mod operations;
mod panics;
#[cfg(feature = "redis")]
mod postgres;
#[cfg(feature = "redis")]
mod redis_behind_a_proxy;
mod runtimes;
mod shutdown;
#[cfg(feature = "redis")]
mod slow_servers;
mod stage;
mod stepwise;
mod stores;

use std::time::Duration;

const TTL: Duration = Duration::from_secs(30);

/// The validity of a lease of [`TTL`]: less by a hundredth and 2 ms, for clocks that differ.
const TRUSTED: Duration = Duration::from_millis(29_698);

crate::common::for_every_store! {
    stores {
        an_uncontended_acquisition_dropped_anywhere_leaves_nothing,
        a_waiter_dropped_anywhere_leaves_its_place,
        a_waiter_dropped_while_it_is_granted_passes_the_lock_on,
        a_writer_dropped_anywhere_lets_in_the_reader_behind_it,
        a_permit_dropped_while_it_is_granted_goes_to_the_next,
        a_run_dropped_anywhere_gives_the_lock_back,
        a_release_dropped_anywhere_is_still_carried_out,
        a_locked_function_under_a_timeout_gives_the_lock_back,
        a_locked_function_that_loses_a_select_gives_the_lock_back,
    }
}

/// Two connections, of which either may be ahead of the other.
#[cfg(feature = "redis")]
mod min_replicas {
    crate::common::cases! { real crate::common::Confirmed:
        stores {
            an_uncontended_acquisition_dropped_anywhere_leaves_nothing,
            a_waiter_dropped_anywhere_leaves_its_place,
            a_waiter_dropped_while_it_is_granted_passes_the_lock_on,
            a_writer_dropped_anywhere_lets_in_the_reader_behind_it,
            a_permit_dropped_while_it_is_granted_goes_to_the_next,
            a_run_dropped_anywhere_gives_the_lock_back,
            a_release_dropped_anywhere_is_still_carried_out,
            a_locked_function_under_a_timeout_gives_the_lock_back,
            a_locked_function_that_loses_a_select_gives_the_lock_back,
        }
    }
}
