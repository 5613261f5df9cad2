//! Annotated handlers of axum and actix-web behind real sockets: the responses when a lock cannot be acquired, and the
//! release of a lock whose client disconnects.
#![cfg(all(feature = "redis", feature = "axum", feature = "actix-web"))]
#![allow(
    clippy::unwrap_used,
    reason = "a test that fails there has said what it has to say"
)]

mod actix_site;
mod answers;
mod axum_site;
#[path = "../common/mod.rs"]
mod common;
mod hang_ups;
mod site;
