//! What the documents show: every block of code is one, every link leads somewhere, and the client
//! of `docs/protocol.md` works beside ours.
#![cfg(feature = "redis")]
#![allow(
    clippy::unwrap_used,
    reason = "a test that fails there has said what it has to say"
)]

mod blocks;
mod client;
mod commands;
#[path = "../common/mod.rs"]
mod common;
mod document;
mod links;
mod moving;

use std::path::Path;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Fails with everything that is wrong, not with the first of it.
#[track_caller]
fn assert_none(faults: &[String]) {
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
