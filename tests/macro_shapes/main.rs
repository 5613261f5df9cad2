//! The shapes of functions that `#[distributed_lock]` must take, each compiled and run.
//!
//! A file for each subject, a module for each case. The modules are numbered; a number that is
//! missing is a shape that is refused (see `tests/ui`), or one that no function of this crate can
//! have. A case notes what happens, [`say`]`("body")` inside the function, and compares it in
//! order: that shows that the lock was held in the body, and which.

#![deny(
    warnings,
    rust_2024_compatibility,
    single_use_lifetimes,
    unused_lifetimes,
    clippy::pedantic,
    clippy::expect_used,
    clippy::shadow_same,
    clippy::unreachable,
    clippy::unwrap_in_result
)]
#![allow(
    clippy::unwrap_used,
    reason = "a test that fails there has said what it has to say"
)]

mod record;
mod spans;

mod a_handlers;
mod a_neighbours;
mod a_place;
mod b_arguments;
mod b_signature;
mod c_names;
mod c_patterns;
mod d_receivers;
mod e_boxed;
mod e_traits;
mod f_cancellation;
mod f_drops;
mod g_bodies;
mod g_returns;
mod h_size;
mod i_hygiene;
mod j_lints;
mod k_several_keys;
mod l_template;

mod enabled;
mod failures;
mod modes;
mod options;
mod outcomes;
mod skips;
mod texts;

use std::{future::Future, num::ParseIntError};

use dlock::LockError;

use record::{Noisy, manager, poll_once, record, record_blocking, say, under, while_held};

/// An error as services have: lock failures are one case among others.
#[derive(Debug, PartialEq, thiserror::Error)]
enum Fault {
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error("no number")]
    Number(#[from] ParseIntError),
    #[error("refused")]
    Refused,
}

type Result<T = (), E = Fault> = std::result::Result<T, E>;

fn assert_send<F: Future + Send>(future: F) -> F {
    future
}
