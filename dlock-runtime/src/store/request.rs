//! The requests to a store and their parameters.

mod node;

use std::time::Duration;

use tokio::runtime::Handle;

pub use self::node::{Proposal, RaiseRequest};
use crate::{key::LockKey, mode::LockMode, owner::OwnerId};

/// A request for a key.
///
/// Create it with [`new`](Self::new) and the setters. A wrapper forwards the whole value and changes it by
/// setters, so that fields that are added later pass through.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use dlock::{LockKey, store::{ClientId, LockStore, OwnerId, AcquireOutcome, AcquireRequest, Queue, ReleaseRequest, Released, memory::MemoryStore}, random::SystemRandom};
///
/// let (store, key) = (MemoryStore::new(), LockKey::new("order:42")?);
/// let client = ClientId::new(&SystemRandom);
/// let [one, other] = [1, 2].map(|attempt| OwnerId::new(client, attempt));
/// let ttl = Duration::from_secs(30);
///
/// let granted = store.acquire(AcquireRequest::new(&key, one, ttl)).await?;
/// assert!(matches!(granted, AcquireOutcome::Granted { .. }));
/// let waits = AcquireRequest::new(&key, other, ttl).queue(Queue::ForLease);
/// let busy = store.acquire(waits).await?;
/// assert!(matches!(busy, AcquireOutcome::Busy(holder) if holder.position == Some(0)));
/// assert_eq!(store.release(ReleaseRequest::new(&key, one)).await?, Released::WasHeld);
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct AcquireRequest<'a> {
    /// The lock.
    pub key: &'a LockKey,
    /// The owner that receives the lease.
    pub owner: OwnerId,
    /// The length of the lease.
    pub ttl: Duration,
    /// The mode of the lease. All requests of one owner have the same mode.
    pub mode: LockMode,
    /// Whether the owner enters the queue if the key is held.
    pub queue: Queue,
    /// The name of the holder for other clients: printable ASCII without spaces.
    pub label: &'a str,
    /// The calling function, as in [`LockSite::function`](crate::LockSite::function): printable ASCII without
    /// spaces and `#`. Empty for none.
    pub function: &'a str,
}

impl<'a> AcquireRequest<'a> {
    /// Creates a request for an exclusive lease, without a place in the queue and without a label.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// use dlock::{LockKey, store::{ClientId, LockStore, OwnerId, AcquireRequest, Queue, memory::MemoryStore}, random::SystemRandom};
    ///
    /// let (store, key) = (MemoryStore::new(), LockKey::new("order:42")?);
    /// let owner = OwnerId::new(ClientId::new(&SystemRandom), 1);
    ///
    /// let request = AcquireRequest::new(&key, owner, Duration::from_secs(30))
    ///     .queue(Queue::ForLease)
    ///     .label("billing@host-3/4711");
    /// store.acquire(request).await?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub const fn new(key: &'a LockKey, owner: OwnerId, ttl: Duration) -> Self {
        Self {
            key,
            owner,
            ttl,
            mode: LockMode::Exclusive,
            queue: Queue::No,
            label: "",
            function: "",
        }
    }

    /// Sets another key, for a store that keeps its locks under other names.
    #[must_use]
    pub const fn key(mut self, key: &'a LockKey) -> Self {
        self.key = key;
        self
    }

    /// Sets another owner.
    #[must_use]
    pub const fn owner(mut self, owner: OwnerId) -> Self {
        self.owner = owner;
        self
    }

    /// Sets the length of the lease.
    #[must_use]
    pub const fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// Sets the mode of the lease.
    #[must_use]
    pub const fn mode(mut self, mode: LockMode) -> Self {
        self.mode = mode;
        self
    }

    /// Sets whether the owner waits in the queue if the key is held.
    #[must_use]
    pub const fn queue(mut self, queue: Queue) -> Self {
        self.queue = queue;
        self
    }

    /// Sets the label of the holder.
    #[must_use]
    pub const fn label(mut self, label: &'a str) -> Self {
        self.label = label;
        self
    }

    /// Sets the calling function.
    #[must_use]
    pub const fn function(mut self, function: &'a str) -> Self {
        self.function = function;
        self
    }
}

/// Whether an owner waits in the queue of a held key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Queue {
    /// The owner does not wait, and has no place.
    #[default]
    No,
    /// The owner waits, and becomes the holder when it is the first.
    ForLease,
}

/// A request to renew one lease.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use dlock::{LockKey, store::{ClientId, LockStore, OwnerId, AcquireRequest, RenewRequest, Renewal, memory::MemoryStore}, random::SystemRandom};
///
/// let (store, key) = (MemoryStore::new(), LockKey::new("order:42")?);
/// let owner = OwnerId::new(ClientId::new(&SystemRandom), 1);
/// let ttl = Duration::from_secs(30);
///
/// store.acquire(AcquireRequest::new(&key, owner, ttl)).await?;
/// let renewal = RenewRequest::new(&key, owner, ttl).label("billing@host-3/4711");
/// assert_eq!(store.renew_one(renewal).await?, Renewal::Renewed);
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct RenewRequest<'a> {
    /// The lock.
    pub key: &'a LockKey,
    /// The owner of the lease.
    pub owner: OwnerId,
    /// The length of the lease, counted from the renewal.
    pub ttl: Duration,
    /// The mode of the lease, as in [`AcquireRequest::mode`].
    pub mode: LockMode,
    /// The name of the holder for other clients, as in [`AcquireRequest::label`]; empty to leave it unchanged.
    /// A lease that a release granted to a waiter has no label before its first renewal.
    pub label: &'a str,
    /// The function that holds the lock, as in [`AcquireRequest::function`]. It is set together with the label.
    pub function: &'a str,
}

impl<'a> RenewRequest<'a> {
    /// Creates a renewal of an exclusive lease that leaves the label unchanged.
    #[must_use]
    pub const fn new(key: &'a LockKey, owner: OwnerId, ttl: Duration) -> Self {
        Self {
            key,
            owner,
            ttl,
            mode: LockMode::Exclusive,
            label: "",
            function: "",
        }
    }

    /// Sets another key, for a store that keeps its locks under other names.
    #[must_use]
    pub const fn key(mut self, key: &'a LockKey) -> Self {
        self.key = key;
        self
    }

    /// Sets another owner.
    #[must_use]
    pub const fn owner(mut self, owner: OwnerId) -> Self {
        self.owner = owner;
        self
    }

    /// Sets the length of the lease.
    #[must_use]
    pub const fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// Sets the mode of the lease.
    #[must_use]
    pub const fn mode(mut self, mode: LockMode) -> Self {
        self.mode = mode;
        self
    }

    /// Sets the label of the holder.
    #[must_use]
    pub const fn label(mut self, label: &'a str) -> Self {
        self.label = label;
        self
    }

    /// Sets the function that holds the lock.
    #[must_use]
    pub const fn function(mut self, function: &'a str) -> Self {
        self.function = function;
        self
    }
}

/// Leases that are renewed together.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use dlock::{LockKey, store::{ClientId, LockStore, OwnerId, AcquireRequest, RenewBatch, RenewRequest, Renewal, memory::MemoryStore}, random::SystemRandom};
///
/// let (store, key, free) = (MemoryStore::new(), LockKey::new("order:42")?, LockKey::new("order:7")?);
/// let owner = OwnerId::new(ClientId::new(&SystemRandom), 1);
/// let ttl = Duration::from_secs(30);
///
/// store.acquire(AcquireRequest::new(&key, owner, ttl)).await?;
/// let renewals = [&key, &free].map(|key| RenewRequest::new(key, owner, ttl));
/// let answers = store.renew(RenewBatch::new(&renewals).limit(Duration::from_secs(1))).await;
/// assert_eq!(answers, [Ok(Renewal::Renewed), Ok(Renewal::NotOwner)]);
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct RenewBatch<'a> {
    /// The renewals, each of a different lease.
    pub requests: &'a [RenewRequest<'a>],
    /// The time after which all answers must be returned, with
    /// [`StoreErrorKind::TimedOut`](super::StoreErrorKind::TimedOut) for each lease without one. `None` for the
    /// store's own limit.
    pub limit: Option<Duration>,
    /// The runtime from which a manager renews, if it renews on a thread of its own. A store with connections
    /// may open one for renewals on this runtime. Renewals then wait neither for other requests nor for a
    /// blocked runtime.
    pub runtime: Option<&'a Handle>,
}

impl<'a> RenewBatch<'a> {
    /// Creates a batch of these renewals, with the store's own limit.
    #[must_use]
    pub const fn new(requests: &'a [RenewRequest<'a>]) -> Self {
        Self {
            requests,
            limit: None,
            runtime: None,
        }
    }

    /// Replaces the renewals of the batch.
    #[must_use]
    pub const fn requests(mut self, requests: &'a [RenewRequest<'a>]) -> Self {
        self.requests = requests;
        self
    }

    /// Sets the time after which all answers must be returned.
    #[must_use]
    pub const fn limit(mut self, limit: Duration) -> Self {
        self.limit = Some(limit);
        self
    }

    /// Sets the runtime from which a manager renews.
    #[must_use]
    pub const fn runtime(mut self, runtime: &'a Handle) -> Self {
        self.runtime = Some(runtime);
        self
    }
}

/// A request to release a key, or to leave its queue.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use dlock::{LockKey, store::{ClientId, LockStore, OwnerId, ReleaseRequest, Released, memory::MemoryStore}, random::SystemRandom};
///
/// let (store, key) = (MemoryStore::new(), LockKey::new("order:42")?);
/// let owner = OwnerId::new(ClientId::new(&SystemRandom), 1);
/// assert_eq!(store.release(ReleaseRequest::new(&key, owner)).await?, Released::WasGone);
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ReleaseRequest<'a> {
    /// The lock.
    pub key: &'a LockKey,
    /// The owner of the lease or of the place in the queue.
    pub owner: OwnerId,
    /// The mode of the lease or of the place in the queue, as in [`AcquireRequest::mode`].
    pub mode: LockMode,
}

impl<'a> ReleaseRequest<'a> {
    /// Creates a release of the owner's exclusive lease and of its place in the queue.
    #[must_use]
    pub const fn new(key: &'a LockKey, owner: OwnerId) -> Self {
        Self {
            key,
            owner,
            mode: LockMode::Exclusive,
        }
    }

    /// Sets another key, for a store that keeps its locks under other names.
    #[must_use]
    pub const fn key(mut self, key: &'a LockKey) -> Self {
        self.key = key;
        self
    }

    /// Sets another owner.
    #[must_use]
    pub const fn owner(mut self, owner: OwnerId) -> Self {
        self.owner = owner;
        self
    }
    /// Sets the mode of the lease.
    #[must_use]
    pub const fn mode(mut self, mode: LockMode) -> Self {
        self.mode = mode;
        self
    }
}
