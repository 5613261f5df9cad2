//! Tests that need processes: paused ones, those that end without a word, and bodies that block the threads
//! of theirs.
#![allow(
    clippy::unwrap_used,
    reason = "a test that fails there has said what it has to say"
)]

#[path = "../common/mod.rs"]
mod common;
#[cfg(feature = "redis")]
mod ends;
mod hogs;
#[cfg(feature = "redis")]
mod paused;
#[cfg(feature = "redis")]
mod sharing;
