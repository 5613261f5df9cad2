//! The names of locks and leases in the history.

use dlock_runtime::store::OwnerId;

/// The lock of an event, by a hash with a random key, so that no keys can be chosen that have the same one.
pub(super) type LockHash = u64;

/// A lease, as all stores recognize it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct LeaseId {
    /// `None` for a third-party client.
    pub(super) owner: Option<OwnerId>,
    pub(super) fence: u64,
    /// A number for the leases of third-party clients, which have no other identity; 0 if the store has none.
    pub(super) mark: u64,
}
