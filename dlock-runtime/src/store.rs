//! The contract between dlock and the store that grants locks.
//!
//! A store knows keys, owners and time. It does not know tasks, guards or renewal schedules. *Busy* and *not
//! the owner* are answers, not errors. An `Err` means that the outcome is unknown: the request may or may not
//! have been carried out. The exceptions are errors of a [kind](StoreErrorKind) that has no effect, and
//! [unsent](StoreError::unsent) requests.

mod boxed;
mod contract;
mod hint;
pub mod memory;
mod node;
mod properties;
pub mod quorum;
mod record;
#[cfg(feature = "redis")]
pub mod redis;
mod request;
mod scheme;
mod schemes;
mod url;

pub(crate) use boxed::{DynNode, DynStore, OwnStore};
pub use contract::{LockStore, renew_each};
pub use hint::{Hint, HintReceiver, HintSink};
pub use node::QuorumNode;
pub use properties::{Detaching, Drift, StoreHooks, StoreProperties};
pub use record::LeaseRecord;
pub use request::{
    AcquireRequest, Proposal, Queue, RaiseRequest, ReleaseRequest, RenewBatch, RenewRequest,
};
pub use scheme::{StoreOptions, StoreScheme};
pub(crate) use schemes::{Schemes, StoreKind};

pub use crate::{
    answer::{ALIVE, AcquireOutcome, GRANT_TTL, Holder, Raised, Released, Renewal, StoreToken},
    error::{StoreError, StoreErrorKind},
    fence::fence_by_the_clock,
    mode::{LockMode, LockModes},
    owner::{ClaimHandle, ClientId, ForeignOwner, InvalidHandle, OwnerId},
};
