//! The contract of a store: three requests, and the properties that managers need.

use std::{future::Future, iter, sync::Arc};

use futures_util::future::join_all;
use tokio::time::timeout;

use super::{
    AcquireOutcome, AcquireRequest, ReleaseRequest, Released, RenewBatch, RenewRequest, Renewal,
    StoreError, StoreErrorKind, StoreProperties,
};
/// Grants, renews and releases locks.
///
/// Implement this trait to use dlock with a store of your own.
///
/// Every request is idempotent for its owner, because a client repeats a request that got no answer. The store
/// measures all times by its own clock. The manager limits each request by a timer, unless the store limits it
/// itself, see [`StoreProperties::gives_up_after`].
///
/// A request must not block its thread: other tasks run on it, perhaps renewals too. [`renew`](Self::renew) may
/// be called on another runtime and thread than [`acquire`](Self::acquire).
///
/// A lease is never shorter than the TTL that `acquire` or `renew` requests. A store refuses a TTL that it
/// cannot keep with [`StoreErrorKind::Unsupported`], and does not shorten it. Managers request only TTLs within
/// the bounds in its [properties](StoreProperties::ttls).
///
/// Fences are numbers from 1 to 2<sup>51</sup> − 1, see [`AcquireOutcome::Granted`]. The fences of exclusive
/// leases of a key always increase: they survive a restart of the store and the end of every lease and queue. Fences of different keys
/// are not compared; [`last_fence`](super::Holder::last_fence) is the last fence of its key.
///
/// Two keys are the same lock only if all their bytes are equal.
///
/// All methods are required, except [`renew_one`](Self::renew_one), which is a shortcut for a batch of one. A
/// wrapper that forwards each request to the same method therefore loses nothing: batches are the argument of
/// `renew`, and the [`properties`](Self::properties) contain limits, drift, hints and future additions. A
/// wrapper that forwards a batch by `renew_one` or [`renew_each`] compiles too, but loses both the batch and
/// the [runtime](RenewBatch::runtime) for renewals.
///
/// # Levels
///
/// A store need not implement all features of a request. A missing feature costs its users something, but never
/// safety:
///
/// | level | the store must implement | the store may ignore | disadvantage for users |
/// |---|---|---|---|
/// | minimal | `acquire`, `renew`, `release`; fences that increase; leases that expire by themselves | [`queue`](AcquireRequest::queue) (with `position: None` in its answers), hints, `label` and `function`, the [hooks](super::StoreHooks) | waiters poll, so a free lock is acquired late and in no order; `Busy` does not name the holder |
/// | queue | also: a place in the queue, in the order of arrival, for [`ALIVE`](super::ALIVE) after each request; labels | grants, hints | waiters poll; no order |
/// | grants | also: a release makes the first waiter the holder for [`GRANT_TTL`](super::GRANT_TTL) and notifies it by a [`Hint`](super::Hint); no request overtakes a waiter; [`grants`](StoreProperties::grants) in its properties | the last resort, [`release_at_once`](super::StoreHooks::release_at_once) | a lease that is held when its runtime ends stays until its TTL ends |
/// | quorum node | also: [`QuorumNode`](super::QuorumNode) | – | – |
///
/// The crate `dlock-conformance` tests a store at the level that it claims, and names the rule that it breaks.
/// [`memory::MemoryStore`](super::memory::MemoryStore) is the reference implementation.
///
/// # Errors
///
/// Every request fails with a [`StoreError`] when its outcome is unknown or when it had no effect, see
/// [`StoreErrorKind`].
///
/// # Cancel safety
///
/// The manager drops the future of a request at any await when its time is over or its caller is gone. A
/// request that was already sent may still be carried out, before any later request of the same owner.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::sync::{Arc, atomic::{AtomicUsize, Ordering}};
/// use dlock::{LockManager, StoreError, store::{LockStore, AcquireRequest, AcquireOutcome, ReleaseRequest, Released, RenewBatch, Renewal, StoreProperties, memory::MemoryStore}};
///
/// /// Counts the requests to another store. A store of your own answers them instead.
/// struct Counted<S> {
///     store: S,
///     requests: Arc<AtomicUsize>,
/// }
///
/// impl<S: LockStore> LockStore for Counted<S> {
///     async fn acquire(&self, request: AcquireRequest<'_>) -> Result<AcquireOutcome, StoreError> {
///         self.requests.fetch_add(1, Ordering::Relaxed);
///         self.store.acquire(request).await
///     }
///
///     async fn renew(&self, batch: RenewBatch<'_>) -> Vec<Result<Renewal, StoreError>> {
///         self.store.renew(batch).await
///     }
///
///     async fn release(&self, request: ReleaseRequest<'_>) -> Result<Released, StoreError> {
///         self.store.release(request).await
///     }
///
///     fn properties(&self) -> StoreProperties<'_> {
///         self.store.properties()
///     }
/// }
///
/// let requests = Arc::new(AtomicUsize::new(0));
/// let store = Counted { store: MemoryStore::new(), requests: requests.clone() };
/// let manager = LockManager::builder().build_with_store(store)?;
/// manager.lock("order:42").run(async |_lease| ()).await?;
/// assert_eq!(requests.load(Ordering::Relaxed), 1);
/// # Ok(()) }
/// ```
pub trait LockStore: Send + Sync + 'static {
    /// Requests a lease for the key.
    ///
    /// - The owner already holds the key: the TTL starts anew, and the answer has the same fence.
    /// - The key is free, and no living waiter is ahead of this owner: the owner becomes the holder, with a
    ///   fence greater than every earlier one.
    /// - The key is free, but other owners wait: the first of them becomes the holder for
    ///   [`GRANT_TTL`](super::GRANT_TTL) and is notified.
    /// - The key is shared, [`mode`](AcquireRequest::mode) admits another holder, and no living waiter is ahead: the
    ///   owner joins the holders, with their fence. A mode that is not in [`StoreProperties::modes`] is refused.
    /// - Otherwise the owner enters the queue or renews its place in it, depending on
    ///   [`AcquireRequest::queue`].
    ///
    /// Errors and cancel safety are those of [the trait](LockStore#errors).
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// use dlock::{LockKey, store::{ClientId, LockStore, OwnerId, AcquireRequest, AcquireOutcome, memory::MemoryStore}, random::SystemRandom};
    ///
    /// let (store, key) = (MemoryStore::new(), LockKey::new("order:42")?);
    /// let owner = OwnerId::new(ClientId::new(&SystemRandom), 1);
    /// let ttl = Duration::from_secs(30);
    ///
    /// let first = store.acquire(AcquireRequest::new(&key, owner, ttl)).await?;
    /// assert!(matches!(first, AcquireOutcome::Granted { .. }));
    /// // A repeated request finds the lease of the first, with the same fence.
    /// assert_eq!(store.acquire(AcquireRequest::new(&key, owner, ttl)).await?, first);
    /// # Ok(()) }
    /// ```
    fn acquire(
        &self,
        request: AcquireRequest<'_>,
    ) -> impl Future<Output = Result<AcquireOutcome, StoreError>> + Send;

    /// Renews leases: for each lease that its owner still holds, the TTL starts anew and the label is set. The
    /// answers are in the order of the requests, and complete after the [limit](RenewBatch::limit) at the
    /// latest.
    ///
    /// A renewal without an answer must not prevent the other renewals. A store should send all of them at once
    /// if it can; otherwise it uses [`renew_each`]. A wrapper forwards the batch unchanged: through
    /// `renew_each` or [`renew_one`](Self::renew_one), the wrapped store sees neither the batch nor its
    /// [runtime](RenewBatch::runtime).
    ///
    /// Errors and cancel safety are those of [the trait](LockStore#errors).
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// use dlock::{LockKey, store::{ClientId, LockStore, OwnerId, AcquireRequest, RenewBatch, RenewRequest, Renewal, memory::MemoryStore}, random::SystemRandom};
    ///
    /// let (store, key) = (MemoryStore::new(), LockKey::new("order:42")?);
    /// let owner = OwnerId::new(ClientId::new(&SystemRandom), 1);
    /// let ttl = Duration::from_secs(30);
    ///
    /// let renewals = [RenewRequest::new(&key, owner, ttl)];
    /// assert_eq!(store.renew(RenewBatch::new(&renewals)).await, [Ok(Renewal::NotOwner)]);
    /// store.acquire(AcquireRequest::new(&key, owner, ttl)).await?;
    /// assert_eq!(store.renew(RenewBatch::new(&renewals)).await, [Ok(Renewal::Renewed)]);
    /// # Ok(()) }
    /// ```
    fn renew(
        &self,
        batch: RenewBatch<'_>,
    ) -> impl Future<Output = Vec<Result<Renewal, StoreError>>> + Send;

    /// Releases the key, or leaves its queue. The first living waiter becomes the holder for
    /// [`GRANT_TTL`](super::GRANT_TTL), and is notified.
    ///
    /// Errors and cancel safety are those of [the trait](LockStore#errors).
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// use dlock::{LockKey, store::{ClientId, LockStore, OwnerId, AcquireRequest, ReleaseRequest, Released, memory::MemoryStore}, random::SystemRandom};
    ///
    /// let (store, key) = (MemoryStore::new(), LockKey::new("order:42")?);
    /// let owner = OwnerId::new(ClientId::new(&SystemRandom), 1);
    /// let ttl = Duration::from_secs(30);
    ///
    /// store.acquire(AcquireRequest::new(&key, owner, ttl)).await?;
    /// let release = ReleaseRequest::new(&key, owner);
    /// assert_eq!(store.release(release).await?, Released::WasHeld);
    /// assert_eq!(store.release(release).await?, Released::WasGone);
    /// # Ok(()) }
    /// ```
    fn release(
        &self,
        request: ReleaseRequest<'_>,
    ) -> impl Future<Output = Result<Released, StoreError>> + Send;

    /// Returns the properties that a manager needs. The manager reads them once, when it is created, except for
    /// the [hooks](StoreProperties::hooks).
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::store::{LockStore, Drift, memory::MemoryStore};
    ///
    /// let store = MemoryStore::new();
    /// let properties = store.properties();
    /// assert!(properties.grants, "a release makes the first waiter the holder");
    /// assert_eq!(properties.drift, Drift::NONE, "holder and store read the same clock");
    /// ```
    fn properties(&self) -> StoreProperties<'_>;

    /// Renews one lease with the store's own limit: a [batch](Self::renew) of one.
    ///
    /// Managers renew in batches. A wrapper that turns a batch into single renewals loses all other fields of
    /// the batch.
    ///
    /// Errors and cancel safety are those of [the trait](LockStore#errors).
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// use dlock::{LockKey, store::{ClientId, LockStore, OwnerId, RenewRequest, Renewal, memory::MemoryStore}, random::SystemRandom};
    ///
    /// let (store, key) = (MemoryStore::new(), LockKey::new("order:42")?);
    /// let owner = OwnerId::new(ClientId::new(&SystemRandom), 1);
    /// let renewal = RenewRequest::new(&key, owner, Duration::from_secs(30));
    /// assert_eq!(store.renew_one(renewal).await?, Renewal::NotOwner);
    /// # Ok(()) }
    /// ```
    fn renew_one(
        &self,
        request: RenewRequest<'_>,
    ) -> impl Future<Output = Result<Renewal, StoreError>> + Send {
        async move {
            let requests = [request];
            only(self.renew(RenewBatch::new(&requests)).await)
        }
    }
}

/// Shares one store between several managers, or between a manager and tests that inspect it.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::sync::Arc;
/// use dlock::{LockManager, store::memory::MemoryStore};
///
/// let store = Arc::new(MemoryStore::new());
/// let manager = LockManager::builder().build_with_store(store.clone())?;
/// manager.lock("order:42").run(async |_lease| assert!(!store.is_empty())).await?;
/// # Ok(()) }
/// ```
impl<S: LockStore> LockStore for Arc<S> {
    async fn acquire(&self, request: AcquireRequest<'_>) -> Result<AcquireOutcome, StoreError> {
        S::acquire(self, request).await
    }

    async fn renew(&self, batch: RenewBatch<'_>) -> Vec<Result<Renewal, StoreError>> {
        S::renew(self, batch).await
    }

    async fn release(&self, request: ReleaseRequest<'_>) -> Result<Released, StoreError> {
        S::release(self, request).await
    }

    fn properties(&self) -> StoreProperties<'_> {
        S::properties(self)
    }

    async fn renew_one(&self, request: RenewRequest<'_>) -> Result<Renewal, StoreError> {
        S::renew_one(self, request).await
    }
}

/// Returns the answer to a batch of one.
pub(super) fn only(mut answers: Vec<Result<Renewal, StoreError>>) -> Result<Renewal, StoreError> {
    answers.pop().unwrap_or_else(|| {
        let message = "the store did not answer a renewal";
        Err(StoreError::new(StoreErrorKind::TimedOut, message))
    })
}

/// Renews a batch by one request for each lease, all at the same time and each within the batch's limit. Use it
/// in a store that cannot send several renewals in one request.
///
/// Do not use it in a wrapper, because the wrapped store may support batches: `renew` receives single requests,
/// without the batch and its [runtime](RenewBatch::runtime).
///
/// # Cancel safety
///
/// If the future is dropped early, all of its renewals are dropped. Each of them may or may not be carried out.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use dlock::{LockKey, StoreError, store::{ClientId, OwnerId, RenewBatch, RenewRequest, Renewal, renew_each}, random::SystemRandom};
///
/// /// Renews one lease. In this example it has always ended.
/// async fn renew_one(_request: RenewRequest<'_>) -> Result<Renewal, StoreError> {
///     Ok(Renewal::NotOwner)
/// }
///
/// let (key, owner) = (LockKey::new("order:42")?, OwnerId::new(ClientId::new(&SystemRandom), 1));
/// let renewals = [RenewRequest::new(&key, owner, Duration::from_secs(30)); 2];
/// let answers = renew_each(RenewBatch::new(&renewals), renew_one).await;
/// assert_eq!(answers, [Ok(Renewal::NotOwner), Ok(Renewal::NotOwner)]);
/// # Ok(()) }
/// ```
pub async fn renew_each<'a, F>(
    batch: RenewBatch<'a>,
    renew: impl Fn(RenewRequest<'a>) -> F,
) -> Vec<Result<Renewal, StoreError>>
where
    F: Future<Output = Result<Renewal, StoreError>>,
{
    let renewals = iter::zip(batch.requests, iter::repeat(batch.limit)).map(|(request, limit)| {
        let renewal = renew(*request);
        async move {
            let Some(limit) = limit else {
                return renewal.await;
            };
            let answer = timeout(limit, renewal).await;
            answer.unwrap_or_else(|_| Err(StoreError::timed_out(limit)))
        }
    });
    join_all(renewals).await
}
