//! Waiting in the tests of dlock.
//!
//! [`eventually`] waits for a condition, [`within`] for a future, and [`poll_times`] drops a future at a chosen await.

mod eventually;
mod poll;
mod within;

pub use eventually::eventually;
pub use poll::{Polled, poll_times, poll_times_then_wake};
pub use within::within;
