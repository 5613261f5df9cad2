//! A caller may go away at any await, and a connection may fail at any request: whatever was
//! taken is given back, and nobody ever relies on a lease that was not confirmed.
#![allow(
    clippy::unwrap_used,
    reason = "a test that fails there has said what it has to say"
)]

#[path = "../common/mod.rs"]
mod common;
mod dropped;
mod faults;
#[cfg(feature = "redis")]
mod redis_behind_a_proxy;
#[cfg(feature = "redis")]
mod slow_servers;

use std::time::Duration;

const TTL: Duration = Duration::from_secs(30);

/// How long a lease of [`TTL`] is trusted: less by a hundredth and 2 ms, for clocks that differ.
const TRUSTED: Duration = Duration::from_millis(29_698);

common::for_every_store! {
    dropped {
        an_uncontended_acquisition_dropped_anywhere_leaves_nothing,
        a_waiter_dropped_anywhere_leaves_its_place,
        a_waiter_dropped_while_it_is_granted_passes_the_lock_on,
        a_run_dropped_anywhere_gives_the_lock_back,
        a_release_dropped_anywhere_is_still_carried_out,
        a_locked_function_under_a_timeout_gives_the_lock_back,
        a_locked_function_that_loses_a_select_gives_the_lock_back,
    }
}

/// With two connections, of which either may be ahead of the other.
#[cfg(feature = "redis")]
mod min_replicas {
    crate::common::cases! { real crate::common::Confirmed:
        dropped {
            an_uncontended_acquisition_dropped_anywhere_leaves_nothing,
            a_waiter_dropped_anywhere_leaves_its_place,
            a_waiter_dropped_while_it_is_granted_passes_the_lock_on,
            a_run_dropped_anywhere_gives_the_lock_back,
            a_release_dropped_anywhere_is_still_carried_out,
            a_locked_function_under_a_timeout_gives_the_lock_back,
            a_locked_function_that_loses_a_select_gives_the_lock_back,
        }
    }
}
