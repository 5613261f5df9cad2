//! Faults of servers and processes that several stores have in common, and the promises that each store keeps.
//!
//! A test of a store calls a scenario with its [`World`]: one about an ensemble in [`ensemble`], [`contention`] and [`slow`],
//! one about processes in [`processes`]. A [`Process`] and a [`Resource`] see promises kept or broken. The faults of one store
//! alone are in its own tests.
#![allow(
    clippy::missing_panics_doc,
    reason = "every function here panics when a promise is broken; that is what it is for"
)]
#![allow(
    clippy::unwrap_used,
    reason = "a scenario that fails there has said what it has to say"
)]
#![allow(
    async_fn_in_trait,
    reason = "a test awaits these futures itself, so they need no `Send`"
)]

pub mod contention;
pub mod ensemble;
mod errors;
mod process;
pub mod processes;
mod resource;
pub mod slow;
mod world;

pub use errors::{names, unavailable};
pub use process::{Process, grew, is_released};
pub use resource::{Inside, Resource};
pub use world::{Together, World};
