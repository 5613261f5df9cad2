//! The contract of a store: three requests, and the properties that managers have to know.

use std::{future::Future, iter, sync::Arc};

use futures_util::future::join_all;
use tokio::time::timeout;

use super::{
    AcquireOutcome, AcquireRequest, ReleaseRequest, Released, RenewBatch, RenewRequest, Renewal,
    StoreError, StoreErrorKind, StoreProperties,
};
/// Decides who holds a key.
///
/// Every request is idempotent for its owner, since a client repeats what got no answer. All time
/// is the store's own. The manager limits every request by a timer, unless the store does so
/// itself, see [`StoreProperties::gives_up_after`].
///
/// A request must not block its thread, on which others run, and perhaps renewals. [`renew`](Self::renew) may come from another
/// runtime and thread than [`acquire`](Self::acquire).
///
/// A lease is never shorter than the TTL asked, by `acquire` or by `renew`. A TTL that the store cannot keep, it
/// refuses with [`StoreErrorKind::Unsupported`] and does not shorten; managers ask for none outside of the bounds
/// in its [properties](StoreProperties::ttls).
///
/// Fences are numbers of 1 to 2<sup>51</sup> − 1, see [`AcquireOutcome::Granted`]. Those of a key grow for ever: they
/// survive a restart of the store and the end of every lease and queue. Fences of different keys are not
/// compared: [`last_fence`](super::Holder::last_fence) is that of its key.
///
/// Two keys are one lock only if all their bytes are the same.
///
/// All methods but [`renew_one`](Self::renew_one), which is short for a batch of one, are required.
/// So a wrapper that passes each request on to the same method loses nothing: batches are the argument of
/// `renew`, and limits, drift, hints and whatever is added later are in the [`properties`](Self::properties).
/// One that passes on a batch by `renew_one` or [`renew_each`] compiles as well, and loses both the batch and
/// the [runtime](RenewBatch::runtime) for renewals.
///
/// # Levels
///
/// A store need not do all that a request has room for. What it leaves out costs its users
/// something, never safety:
///
/// | level | what it has to do | what it may ignore | what users then lose |
/// |---|---|---|---|
/// | minimal | `acquire`, `renew`, `release`; fences that grow; leases that end by themselves | [`queue`](AcquireRequest::queue) (with `position: None` in its answers), hints, `label` and `function`, the [hooks](super::StoreHooks) | waiters poll, so a lock changes hands late and in no order; `Busy` does not name the holder |
/// | queue | also: a place in the queue, in the order of arrival, for [`ALIVE`](super::ALIVE) after each request; labels | grants, hints | waiters poll; order |
/// | grants | also: a release makes the first waiter the holder for [`GRANT_TTL`](super::GRANT_TTL) and tells it by a [`Hint`](super::Hint); nobody overtakes; [`grants`](StoreProperties::grants) in its properties | the last resort, [`release_at_once`](super::StoreHooks::release_at_once) | a lease that is held when its runtime ends lasts until its TTL is over |
/// | quorum node | also: [`QuorumNode`](super::QuorumNode) | – | – |
///
/// The crate `dlock-conformance` tries a store at the level that it claims, and names the rule that
/// it breaks. [`memory::MemoryStore`](super::memory::MemoryStore) is the reference.
///
/// # Errors
///
/// Every request fails with a [`StoreError`] when the outcome is unknown, or it had no effect, see [`StoreErrorKind`].
///
/// # Cancel safety
///
/// The manager drops a request's future at any await when its time is up or its caller is gone. A
/// request that was sent by then may be carried out, before any later request of that owner.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::sync::{Arc, atomic::{AtomicUsize, Ordering}};
/// use dlock::{LockManager, StoreError, store::{LockStore, AcquireRequest, AcquireOutcome, ReleaseRequest, Released, RenewBatch, Renewal, StoreProperties, memory::MemoryStore}};
///
/// /// Another store, whose requests are counted. A store of your own answers them instead.
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
    /// Asks for the key.
    ///
    /// - Already the owner's: the TTL starts anew and the same fence is returned.
    /// - Free, and no living waiter is before this owner: it becomes the holder, with a fence
    ///   greater than every earlier one.
    /// - Free, but others wait: the first of them is made the holder for
    ///   [`GRANT_TTL`](super::GRANT_TTL) and told.
    /// - Held: as [`AcquireRequest::queue`] says, the owner enters the queue or renews its place.
    ///
    /// Errors and cancel safety are those of [the trait](LockStore#errors).
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// use dlock::{LockKey, store::{ClientId, LockStore, OwnerId, AcquireRequest, AcquireOutcome, memory::MemoryStore}, testing::SystemRandom};
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

    /// Renews leases: for each that is its owner's, the TTL starts anew and the label is set. The
    /// answers are in the order of the requests, and there after the
    /// [limit](RenewBatch::limit) at the latest.
    ///
    /// A renewal that gets no answer must not keep the others from being renewed. A store that can
    /// send all of them at once should; [`renew_each`] is for the others. A wrapper passes on the batch as it is:
    /// by `renew_each` or [`renew_one`](Self::renew_one), the store below sees neither the batch nor its
    /// [runtime](RenewBatch::runtime).
    ///
    /// Errors and cancel safety are those of [the trait](LockStore#errors).
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// use dlock::{LockKey, store::{ClientId, LockStore, OwnerId, AcquireRequest, RenewBatch, RenewRequest, Renewal, memory::MemoryStore}, testing::SystemRandom};
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

    /// Gives up the key or the place in its queue. The first living waiter becomes the holder, for
    /// [`GRANT_TTL`](super::GRANT_TTL), and is told.
    ///
    /// Errors and cancel safety are those of [the trait](LockStore#errors).
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// use dlock::{LockKey, store::{ClientId, LockStore, OwnerId, AcquireRequest, ReleaseRequest, Released, memory::MemoryStore}, testing::SystemRandom};
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

    /// Returns the properties that a manager needs to know. It asks once, when it is made, for all
    /// but the [hooks](StoreProperties::hooks).
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

    /// Renews one lease, with the store's own limit: a [batch](Self::renew) of one.
    ///
    /// Managers renew by batches. A wrapper that makes single renewals of them loses what a batch has
    /// beside its requests.
    ///
    /// Errors and cancel safety are those of [the trait](LockStore#errors).
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// use dlock::{LockKey, store::{ClientId, LockStore, OwnerId, RenewRequest, Renewal, memory::MemoryStore}, testing::SystemRandom};
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

/// One store for several managers, or for a manager and for tests that look into it.
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

/// The answer to a batch of one.
pub(super) fn only(mut answers: Vec<Result<Renewal, StoreError>>) -> Result<Renewal, StoreError> {
    answers.pop().unwrap_or_else(|| {
        let message = "the store did not answer a renewal";
        Err(StoreError::new(StoreErrorKind::TimedOut, message))
    })
}

/// Renews a batch by one request for each lease, all at the same time, each within the batch's limit:
/// for a store that cannot send several at once.
///
/// It is not for a wrapper, whose store may well be able to: what `renew` is given are single requests, without the
/// batch and its [runtime](RenewBatch::runtime).
///
/// # Cancel safety
///
/// Dropped early, each renewal is dropped where it is: it may be carried out or not.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use dlock::{LockKey, StoreError, store::{ClientId, OwnerId, RenewBatch, RenewRequest, Renewal, renew_each}, testing::SystemRandom};
///
/// /// One lease, which is always gone.
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
