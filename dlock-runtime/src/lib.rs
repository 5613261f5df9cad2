//! Leases, renewal, fencing and stores behind `dlock-rs`.
//!
//! Services depend on `dlock-rs`, which re-exports all of this and adds the attribute
//! `#[distributed_lock]`. The modules, by who drives whom:
//!
//! ```text
//! support                     what generated code calls
//! global · request · builder  how a user gets to a manager and a lock
//! manager                     one store, the defaults, the shutdown
//! acquire · guard · detach    drivers: ask and wait, watch and release, outlive the caller
//! keeper · lane · background  drivers: renew, notice losses, release what was left
//! section · local · held      one attempt, the table of keys, the keys of the running code
//! state                       the decisions: events in, effects out
//! store                       the contract; memory, Redis and a quorum
//! web                         what HTTP clients are told of an error
//! clock · error · fence · key · options · owner · random · site · registry · observe
//! ```

mod acquire;
#[cfg(feature = "admin")]
pub mod admin;
mod background;
mod bounds;
mod builder;
mod clock;
mod detach;
mod error;
mod exclusive;
mod fence;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod global;
mod guard;
mod held;
mod keeper;
mod key;
mod lane;
mod local;
mod manager;
mod observe;
mod options;
mod owner;
mod process;
mod random;
#[cfg(feature = "registry")]
mod registry;
mod request;
mod section;
mod site;
mod stall;
mod state;
pub mod store;
#[doc(hidden)]
pub mod support;
mod sync;
#[cfg(test)]
mod threads;
#[cfg(any(feature = "axum", feature = "actix"))]
pub mod web;

pub use builder::LockManagerBuilder;
pub use clock::{Clock, Moment, SystemClock};
pub use error::{AlreadyInstalled, ConnectError, LockError, LostCause};
pub use fence::FencingToken;
pub use global::{install, install_with, installed, shutdown, with_manager};
pub use guard::{Lease, LockGuard, Release, Watch};
pub use key::{KeyFault, KeyPart, LockKey, LockKeyBuilder, PartWriter};
pub use manager::{LockManager, Shutdown};
pub use options::{MAX_TTL, MIN_TTL, OnLost, Wait};
pub use owner::{ClientId, ForeignOwner, OwnerId};
pub use random::{Random, SystemRandom};
#[cfg(feature = "registry")]
pub use registry::{assert_lock_sites_agree, lock_sites};
pub use request::LockRequest;
pub use site::LockSite;
pub use store::{Holder, LockStore, StoreError, StoreErrorKind};
