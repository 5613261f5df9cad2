// Here the README's links to a file lead to a module: of two definitions of a link the first counts.
#![doc = "[comparison]: crate::comparison\n[guarantees]: crate::guarantees\n[migration]: crate::migration\n[operations]: crate::operations\n[operations-raw]: crate::operations#with-clients-in-other-languages\n[protocol]: crate::protocol\n"]
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

/// Where a document leads to another one, which here is a module.
#[cfg(doc)]
macro_rules! links {
    () => {
        "[comparison]: crate::comparison\n\
         [guarantees]: crate::guarantees\n\
         [guarantees-clocks]: crate::guarantees#clocks-in-one-place\n\
         [guarantees-replicas]: crate::guarantees#replicas-and-sentinel\n\
         [migration]: crate::migration\n\
         [operations]: crate::operations\n\
         [operations-raw]: crate::operations#with-clients-in-other-languages\n\
         [protocol]: crate::protocol\n"
    };
}

#[cfg(doc)]
#[doc = links!()]
#[doc = include_str!("../docs/comparison.md")]
pub mod comparison {}

#[cfg(doc)]
#[doc = include_str!("../docs/guarantees.md")]
pub mod guarantees {}

#[cfg(doc)]
#[doc = include_str!("../docs/observability.md")]
pub mod observability {}

#[cfg(doc)]
#[doc = links!()]
#[doc = include_str!("../docs/migration.md")]
pub mod migration {}

#[cfg(doc)]
#[doc = links!()]
#[doc = include_str!("../docs/operations.md")]
pub mod operations {}

#[cfg(doc)]
#[doc = links!()]
#[doc = include_str!("../docs/protocol.md")]
pub mod protocol {}
