//! What needs real servers that no test kills: a module for each subject.
//!
//! No test here may install a manager for the process: some are about a process without one.
#![cfg(feature = "redis")]
#![recursion_limit = "256"]
#![allow(
    clippy::unwrap_used,
    reason = "a test that fails there has said what it has to say"
)]

mod admin;
mod bad_input;
mod blocking;
#[path = "../common/mod.rs"]
mod common;
mod connection;
mod contention;
mod fences;
mod interop;
mod logged;
mod metrics;
mod options;
mod server_clocks;
mod several_keys;
mod spans;
