//! The files of `ops/`: the dashboard and the rules use the metrics that dlock exports, promtool accepts them, each alert
//! fires for its cause, and systemd accepts the unit.
#![cfg(feature = "redis")]
#![allow(
    clippy::unwrap_used,
    reason = "a test that fails there has said what it has to say"
)]

mod code;
#[path = "../common/mod.rs"]
mod common;
mod dashboard;
#[cfg(feature = "metrics")]
mod exported;
mod files;
mod jobs;
mod names;
mod promql;
mod rules;
mod unit;

use common::root;

/// Fails with everything that is wrong, not with the first of it.
#[track_caller]
fn assert_none(faults: &[String]) {
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
