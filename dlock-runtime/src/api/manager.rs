//! The manager: owns the store and the defaults, and tracks every lock of the process.

use std::{fmt, sync::Arc, time::Duration};

use tokio::time::timeout;

use crate::{
    engine::acquisition::{Engine, tell_all},
    error::LockError,
    state::Event,
};

/// Acquires locks in one store and renews their leases.
///
/// Cloning is cheap, and all clones share one manager. Keep it for the life of the process: dropping the last
/// clone closes the connection.
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
pub struct LockManager(Arc<Engine>);

/// The outcome of a shutdown.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// use dlock::ShutdownReport;
///
/// fn is_clean(shutdown: ShutdownReport) -> bool {
///     shutdown == ShutdownReport::default() // no body cut short, no key unreleased
/// }
///
/// // A unit test builds a report from the empty one.
/// let mut shutdown = ShutdownReport::default();
/// assert!(is_clean(shutdown));
/// shutdown.cut_short = 1;
/// assert!(!is_clean(shutdown));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct ShutdownReport {
    /// The number of bodies that were still running at the limit. They lost their lease.
    pub cut_short: usize,
    /// The number of keys whose release the store had not confirmed. Their TTL frees them.
    pub unreleased: usize,
}

impl LockManager {
    /// Returns the number of keys that this process holds, waits for or is releasing.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock::LockError> {
    /// # let manager = dlock::LockManager::memory();
    ///
    /// let guard = manager.lock("order:42").acquire().await?;
    /// assert_eq!(manager.active_keys(), 1);
    /// guard.release().await?;
    /// assert_eq!(manager.active_keys(), 0);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn active_keys(&self) -> usize {
        self.0.table.len()
    }

    /// Checks that this process can acquire locks: acquires the key `dlock-health` without a wait, and releases it.
    ///
    /// A readiness probe can call it. A key that another process holds is a good answer too, as the store has given it, so
    /// all processes of a fleet can use this check at the same time. It takes two response timeouts at the most, and counts
    /// in the metrics as the template `dlock-health`.
    ///
    /// # Errors
    ///
    /// [`LockError`](crate::LockError), as [`LockRequest::try_acquire`](crate::LockRequest::try_acquire) returns it:
    /// `Unavailable` if the store does not answer or refuses, `Closed` after [`shutdown`](Self::shutdown).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future releases the key in the background.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// use std::time::Duration;
    ///
    /// # let manager = dlock::LockManager::memory();
    /// assert!(manager.health().await.is_ok());
    /// manager.shutdown(Duration::ZERO).await;
    /// assert!(manager.health().await.is_err());
    /// # }
    /// ```
    pub async fn health(&self) -> Result<(), LockError> {
        const KEY: &str = "dlock-health";
        const TTL: Duration = Duration::from_secs(5);
        let lock = self.lock(KEY).metric(KEY).ttl(TTL);
        match lock.try_acquire().await? {
            Some(guard) => guard.release().await,
            None => Ok(()),
        }
    }

    /// Shuts the manager down: refuses new locks, lets running bodies finish, and releases everything.
    ///
    /// - At once, new and waiting calls fail with [`LockError::Closed`](crate::LockError::Closed).
    /// - For up to `limit`, running bodies continue and their leases are renewed. After `limit` they lose
    ///   their leases.
    /// - All locks are released. The shutdown waits for the store's answer for at most one [response
    ///   timeout](crate::LockManagerBuilder::response_timeout) more.
    /// - If every lock was released, the process is removed from the list of clients that operators see.
    ///
    /// # Cancel safety
    ///
    /// The first poll closes the manager. If the future is dropped later, the manager stays closed. Running
    /// bodies continue and release their locks when they end.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock::LockError> {
    /// use std::time::Duration;
    /// use dlock::{LockError, ShutdownReport};
    ///
    /// # let manager = dlock::LockManager::memory();
    /// let shutdown = manager.shutdown(Duration::from_secs(10)).await;
    /// assert_eq!(shutdown, ShutdownReport::default());
    /// let refused = manager.lock("order:42").acquire().await;
    /// assert!(matches!(refused, Err(LockError::Closed { .. })));
    /// # Ok(()) }
    /// ```
    pub async fn shutdown(&self, limit: Duration) -> ShutdownReport {
        let core = &self.0;
        if !core.store.is_ours(core.clock.now()) {
            // A forked child owns no lock. Its copies of mutexes may be locked forever, so it must not touch
            // the table.
            return ShutdownReport::default();
        }
        core.table.close();
        tell_all(core, || Event::Closed);
        let mut outcome = ShutdownReport::default();
        if timeout(limit, core.table.idle()).await.is_err() {
            outcome.cut_short = tell_all(core, || Event::CutShort);
            if timeout(core.response_limit, core.table.idle())
                .await
                .is_err()
            {
                outcome.unreleased = core.table.len();
            }
        }
        if outcome.unreleased == 0
            && let Ok(store) = core.store.at(core.clock.now())
        {
            let detached = store.detach(core.owners.client());
            timeout(core.response_limit, detached).await.ok();
        }
        outcome
    }

    /// Returns the store of this manager, if it is a `T`: the type that the store names as its
    /// [extension](crate::store::StoreProperties::extension).
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::{LockManager, store::memory::MemoryStore};
    ///
    /// let manager = LockManager::memory();
    /// let store = manager.store::<MemoryStore>().expect("it was made over one");
    /// assert!(store.is_empty());
    /// ```
    #[must_use]
    pub fn store<T: 'static>(&self) -> Option<&T> {
        self.0.store.extension()
    }

    pub(crate) fn new(core: Arc<Engine>) -> Self {
        Self(core)
    }

    pub(crate) fn core(&self) -> Arc<Engine> {
        self.0.clone()
    }
}

impl fmt::Debug for LockManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockManager")
            .field("label", &self.0.label)
            .field("active", &self.active_keys())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::pending,
        sync::atomic::{AtomicUsize, Ordering},
    };

    use tokio::time::Instant;

    use super::*;
    use crate::{
        owner::ClientId,
        store::{
            AcquireOutcome, AcquireRequest, Detaching, HintSink, LockStore, ReleaseRequest,
            Released, RenewBatch, Renewal, StoreError, StoreHooks, StoreProperties,
            memory::MemoryStore,
        },
    };

    const LIMIT: Duration = Duration::from_secs(2);

    /// A store with a list of clients, of which none is removed in time.
    #[derive(Clone, Default)]
    struct Listing {
        store: MemoryStore,
        is_silent: bool,
        removed: Arc<AtomicUsize>,
    }

    impl LockStore for Listing {
        async fn acquire(&self, request: AcquireRequest<'_>) -> Result<AcquireOutcome, StoreError> {
            self.store.acquire(request).await
        }

        async fn renew(&self, batch: RenewBatch<'_>) -> Vec<Result<Renewal, StoreError>> {
            self.store.renew(batch).await
        }

        async fn release(&self, request: ReleaseRequest<'_>) -> Result<Released, StoreError> {
            if self.is_silent {
                pending::<()>().await;
            }
            self.store.release(request).await
        }

        fn properties(&self) -> StoreProperties<'_> {
            StoreProperties::new().grants(true).hooks(self)
        }
    }

    impl StoreHooks for Listing {
        fn attach(&self, _client: ClientId, _hints: HintSink) {}

        fn detach(&self, _client: ClientId) -> Detaching<'_> {
            Box::pin(async {
                self.removed.fetch_add(1, Ordering::Relaxed);
                pending::<()>().await;
            })
        }

        fn release_at_once(&self, _request: ReleaseRequest<'_>) -> bool {
            false
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_process_that_has_released_all_is_removed_from_the_list_and_not_waited_for_longer() {
        for is_silent in [false, true] {
            let store = Listing {
                is_silent,
                ..Listing::default()
            };
            let manager = LockManager::builder().response_timeout(LIMIT);
            let manager = manager.build_with_store(store.clone()).unwrap();
            drop(manager.lock("k").acquire().await.unwrap());
            let before = Instant::now();
            let report = manager.shutdown(LIMIT).await;
            assert_eq!(report.unreleased, usize::from(is_silent));
            let removed = store.removed.load(Ordering::Relaxed);
            assert_eq!(removed, usize::from(!is_silent));
            let limits = 1 + u32::from(is_silent);
            assert_eq!(before.elapsed(), LIMIT * limits);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_probe_that_finds_its_key_held_by_another_process_is_content() {
        let store = MemoryStore::new();
        let [manager, other] = [(); 2].map(|()| {
            let manager = LockManager::builder().build_with_store(store.clone());
            manager.unwrap()
        });
        let held = other.lock("dlock-health").acquire().await.unwrap();
        assert_eq!(manager.health().await, Ok(()));
        held.release().await.unwrap();
        assert_eq!(manager.health().await, Ok(()));
        assert!(store.is_empty(), "it keeps nothing");
    }
}
