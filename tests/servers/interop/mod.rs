//! Locks that are shared with clients of another make: the `Lock` of redis-py, in real processes
//! over a real server.
#![cfg(feature = "redis")]

mod crowd;
mod foreign;
mod lifetimes;
mod turns;

/// The same text in both languages.
const KEY: &str = "order:42";
