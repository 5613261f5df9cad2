//! The record of a lease in its store, for code that checks the lease in the store itself.

use crate::{key::LockKey, owner::OwnerId};

/// The record of a lease in its store, see [`Lease::records`](crate::Lease::records).
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// use dlock::store::LeaseRecord;
///
/// /// The parameters of a statement that finds the lease in a table.
/// fn parameters(record: &LeaseRecord<'_>) -> (String, String, u64) {
///     (record.key.to_string(), record.owner.to_string(), record.fence)
/// }
/// # let _: fn(&LeaseRecord<'_>) -> (String, String, u64) = parameters;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeaseRecord<'a> {
    /// The key.
    pub key: &'a LockKey,
    /// The owner of the lease.
    pub owner: OwnerId,
    /// The fence of the lease, of which its token is made.
    pub fence: u64,
}
