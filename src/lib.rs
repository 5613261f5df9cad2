// Here the README's links to a file lead to a module: of two definitions of a link the first counts.
#![doc = "[guarantees]: crate::guarantees\n[guarantees-replicas]: crate::guarantees#replicas-and-sentinel\n"]
#![doc = include_str!("../README.md")]

pub use dlock_macros::{KeyPart, distributed_lock};
pub use dlock_runtime::{
    AlreadyInstalled, ClientId, Clock, ConnectError, FencingToken, ForeignOwner, Holder, KeyFault,
    KeyPart, Lease, LockError, LockGuard, LockKey, LockKeyBuilder, LockManager, LockManagerBuilder,
    LockRequest, LockSite, LockStore, LostCause, MAX_TTL, MIN_TTL, Moment, OnLost, OwnerId,
    PartWriter, Random, Release, Shutdown, StoreError, StoreErrorKind, SystemClock, SystemRandom,
    Wait, Watch, install, install_with, installed, shutdown, store, with_manager,
};

#[cfg(feature = "admin")]
pub use dlock_runtime::admin;

#[cfg(any(feature = "axum", feature = "actix"))]
pub use dlock_runtime::web;

#[cfg(feature = "registry")]
pub use dlock_runtime::{assert_lock_sites_agree, lock_sites};

/// What generated code calls; not for use by hand.
#[doc(hidden)]
pub use dlock_runtime::support as __private;

#[cfg(doc)]
#[doc = include_str!("../docs/guarantees.md")]
pub mod guarantees {}
