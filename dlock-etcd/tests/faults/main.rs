//! Faults of servers, connections and data, each with the outcome that the guarantees name.
#![allow(
    clippy::unwrap_used,
    reason = "a test that fails there has said what it has to say"
)]

mod connections;
mod contention;
mod ensemble;
mod full;
mod login;
mod partition;
mod processes;
mod restore;
#[cfg(target_os = "linux")]
mod slow;
mod world;
