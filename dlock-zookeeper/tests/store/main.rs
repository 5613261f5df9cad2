//! The store over an ensemble of three servers: the contract, and what only ZooKeeper does.
#![allow(
    clippy::unwrap_used,
    reason = "a test that fails there has said what it has to say"
)]

#[cfg(feature = "admin")]
mod admin;
mod alone;
mod astray;
mod bases;
mod behind;
mod check;
mod claims;
mod contract;
mod login;
mod scripted;
mod sessions;
mod sharing;
#[cfg(feature = "tls")]
mod tls;
mod unanswered;
mod waiting;
mod world;
