//! What needs several servers, some of which fail: masters and Sentinels, a cluster, a quorum.
#![allow(
    clippy::unwrap_used,
    reason = "a test that fails there has said what it has to say"
)]

#[cfg(feature = "redis")]
mod cluster;
#[path = "../common/mod.rs"]
mod common;
mod quorum;
#[cfg(feature = "redis")]
mod sentinel;
mod virtual_ip;
