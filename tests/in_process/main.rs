//! Tests that need neither a server nor a second process: locks in memory, runtimes and threads, keys.
//!
//! Nothing here needs Redis, so all of it runs without that feature as well. `lifecycle` installs a
//! manager for the process.
#![allow(
    clippy::unwrap_used,
    reason = "a test that fails there has said what it has to say"
)]

mod beside;
mod blocking;
mod bodies;
#[path = "../common/mod.rs"]
mod common;
mod detach;
mod key_parts;
mod lifecycle;
mod modes;
mod other_libraries;
mod runtimes;
mod store_bounds;
mod traits;
