//! The requests to a store, and what each of them asks for.

mod node;

use std::time::Duration;

use tokio::runtime::Handle;

pub use self::node::{Proposal, RaiseRequest};
use crate::{key::LockKey, owner::OwnerId};

/// A request for a key.
///
/// [`new`](Self::new) and the setters make one. A wrapper that passes requests on passes the whole
/// value, changed by setters: then fields that are added later pass as well.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use dlock::{LockKey, store::{ClientId, LockStore, OwnerId, AcquireOutcome, AcquireRequest, Queue, ReleaseRequest, Released, memory::MemoryStore}, testing::SystemRandom};
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
    /// The owner that the lease is for.
    pub owner: OwnerId,
    /// The length of the lease.
    pub ttl: Duration,
    /// The kind of lease.
    pub mode: LockMode,
    /// The place of the owner if the key is held: in the queue, or none.
    pub queue: Queue,
    /// The holder as others are to see it: printable ASCII without spaces.
    pub label: &'a str,
    /// The function that asks, as in [`LockSite::function`](crate::LockSite::function): printable
    /// ASCII without spaces and `#`. Empty for none.
    pub function: &'a str,
}

impl<'a> AcquireRequest<'a> {
    /// A request for an exclusive lease, without a place in the queue and without a label.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// use dlock::{LockKey, store::{ClientId, LockStore, OwnerId, AcquireRequest, Queue, memory::MemoryStore}, testing::SystemRandom};
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

    /// The same request for another key, for a store that keeps its locks elsewhere.
    #[must_use]
    pub const fn key(mut self, key: &'a LockKey) -> Self {
        self.key = key;
        self
    }

    /// The same request for another owner.
    #[must_use]
    pub const fn owner(mut self, owner: OwnerId) -> Self {
        self.owner = owner;
        self
    }

    /// The same request for a lease of this length.
    #[must_use]
    pub const fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// Sets the kind of lease.
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

    /// Sets the function that asks.
    #[must_use]
    pub const fn function(mut self, function: &'a str) -> Self {
        self.function = function;
        self
    }
}

/// The kind of a lease.
///
/// A store refuses a mode that it does not know, with
/// [`StoreErrorKind::Unsupported`](super::StoreErrorKind::Unsupported); its
/// [properties](super::StoreProperties::modes) name those that it knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LockMode {
    /// One holder at a time.
    #[default]
    Exclusive,
}

/// The choice whether an owner waits in the queue of a key that is held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Queue {
    /// It does not, and has no place.
    #[default]
    No,
    /// It does, and is made the holder when it is the first.
    ForLease,
}

/// A request to renew one lease.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use dlock::{LockKey, store::{ClientId, LockStore, OwnerId, AcquireRequest, RenewRequest, Renewal, memory::MemoryStore}, testing::SystemRandom};
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
    /// The length of the lease from now on.
    pub ttl: Duration,
    /// The holder as others are to see it, as in [`AcquireRequest::label`]; empty to leave it as
    /// it is. A lease that a release has granted to a waiter has no label before its first renewal.
    pub label: &'a str,
    /// The function that holds it, as in [`AcquireRequest::function`]; it goes with the label.
    pub function: &'a str,
}

impl<'a> RenewRequest<'a> {
    /// A renewal that leaves the label as it is.
    #[must_use]
    pub const fn new(key: &'a LockKey, owner: OwnerId, ttl: Duration) -> Self {
        Self {
            key,
            owner,
            ttl,
            label: "",
            function: "",
        }
    }

    /// The same request for another key, for a store that keeps its locks elsewhere.
    #[must_use]
    pub const fn key(mut self, key: &'a LockKey) -> Self {
        self.key = key;
        self
    }

    /// The same request for another owner.
    #[must_use]
    pub const fn owner(mut self, owner: OwnerId) -> Self {
        self.owner = owner;
        self
    }

    /// The same request for a lease of this length.
    #[must_use]
    pub const fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
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
/// use dlock::{LockKey, store::{ClientId, LockStore, OwnerId, AcquireRequest, RenewBatch, RenewRequest, Renewal, memory::MemoryStore}, testing::SystemRandom};
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
    /// The renewals, each of another lease.
    pub requests: &'a [RenewRequest<'a>],
    /// The time after which all answers are there, with
    /// [`StoreErrorKind::TimedOut`](super::StoreErrorKind::TimedOut) where nothing is known. `None`
    /// for the store's own limit.
    pub limit: Option<Duration>,
    /// The runtime from which a manager renews from now on, if it renews on a thread of its own. A
    /// store with connections may open one for renewals there, so that they wait neither for other
    /// requests nor for a runtime that is stuck.
    pub runtime: Option<&'a Handle>,
}

impl<'a> RenewBatch<'a> {
    /// These renewals, with the store's own limit.
    #[must_use]
    pub const fn new(requests: &'a [RenewRequest<'a>]) -> Self {
        Self {
            requests,
            limit: None,
            runtime: None,
        }
    }

    /// The same batch with other renewals.
    #[must_use]
    pub const fn requests(mut self, requests: &'a [RenewRequest<'a>]) -> Self {
        self.requests = requests;
        self
    }

    /// Sets the time after which all answers are there.
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

/// A request to give up a key, or the place in its queue.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use dlock::{LockKey, store::{ClientId, LockStore, OwnerId, ReleaseRequest, Released, memory::MemoryStore}, testing::SystemRandom};
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
    /// The owner of the lease or of the place.
    pub owner: OwnerId,
}

impl<'a> ReleaseRequest<'a> {
    /// A release of all that the owner has of the key.
    #[must_use]
    pub const fn new(key: &'a LockKey, owner: OwnerId) -> Self {
        Self { key, owner }
    }

    /// The same request for another key, for a store that keeps its locks elsewhere.
    #[must_use]
    pub const fn key(mut self, key: &'a LockKey) -> Self {
        self.key = key;
        self
    }

    /// The same request for another owner.
    #[must_use]
    pub const fn owner(mut self, owner: OwnerId) -> Self {
        self.owner = owner;
        self
    }
}
