//! The store over a real server: its contract, and what only etcd does.
#![allow(
    clippy::unwrap_used,
    reason = "a test that fails there has said what it has to say"
)]

mod compare;
mod contract;
mod fresh;
mod keys;
mod large;
mod late;
mod names;
#[cfg(feature = "admin")]
mod parts;
mod quiet;
mod runtimes;
mod waiting;
