//! Faults of servers, networks, processes, disks, clocks, settings and tables: locks that are held stay held or are lost
//! in time, callers get a clear error, and nothing is left behind.
#![allow(
    clippy::unwrap_used,
    reason = "a test that fails there has said what it has to say"
)]

mod connections;
mod contention;
mod failover;
mod late;
mod machine;
mod poolers;
mod processes;
mod servers;
mod settings;
mod tables;
mod transactions;
mod world;
