//! What an owner asks of a store.

use std::time::Duration;

use crate::{key::LockKey, owner::OwnerId};

/// What an owner asks for.
///
/// Whoever asks is best served by [`new`](Self::new) and what differs from it; whoever passes
/// requests on should name all fields, and then learns from the compiler of a new one.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use dlock::{
///     ClientId, LockKey, LockStore, OwnerId, SystemRandom,
///     store::{AcquireRequest, AcquireOutcome, Queue, Released, memory::MemoryStore},
/// };
///
/// let (store, key) = (MemoryStore::new(), LockKey::new("order:42")?);
/// let client = ClientId::new(&SystemRandom);
/// let [one, other] = [1, 2].map(|attempt| OwnerId::new(client, attempt));
/// let ttl = Duration::from_secs(30);
///
/// let granted = store.acquire(AcquireRequest::new(&key, one, ttl)).await?;
/// assert!(matches!(granted, AcquireOutcome::Granted { .. }));
/// let question = AcquireRequest { queue: Queue::ForLease, ..AcquireRequest::new(&key, other, ttl) };
/// let busy = store.acquire(question).await?;
/// assert!(matches!(busy, AcquireOutcome::Busy(holder) if holder.position == Some(0)));
/// assert_eq!(store.release(&key, one).await?, Released::WasHeld);
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct AcquireRequest<'a> {
    /// The lock.
    pub key: &'a LockKey,
    /// Who asks.
    pub owner: OwnerId,
    /// How long the lease lasts without a sign of life.
    pub ttl: Duration,
    /// Whether to wait in the queue if the key is held, and what for.
    pub queue: Queue,
    /// What to tell others about the holder: printable ASCII without spaces.
    pub label: &'a str,
    /// The function that asks, as in [`LockSite::function`](crate::LockSite::function): printable
    /// ASCII without spaces and `#`. Empty for none.
    pub function: &'a str,
    /// What a new fence is to be at least, in place of the store's own clock, so that several
    /// stores count the same one. The store still counts a greater one if this was reached before.
    /// `None` for the store's own clock.
    pub proposal: Option<u64>,
}

impl<'a> AcquireRequest<'a> {
    /// A question without a place in the queue, a label and a proposal.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// use dlock::{
    ///     ClientId, LockKey, LockStore, OwnerId, SystemRandom,
    ///     store::{AcquireRequest, Queue, memory::MemoryStore},
    /// };
    ///
    /// let (store, key) = (MemoryStore::new(), LockKey::new("order:42")?);
    /// let owner = OwnerId::new(ClientId::new(&SystemRandom), 1);
    /// let ttl = Duration::from_secs(30);
    ///
    /// let question = AcquireRequest {
    ///     queue: Queue::ForLease,
    ///     label: "billing@host-3/4711",
    ///     ..AcquireRequest::new(&key, owner, ttl)
    /// };
    /// store.acquire(question).await?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn new(key: &'a LockKey, owner: OwnerId, ttl: Duration) -> Self {
        Self {
            key,
            owner,
            ttl,
            queue: Queue::No,
            label: "",
            function: "",
            proposal: None,
        }
    }
}

/// What an owner waits for in the queue of a key that is held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Queue {
    /// For nothing: it has no place.
    #[default]
    No,
    /// To be made the holder when it is the first.
    ForLease,
    /// To be told when the key is free and it is the first. It is told by a
    /// [`Hint`](super::Hint) with a fence of 0 and leaves the queue by that. It gets no precedence:
    /// whoever asks first has the key.
    ///
    /// For one of several stores, which must not decide by itself who is next.
    ForNotice,
}

/// What an owner asks for that holds a lease.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use dlock::{
///     ClientId, LockKey, LockStore, OwnerId, SystemRandom,
///     store::{AcquireRequest, RenewRequest, Renewal, memory::MemoryStore},
/// };
///
/// let (store, key) = (MemoryStore::new(), LockKey::new("order:42")?);
/// let owner = OwnerId::new(ClientId::new(&SystemRandom), 1);
/// let ttl = Duration::from_secs(30);
///
/// store.acquire(AcquireRequest::new(&key, owner, ttl)).await?;
/// let renewal = RenewRequest { key: &key, owner, ttl, label: "billing@host-3/4711", function: "" };
/// assert_eq!(store.renew(renewal).await?, Renewal::Renewed);
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct RenewRequest<'a> {
    /// The lock.
    pub key: &'a LockKey,
    /// Who asks.
    pub owner: OwnerId,
    /// How long the lease lasts from now on without another sign of life.
    pub ttl: Duration,
    /// What to tell others about the holder, as in [`AcquireRequest::label`]; empty to leave it as
    /// it is. A lease that a releaser has handed to a waiter has no label before its first renewal.
    pub label: &'a str,
    /// The function that holds it, as in [`AcquireRequest::function`]; it goes with the label.
    pub function: &'a str,
}
