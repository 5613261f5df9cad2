//! The manager: chooses the store, holds the defaults, and answers for all locks of a process.

use std::{fmt, sync::Arc, time::Duration};

use tokio::{runtime::Handle, time::timeout};

use crate::{
    bounds::Bounds,
    builder::LockManagerBuilder,
    clock::{Clock, Moment},
    error::{ConnectError, LockError},
    keeper::{self, Keeper},
    key::{LockKey, LockKeys},
    local::Local,
    options::Timing,
    owner::Owners,
    random::Random,
    request::LockRequest,
    section::{Section, tell_bearer},
    state::{Effect, Event, Surroundings},
    store::{Hint, HintReceiver, OwnStore, memory::MemoryStore},
};

/// Takes locks in one store and keeps them alive.
///
/// Cloning is cheap; all clones are one manager. It should live as long as the process: dropping
/// the last clone closes the connection.
///
/// ```no_run
/// # extern crate dlock_runtime as dlock;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use dlock::LockManager;
///
/// let manager = LockManager::connect("redis://127.0.0.1:6379").await?;
/// let guard = manager.lock("report:daily").acquire().await?;
/// guard.release().await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct LockManager(Arc<Shared>);

/// What all clones, guards and tasks of a manager share.
pub(crate) struct Shared {
    pub(crate) store: OwnStore,
    pub(crate) owners: Owners,
    pub(crate) defaults: Timing,
    /// What others are told about the holder.
    pub(crate) label: String,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) random: Arc<dyn Random>,
    /// The longest time to wait for one answer of the store.
    pub(crate) response_limit: Duration,
    /// The runtime the manager was made on, if any.
    pub(crate) home: Option<Handle>,
    /// Whether a lease may go from one task of this process to the next.
    pub(crate) handover: bool,
    /// Whether leases are renewed on a thread of their own, where that was said.
    pub(crate) renewal_thread: Option<bool>,
    pub(crate) local: Local<Arc<Section>>,
    pub(crate) keeper: Keeper,
    pub(crate) bounds: Bounds,
}

impl Shared {
    pub(crate) fn surroundings(&self, now: Moment) -> Surroundings<'_> {
        Surroundings {
            now,
            response_limit: self.response_limit,
            handover: self.handover,
            hands_on: self.store.hands_on(),
            random: &*self.random,
            owners: &self.owners,
        }
    }

    /// Whether no timer is needed for a request to end within `limit`.
    pub(crate) fn store_gives_up_within(&self, limit: Duration) -> bool {
        let by_itself = self.store.gives_up_after();
        by_itself.is_some_and(|by_itself| by_itself <= limit)
    }

    /// Tells this manager from others.
    pub(crate) fn id(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Tells every attempt; says how many lost their lease by it.
    fn tell_all(&self, event: impl Fn() -> Event) -> usize {
        let slots = self.local.all();
        let sections = slots.iter().flat_map(|slot| slot.state().tasks());
        let losses = sections.filter(|section| section.event(event()) == Effect::Lose);
        losses.count()
    }
}

impl HintReceiver for std::sync::Weak<Shared> {
    fn hint(&self, hint: &Hint<'_>) -> bool {
        let Some(shared) = self.upgrade() else {
            return false;
        };
        if let Some(slot) = shared.local.find(hint.key) {
            let granted = Event::Granted { fence: hint.fence };
            if let Some((bearer, effect)) = tell_bearer(&shared, &slot, hint.owner, granted) {
                keeper::heard(bearer, hint.owner, &effect);
            }
        }
        true
    }

    fn look_again(&self) -> bool {
        let Some(shared) = self.upgrade() else {
            return false;
        };
        shared.tell_all(|| Event::LookAgain);
        true
    }
}

/// How a shutdown went.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// use dlock::Shutdown;
///
/// fn is_clean(shutdown: Shutdown) -> bool {
///     shutdown == Shutdown::default() // nothing cut short, nothing unreleased
/// }
/// assert!(is_clean(Shutdown { cut_short: 0, unreleased: 0 }));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shutdown {
    /// How many sections were still running at the limit and lost their lease.
    pub cut_short: usize,
    /// How many keys the store had not confirmed as released; their TTL frees them.
    pub unreleased: usize,
}

impl LockManager {
    /// A builder, to set defaults before connecting.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// use dlock::LockManager;
    ///
    /// let builder = LockManager::builder().application("billing").ttl(Duration::from_secs(10));
    /// let manager = builder.connect("memory://").await?;
    /// # drop(manager);
    /// # Ok(()) }
    /// ```
    pub fn builder() -> LockManagerBuilder {
        LockManagerBuilder::default()
    }

    /// A manager of locks inside this process, for tests, examples and single processes.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// let manager = dlock::LockManager::memory();
    /// # drop(manager);
    /// ```
    #[must_use]
    pub fn memory() -> Self {
        Self::builder().over(MemoryStore::new())
    }

    /// Connects to the store at `url`, and waits until it answers:
    ///
    /// - `redis://[user:password@]host[:port][/database]`, one server, or `redis+unix:///path`
    /// - `redis-sentinel://host1,host2/service`, the master that Sentinels name
    /// - `redis-cluster://host1,host2`, a cluster that has these nodes
    /// - `redlock://host1,host2,host3`, a [quorum](crate::store::quorum) of independent servers
    /// - `memory://`, a store in this process, for tests
    ///
    /// Over TLS they begin with `rediss` or `redlocks`, and `valkey` can stand for `redis`.
    ///
    /// ```no_run
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use dlock::LockManager;
    ///
    /// let manager = LockManager::connect("rediss://billing:secret@redis.internal/0").await?;
    /// dlock::install(manager)?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ConnectError`] when the URL names no store, or the store does not answer within five
    /// seconds. To start although the store is down, use
    /// [`connect_lazy`](LockManagerBuilder::connect_lazy).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connection.
    pub async fn connect(url: impl AsRef<str>) -> Result<Self, ConnectError> {
        Self::builder().connect(url).await
    }

    /// As [`connect`](Self::connect), without waiting for the store, so that a service can start
    /// before its server does. Locks taken meanwhile wait for it within their own limits.
    ///
    /// ```no_run
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use dlock::LockManager;
    ///
    /// let manager = LockManager::connect_lazy("redis://127.0.0.1:6379")?;
    /// assert_eq!(manager.active(), 0);
    /// assert!(LockManager::connect_lazy("127.0.0.1:6379").is_err(), "no URL");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ConnectError`] when the URL names no store, or there is no tokio runtime here.
    pub fn connect_lazy(url: impl AsRef<str>) -> Result<Self, ConnectError> {
        Self::builder().connect_lazy(url)
    }

    /// Connects to the store named by the environment variable `DLOCK_URL`, with the login in `DLOCK_USER` and
    /// `DLOCK_PASSWORD` if the URL has none. To set defaults as well, use
    /// [`connect_env`](LockManagerBuilder::connect_env).
    ///
    /// ```no_run
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use dlock::{ConnectError, LockManager};
    ///
    /// let manager = match LockManager::from_env().await {
    ///     // Locks in this process only: for a developer's machine, never for a service.
    ///     Err(ConnectError::NoUrl) => LockManager::memory(),
    ///     connected => connected?,
    /// };
    /// dlock::install(manager)?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ConnectError::NoUrl`] when it is not set, else as [`connect`](Self::connect).
    ///
    /// # Cancel safety
    ///
    /// As for [`connect`](Self::connect).
    pub async fn from_env() -> Result<Self, ConnectError> {
        Self::builder().connect_env().await
    }

    /// A lock to be taken: set what differs from the manager's defaults, then
    /// [`acquire`](LockRequest::acquire), [`try_acquire`](LockRequest::try_acquire) or
    /// [`run`](LockRequest::run). A key that is not valid is an error then.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock::LockError> {
    /// # let manager = dlock::LockManager::memory();
    ///
    /// use std::time::Duration;
    ///
    /// let lock = manager.lock("order:42").ttl(Duration::from_secs(20)).wait(Duration::from_secs(2));
    /// lock.run(async |_lease| println!("alone")).await?;
    /// # Ok(()) }
    /// ```
    pub fn lock<K>(&self, key: K) -> LockRequest
    where
        K: TryInto<LockKey>,
        K::Error: Into<LockError>,
    {
        let key = key.try_into().map_err(Into::into);
        LockRequest::new(self.clone(), key.map(LockKeys::from))
    }

    /// Several locks to be taken together: all of them, or none.
    ///
    /// They are asked for at once. If somebody else holds one, those that come before it in the
    /// order of keys are kept while it is waited for, and the others given back: in whatever order
    /// calls name their keys, they never deadlock. That is so of the keys of one call: a call in the
    /// body of another one waits while that holds its own. A key that is named twice
    /// counts once; a list without any is an error when it is to be taken.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock::LockError> {
    /// # let manager = dlock::LockManager::memory();
    /// let (from, to) = (7, 4);
    /// let accounts = [from, to].map(|id| format!("account:{id}"));
    /// let moved = manager.lock_all(accounts).run(async |lease| {
    ///     for (key, token) in lease.tokens() {
    ///         println!("{token} for {key}");
    ///     }
    /// });
    /// moved.await?;
    /// # Ok(()) }
    /// ```
    pub fn lock_all<I, K>(&self, keys: I) -> LockRequest
    where
        I: IntoIterator<Item = K>,
        K: TryInto<LockKey>,
        K::Error: Into<LockError>,
    {
        let keys = keys.into_iter();
        let keys = keys.map(|key| key.try_into().map_err(Into::into));
        LockRequest::new(self.clone(), LockKeys::collect(keys))
    }

    /// How many keys this process holds, waits for or is giving back.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock::LockError> {
    /// # let manager = dlock::LockManager::memory();
    ///
    /// let guard = manager.lock("order:42").acquire().await?;
    /// assert_eq!(manager.active(), 1);
    /// guard.release().await?;
    /// assert_eq!(manager.active(), 0);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn active(&self) -> usize {
        self.0.local.len()
    }

    /// Ends this manager's work in good order.
    ///
    /// New locks and those that still wait are refused with [`LockError::Closed`] at once.
    /// Sections may run on for `limit` and are renewed meanwhile; then they lose their leases.
    /// Everything is given back to the store, for which one more answer is waited. Operators see this
    /// process no more then.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock::LockError> {
    /// use std::time::Duration;
    /// use dlock::{LockError, Shutdown};
    ///
    /// # let manager = dlock::LockManager::memory();
    /// let shutdown = manager.shutdown(Duration::from_secs(10)).await;
    /// assert_eq!(shutdown, Shutdown::default());
    /// let refused = manager.lock("order:42").acquire().await;
    /// assert!(matches!(refused, Err(LockError::Closed { .. })));
    /// # Ok(()) }
    /// ```
    ///
    /// # Cancel safety
    ///
    /// The manager is closed at the first poll. Dropped later, sections run on and release
    /// themselves.
    pub async fn shutdown(&self, limit: Duration) -> Shutdown {
        let shared = &self.0;
        if !shared.store.is_ours(shared.clock.now()) {
            // A fork has nothing to give back, and copies of mutexes that nobody may ever unlock.
            return Shutdown::default();
        }
        shared.local.close();
        shared.tell_all(|| Event::Closed);
        let mut outcome = Shutdown::default();
        if timeout(limit, shared.local.idle()).await.is_err() {
            outcome.cut_short = shared.tell_all(|| Event::Revoked);
            if timeout(shared.response_limit, shared.local.idle())
                .await
                .is_err()
            {
                outcome.unreleased = shared.local.len();
            }
        }
        if outcome.unreleased == 0
            && let Ok(store) = shared.store.at(shared.clock.now())
        {
            let detached = store.detach(shared.owners.client());
            timeout(shared.response_limit, detached).await.ok();
        }
        outcome
    }

    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self(shared)
    }

    pub(crate) fn shared(&self) -> Arc<Shared> {
        self.0.clone()
    }
}

impl fmt::Debug for LockManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockManager")
            .field("label", &self.0.label)
            .field("active", &self.active())
            .finish_non_exhaustive()
    }
}
