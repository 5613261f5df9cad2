//! What the server keeps for good: fences, of which there are few, and which may be lost.
#![cfg(feature = "redis")]
#![allow(
    clippy::unwrap_used,
    reason = "a test that fails there has said what it has to say"
)]

mod bounded;
#[path = "../common/mod.rs"]
mod common;
mod compared;
mod forgotten;
