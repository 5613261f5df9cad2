//! The store over a real server: its contract, and what transactions may rely on.
#![allow(
    clippy::unwrap_used,
    reason = "a test that fails there has said what it has to say"
)]

mod adopted;
mod answers;
mod bounds;
mod contract;
mod database;
mod faults;
mod fence;
#[cfg(feature = "admin")]
mod inspect;
#[path = "../isolation/mod.rs"]
mod isolation;
mod lock_in;
mod locked_rows;
mod logs;
mod messages;
mod others;
mod pages;
#[cfg(feature = "admin")]
mod parts;
mod queue;
#[cfg(feature = "admin")]
mod rights;
mod rows;
mod runtimes;
mod schema;
mod silent;
mod sweep;
#[cfg(feature = "admin")]
mod upgrade;
