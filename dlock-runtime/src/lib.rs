//! Leases, renewal, fencing tokens and stores: the implementation behind `dlock-rs`.
//!
//! Applications depend on `dlock-rs`, which re-exports this crate and adds the attribute
//! `#[distributed_lock]`. The modules form layers. Each layer uses only the layers below it:
//!
//! ```text
//! api      managers, requests, guards, and functions for generated code
//! engine   drivers: acquire, renew, release, detach
//! observe  logs and metrics of a call
//! state    the decisions: events in, effects out
//! store    the contract; memory, Redis and a quorum
//! web      an HTTP problem for each error
//! admin    the door of `dlock-admin`, with the feature `admin`
//! answer · attempt · clock · error · exclusive · fence · key · label · options · owner · process · random · site ·
//! sync · telemetry
//! ```
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "admin")]
#[doc(hidden)]
pub mod admin;
mod answer;
mod api;
mod attempt;
#[cfg(feature = "admin")]
#[doc(hidden)]
mod budget;
pub mod clock;
mod engine;
mod error;
mod exclusive;
mod fence;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod key;
mod label;
mod lane;
mod mode;
mod observe;
mod options;
mod owner;
mod process;
pub mod random;
mod site;
mod state;
pub mod store;
mod sync;
mod telemetry;
#[cfg(test)]
mod threads;
#[cfg(any(feature = "axum", feature = "actix-web"))]
pub mod web;

pub use api::blocking;
#[cfg(feature = "registry")]
pub use api::registry::{assert_lock_sites_agree, lock_sites};
#[doc(hidden)]
pub use api::support;
pub use api::{
    builder::LockManagerBuilder,
    global::{install, install_with, installed, shutdown, with_manager},
    guard::{Lease, LockGuard, Release, RunWhileHeld},
    manager::{LockManager, ShutdownReport},
    request::LockRequest,
};
pub use error::{AlreadyInstalled, ConnectError, LockError, LostCause};
pub use fence::FencingToken;
pub use key::{InvalidKeyReason, KeyPart, LockKey, LockKeyBuilder, PartWriter};
pub use mode::LockMode;
pub use options::{MAX_TTL, MIN_TTL, OnLost, Wait};
pub use site::LockSite;
pub use store::{Holder, StoreError, StoreErrorKind};
