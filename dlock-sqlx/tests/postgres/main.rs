//! Leases in transactions of sqlx, over a real server.
#![allow(
    clippy::unwrap_used,
    reason = "a test that fails there has said what it has to say"
)]

mod cancellation;
mod database;
mod fence;
mod handler;
#[path = "../../../dlock-postgres/tests/isolation/mod.rs"]
mod isolation;
mod lock_in;
mod pooler;
