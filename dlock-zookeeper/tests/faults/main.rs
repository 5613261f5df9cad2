//! Servers, processes and connections that are killed, paused and cut off: no two hold a key, tokens grow, and locks come back.
#![allow(
    clippy::unwrap_used,
    reason = "a test that fails there has said what it has to say"
)]

mod connections;
mod contention;
mod counters;
mod ensemble;
mod processes;
mod restore;
mod slow;
mod world;
