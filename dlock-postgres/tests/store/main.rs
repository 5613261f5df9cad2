//! The store over a real server: its contract, and what transactions may rely on.
#![allow(
    clippy::unwrap_used,
    reason = "a test that fails there has said what it has to say"
)]

mod adopted;
mod contract;
mod database;
mod faults;
mod fence;
#[path = "../isolation/mod.rs"]
mod isolation;
mod lock_in;
mod locked_rows;
mod messages;
mod others;
#[cfg(feature = "admin")]
mod parts;
#[cfg(feature = "admin")]
mod rights;
mod rows;
mod runtimes;
mod schema;
mod unpolled;
#[cfg(feature = "admin")]
mod upgrade;
