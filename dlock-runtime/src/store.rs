//! The contract between dlock and whatever decides who holds a key.
//!
//! A store knows keys, owners and time; it knows nothing of tasks, guards or renewal. *Busy* and
//! *not yours* are answers. An `Err` always means that the store did not tell: the request may or
//! may not have been carried out.

mod answer;
mod boxed;
mod error;
mod hint;
pub mod memory;
pub mod quorum;
#[cfg(feature = "redis")]
pub mod redis;
mod request;
mod scheme;
mod schemes;

use std::{future::Future, time::Duration};

use futures_util::future::join_all;
use tokio::{runtime::Handle, time::timeout};

use crate::{
    key::LockKey,
    owner::{ClientId, OwnerId},
};

pub use answer::{AcquireOutcome, Holder, Raised, Released, Renewal};
pub(crate) use boxed::{DynStore, OwnStore};
pub use error::{StoreError, StoreErrorKind};
pub(crate) use hint::TakesHints;
pub use hint::{Hint, HintSink};
pub use request::{AcquireRequest, Queue, RenewRequest};
pub use scheme::{StoreOptions, StoreScheme};
pub(crate) use schemes::Schemes;

/// How long a waiter counts as alive after its last question.
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

/// How long a lease lasts that is handed to the next waiter, unless the waiter renews it or asks.
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

/// Decides who holds a key.
///
/// Every request is idempotent for its owner, since a client repeats what got no answer. All time
/// is the store's own. The manager limits every request by a timer, unless the store does so
/// itself, see [`gives_up_after`](Self::gives_up_after).
///
/// # Errors
///
/// Every request fails with a [`StoreError`] when the store did not tell, see [`StoreErrorKind`].
///
/// # Cancel safety
///
/// The manager drops a request's future at any await when its time is up or its caller is gone.
/// What was sent by then may be carried out, before anything that is sent later for that owner.
/// [`memory::MemoryStore`] is the reference; the conformance suite of this
/// project's tests shows what any store has to do.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::sync::{Arc, atomic::{AtomicUsize, Ordering}};
/// use dlock::{
///     ClientId, LockKey, LockManager, LockStore, OwnerId, StoreError,
///     store::{
///         AcquireRequest, AcquireOutcome, HintSink, Released, RenewRequest, Renewal, memory::MemoryStore,
///     },
/// };
///
/// /// Another store, whose questions are counted. A store of your own answers them instead.
/// struct Counted<S> {
///     store: S,
///     asked: Arc<AtomicUsize>,
/// }
///
/// impl<S: LockStore> LockStore for Counted<S> {
///     async fn acquire(&self, request: AcquireRequest<'_>) -> Result<AcquireOutcome, StoreError> {
///         self.asked.fetch_add(1, Ordering::Relaxed);
///         self.store.acquire(request).await
///     }
///
///     async fn renew(&self, request: RenewRequest<'_>) -> Result<Renewal, StoreError> {
///         self.store.renew(request).await
///     }
///
///     async fn release(&self, key: &LockKey, owner: OwnerId) -> Result<Released, StoreError> {
///         self.store.release(key, owner).await
///     }
///
///     fn attach(&self, client: ClientId, hints: HintSink) {
///         self.store.attach(client, hints);
///     }
///
///     async fn detach(&self, client: ClientId) {
///         self.store.detach(client).await;
///     }
///
///     fn hands_on(&self) -> bool {
///         self.store.hands_on()
///     }
/// }
///
/// let asked = Arc::new(AtomicUsize::new(0));
/// let store = Counted { store: MemoryStore::new(), asked: asked.clone() };
/// let manager = LockManager::builder().store(store)?;
/// manager.lock("order:42").run(async |_lease| ()).await?;
/// assert_eq!(asked.load(Ordering::Relaxed), 1);
/// # Ok(()) }
/// ```
pub trait LockStore: Send + Sync + 'static {
    /// Asks for the key.
    ///
    /// Already the owner's: the TTL starts anew and the same fence is returned. Free and nobody
    /// living waits before this owner: it becomes the holder, with a fence greater than every
    /// earlier one. Free but somebody waits: the first of them is made the holder for [`GRANT_TTL`]
    /// and told. Held: as [`AcquireRequest::queue`] says, the owner enters the queue or renews its
    /// place.
    ///
    /// Errors and cancel safety are those of [the trait](LockStore#errors).
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// use dlock::{
    ///     ClientId, LockKey, LockStore, OwnerId, SystemRandom,
    ///     store::{AcquireRequest, AcquireOutcome, memory::MemoryStore},
    /// };
    ///
    /// let (store, key) = (MemoryStore::new(), LockKey::new("order:42")?);
    /// let owner = OwnerId::new(ClientId::new(&SystemRandom), 1);
    /// let ttl = Duration::from_secs(30);
    ///
    /// let first = store.acquire(AcquireRequest::new(&key, owner, ttl)).await?;
    /// assert!(matches!(first, AcquireOutcome::Granted { .. }));
    /// // Whoever repeats a question that had no answer gets the same lease, with the same fence.
    /// assert_eq!(store.acquire(AcquireRequest::new(&key, owner, ttl)).await?, first);
    /// # Ok(()) }
    /// ```
    fn acquire(
        &self,
        request: AcquireRequest<'_>,
    ) -> impl Future<Output = Result<AcquireOutcome, StoreError>> + Send;

    /// Starts the TTL anew and sets the label, if the key is the owner's.
    ///
    /// Errors and cancel safety are those of [the trait](LockStore#errors).
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
    /// let renewal = RenewRequest { key: &key, owner, ttl, label: "", function: "" };
    /// assert_eq!(store.renew(renewal).await?, Renewal::NotOwner);
    /// store.acquire(AcquireRequest::new(&key, owner, ttl)).await?;
    /// assert_eq!(store.renew(renewal).await?, Renewal::Renewed);
    /// # Ok(()) }
    /// ```
    fn renew(
        &self,
        request: RenewRequest<'_>,
    ) -> impl Future<Output = Result<Renewal, StoreError>> + Send;

    /// Renews several leases; the answers are in the order of the requests, and there after `limit`
    /// at the latest, with [`StoreErrorKind::TimedOut`] where nothing is known.
    ///
    /// If not given, each is asked for by [`renew`](Self::renew), all at the same time: one that
    /// gets no answer must not keep the others from being renewed. A store that can ask for all of
    /// them at once should.
    ///
    /// Errors and cancel safety are those of [the trait](LockStore#errors).
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
    /// let gone = LockKey::new("order:7")?;
    ///
    /// store.acquire(AcquireRequest::new(&key, owner, ttl)).await?;
    /// let renewals = [&key, &gone].map(|key| RenewRequest { key, owner, ttl, label: "", function: "" });
    /// let answers = store.renew_all(&renewals, Duration::from_secs(1)).await;
    /// assert_eq!(answers, [Ok(Renewal::Renewed), Ok(Renewal::NotOwner)]);
    /// # Ok(()) }
    /// ```
    fn renew_all(
        &self,
        requests: &[RenewRequest<'_>],
        limit: Duration,
    ) -> impl Future<Output = Vec<Result<Renewal, StoreError>>> + Send {
        let renewals = requests.iter().map(move |request| async move {
            timeout(limit, self.renew(*request))
                .await
                .unwrap_or_else(|_| Err(StoreError::timed_out(limit)))
        });
        join_all(renewals)
    }

    /// Renewals will be asked for on `runtime`, from now on: a store that has connections may make one for
    /// them there, so that they wait neither for other requests nor for a runtime that is stuck. It is
    /// told so before each group of renewals.
    ///
    /// If not given, renewals go the way of all requests.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// use dlock::{LockStore, store::memory::MemoryStore};
    ///
    /// // A store without connections has nothing to prepare.
    /// MemoryStore::new().prepare_renewals(&tokio::runtime::Handle::current());
    /// # }
    /// ```
    fn prepare_renewals(&self, runtime: &Handle) {
        let _ = runtime;
    }

    /// Gives up the key or the place in its queue. The first living waiter becomes the holder, for
    /// [`GRANT_TTL`], and is told; or is only told, see [`Queue::ForNotice`].
    ///
    /// Errors and cancel safety are those of [the trait](LockStore#errors).
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// use dlock::{
    ///     ClientId, LockKey, LockStore, OwnerId, SystemRandom,
    ///     store::{AcquireRequest, Released, memory::MemoryStore},
    /// };
    ///
    /// let (store, key) = (MemoryStore::new(), LockKey::new("order:42")?);
    /// let owner = OwnerId::new(ClientId::new(&SystemRandom), 1);
    /// let ttl = Duration::from_secs(30);
    ///
    /// store.acquire(AcquireRequest::new(&key, owner, ttl)).await?;
    /// assert_eq!(store.release(&key, owner).await?, Released::WasHeld);
    /// assert_eq!(store.release(&key, owner).await?, Released::WasGone);
    /// # Ok(()) }
    /// ```
    fn release(
        &self,
        key: &LockKey,
        owner: OwnerId,
    ) -> impl Future<Output = Result<Released, StoreError>> + Send;

    /// Raises the fence of a key from `from` to `to`, if the key is the owner's and its fence one of
    /// these: whatever is granted from now on is greater than `to`. The TTL goes on as it was.
    ///
    /// With any other fence it was granted anew since: then nothing is changed.
    ///
    /// Only a [`quorum`] needs it of the stores that it is made of. If not given, it answers
    /// [`StoreErrorKind::Unsupported`].
    ///
    /// Errors and cancel safety are those of [the trait](LockStore#errors).
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// use dlock::{
    ///     ClientId, LockKey, LockStore, OwnerId, SystemRandom,
    ///     store::{AcquireRequest, AcquireOutcome, Raised, memory::MemoryStore},
    /// };
    ///
    /// let (store, key) = (MemoryStore::new(), LockKey::new("order:42")?);
    /// let owner = OwnerId::new(ClientId::new(&SystemRandom), 1);
    /// let ttl = Duration::from_secs(30);
    ///
    /// let AcquireOutcome::Granted { fence } = store.acquire(AcquireRequest::new(&key, owner, ttl)).await?
    /// else {
    ///     panic!("it is free");
    /// };
    /// assert_eq!(store.raise(&key, owner, fence, fence + 5).await?, Raised::Raised);
    /// assert_eq!(store.raise(&key, owner, fence, fence + 9).await?, Raised::NotOwner);
    /// # Ok(()) }
    /// ```
    fn raise(
        &self,
        key: &LockKey,
        owner: OwnerId,
        from: u64,
        to: u64,
    ) -> impl Future<Output = Result<Raised, StoreError>> + Send {
        let _: (&LockKey, OwnerId, u64, u64) = (key, owner, from, to);
        async {
            let message = "a store that cannot raise fences cannot be part of a quorum";
            Err(StoreError::new(StoreErrorKind::Unsupported, message).unsent())
        }
    }

    /// Releases without waiting and without a runtime, for a store that can; `false` if it cannot.
    ///
    /// The last resort when the runtime ends before the guard. If not given, it cannot.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// use dlock::{
    ///     ClientId, LockKey, LockStore, OwnerId, SystemRandom,
    ///     store::{AcquireRequest, memory::MemoryStore},
    /// };
    ///
    /// let (store, key) = (MemoryStore::new(), LockKey::new("order:42")?);
    /// let owner = OwnerId::new(ClientId::new(&SystemRandom), 1);
    /// let ttl = Duration::from_secs(30);
    ///
    /// store.acquire(AcquireRequest::new(&key, owner, ttl)).await?;
    /// assert!(store.release_at_once(&key, owner));
    /// assert!(store.is_empty());
    /// # Ok(()) }
    /// ```
    fn release_at_once(&self, key: &LockKey, owner: OwnerId) -> bool {
        let _: (&LockKey, OwnerId) = (key, owner);
        false
    }

    /// Takes the sink to which hints for `client` go, once for each client. A store without
    /// hints ignores it: its waiters then ask again at their own pace.
    fn attach(&self, client: ClientId, hints: HintSink) {
        drop((client, hints));
    }

    /// Removes what the store keeps of `client` itself, such as what operators see of it: its manager has shut
    /// down, and every lock of it was released. That nothing is left of it is no promise.
    ///
    /// If not given, nothing is done.
    ///
    /// # Cancel safety
    ///
    /// Dropped early, something may stay for as long as it would after a crash.
    fn detach(&self, client: ClientId) -> impl Future<Output = ()> + Send {
        let _ = client;
        std::future::ready(())
    }

    /// After what time the store itself gives up on a request, with
    /// [`StoreErrorKind::TimedOut`] or a kind that says more.
    ///
    /// A manager then sets no timer of its own for a limit that is not shorter. If not given, the
    /// store never does.
    fn gives_up_after(&self) -> Option<Duration> {
        None
    }

    /// Whether [`release`](Self::release) makes the first waiter the holder.
    ///
    /// If not given, it does. Where it does not, a process that has had the lock for a while lets some
    /// milliseconds pass before its next task asks, so that others can.
    fn hands_on(&self) -> bool {
        true
    }

    /// By how much two clocks may disagree over `ttl`; the holder stops trusting its lease that
    /// much earlier.
    fn drift(&self, ttl: Duration) -> Duration {
        ttl / 100 + Duration::from_millis(2)
    }
}
