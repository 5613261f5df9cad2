//! Locks that are shared with clients of another make: the `Lock` of redis-py, in real processes
//! over a real server.
#![cfg(feature = "redis")]
#![allow(
    clippy::unwrap_used,
    reason = "a test that fails there has said what it has to say"
)]

#[path = "../common/mod.rs"]
mod common;
mod crowd;
mod foreign;
mod lifetimes;
mod turns;

/// The same text in both languages.
const KEY: &str = "order:42";
