//! What the documents show: every block of code is one, every link leads somewhere, the client of
//! `docs/book/src/reference/protocol.md` works beside ours, every error is on its page, every test that is named is there,
//! and the examples do what they print.
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
mod documented;
mod error_page;
mod examples;
mod links;
mod moving;
mod scenarios;

use common::root;

/// Fails with everything that is wrong, not with the first of it.
#[track_caller]
fn assert_none(faults: &[String]) {
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
