//! The contract between dlock and the store that decides who holds a key.
//!
//! A store knows keys, owners and time; it knows nothing of tasks, guards or renewal. *Busy* and
//! *not yours* are answers. An `Err` always means that the outcome is unknown: the request may or
//! may not have been carried out.

mod answer;
mod boxed;
mod contract;
mod error;
mod hint;
pub mod memory;
mod node;
mod properties;
pub mod quorum;
#[cfg(feature = "redis")]
pub mod redis;
mod request;
mod scheme;
mod schemes;

use std::time::Duration;

pub use answer::{AcquireOutcome, Holder, Raised, Released, Renewal, StoreToken};
pub(crate) use boxed::{DynNode, DynStore, OwnStore};
pub use contract::{LockStore, renew_each};
pub use error::{StoreError, StoreErrorKind};
pub use hint::{Hint, HintReceiver, HintSink};
pub use node::QuorumNode;
pub use properties::{Detaching, Drift, StoreHooks, StoreProperties};
pub use request::{AcquireRequest, LockMode, Proposal, Queue, RenewBatch, RenewRequest};
pub use scheme::{StoreOptions, StoreScheme};
pub(crate) use schemes::Schemes;

/// The time for which a waiter counts as alive after its last request.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// use std::time::Duration;
/// use dlock::{LockManager, store::ALIVE};
///
/// // Two questions fit into it even if each takes as long as it may.
/// let builder = LockManager::builder().response_timeout(Duration::from_millis(1400));
/// assert!(ALIVE > 2 * Duration::from_millis(1400));
/// # drop(builder);
/// ```
pub const ALIVE: Duration = Duration::from_secs(3);

/// The TTL of a lease that is granted to the next waiter, unless the waiter renews it or asks.
///
/// Neither longer, as the waiter may have died, nor shorter, as it trusts that much, see [`Hint`].
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// use std::time::Duration;
/// use dlock::store::GRANT_TTL;
///
/// // How long a lease lasts at first that comes by a hint.
/// let ttl = Duration::from_secs(30);
/// assert_eq!(ttl.min(GRANT_TTL), Duration::from_secs(3));
/// ```
pub const GRANT_TTL: Duration = Duration::from_secs(3);
