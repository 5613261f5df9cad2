//! Everything that awaits, interrupted at every await: dropped, stopped with its runtime, ended by a
//! panic, or told that its manager shuts down.
//!
//! `operations.rs` says what is interrupted, each of the other files how. After every single
//! interruption another process gets the lock, without waiting for a TTL where anything lives that
//! can give it back; the table of keys is empty, the store has forgotten everybody who asked, and no
//! task is left. Each test prints how many interruptions there were and wants as many as there are
//! awaits, so that one that is not reached any more is noticed.
#![allow(
    clippy::unwrap_used,
    reason = "a test that fails there has said what it has to say"
)]

#[path = "../common/mod.rs"]
mod common;
mod dropped;
mod guards;
mod operations;
mod panics;
mod runtimes;
mod shutdown;
mod stage;
mod stepwise;
