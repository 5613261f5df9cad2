//! Taking a lock without the attribute.

mod run;

use crate::{
    api::{
        guard::{Lease, LockGuard, finish},
        manager::LockManager,
    },
    engine::{acquire::acquire, acquire_all},
    error::LockError,
    key::{LockKey, LockKeys},
    observe,
    options::{OnLost, Options, Wait},
    site::Origin,
};
use std::time::Duration;

/// A lock about to be taken, made by [`LockManager::lock`], or several, by
/// [`LockManager::lock_all`].
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock::LockError> {
/// use std::time::Duration;
/// # let manager = dlock::LockManager::memory();
///
/// let sum = manager
///     .lock("order:42")
///     .ttl(Duration::from_secs(30))
///     .wait(Duration::from_secs(5))
///     .run(async |lease| lease.fencing_token().to_i64())
///     .await?;
/// assert!(sum > 0);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[must_use = "it does nothing until `acquire`, `try_acquire`, `run` or another of its futures is awaited"]
pub struct LockRequest {
    manager: LockManager,
    keys: Result<LockKeys, LockError>,
    options: Options,
    metric: Option<&'static str>,
}

impl LockRequest {
    pub(crate) fn new(manager: LockManager, keys: Result<LockKeys, LockError>) -> Self {
        let options = Options::new();
        Self {
            manager,
            keys,
            options,
            metric: None,
        }
    }

    /// Sets how long the store keeps the lease without a sign of life, 100 ms to 24 h. If not set,
    /// the manager's.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock::LockError> {
    /// # let manager = dlock::LockManager::memory();
    /// use std::time::Duration;
    ///
    /// // A killed process keeps this lock for 5 s, and the body may take longer.
    /// let guard = manager.lock("order:42").ttl(Duration::from_secs(5)).acquire().await?;
    /// assert!(guard.remaining() <= Duration::from_secs(5));
    /// # drop(guard);
    /// # Ok(()) }
    /// ```
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.options = self.options.ttl(ttl);
        self
    }

    /// Sets how long to wait while another holder has the lock, of several keys for all of them
    /// together. If not set, the manager's.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock::LockError> {
    /// # let manager = dlock::LockManager::memory();
    /// use dlock::Wait;
    ///
    /// let guard = manager.lock("order:42").acquire().await?;
    /// let refused = manager.lock("order:42").wait(Wait::Never).acquire().await;
    /// assert!(refused.is_err_and(|error| error.is_busy()));
    /// # drop(guard);
    /// # Ok(()) }
    /// ```
    pub fn wait(mut self, wait: impl Into<Wait>) -> Self {
        self.options = self.options.wait(wait.into());
        self
    }

    /// Sets whether the lease is renewed until it is released. If not set, the manager's.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock::LockError> {
    /// use std::time::Duration;
    ///
    /// # let manager = dlock::LockManager::memory();
    /// // Other callers do not wait for a body that hangs: after 5 s the lock is free.
    /// let lock = manager.lock("probe").ttl(Duration::from_secs(5)).renew(false);
    /// lock.run(async |_lease| println!("asks")).await?;
    /// # Ok(()) }
    /// ```
    pub fn renew(mut self, renew: bool) -> Self {
        self.options = self.options.renew(renew);
        self
    }

    /// Sets what happens to the body of [`run`](Self::run) when the lease is lost. If not set, the
    /// manager's.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock::LockError> {
    /// use dlock::OnLost;
    ///
    /// # let manager = dlock::LockManager::memory();
    /// // A transaction decides by the token whether it came too late, and is not to be torn.
    /// let lock = manager.lock("order:42").on_lost(OnLost::Finish);
    /// lock.run(async |lease| println!("UPDATE … {}", lease.fencing_token())).await?;
    /// # Ok(()) }
    /// ```
    pub fn on_lost(mut self, on_lost: OnLost) -> Self {
        self.options = self.options.on_lost(on_lost);
        self
    }

    /// After this the lease is given up, even if it is still used. If not set, the manager's.
    ///
    /// Of several keys it counts for all of them from when the last is there and the body begins.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock::LockError> {
    /// use std::time::Duration;
    ///
    /// # let manager = dlock::LockManager::memory();
    /// // Whatever hangs in there, others have the lock after a minute.
    /// let lock = manager.lock("feed:import").max_hold(Duration::from_secs(60));
    /// lock.run(async |_lease| println!("imports")).await?;
    /// # Ok(()) }
    /// ```
    pub fn max_hold(mut self, max_hold: Duration) -> Self {
        self.options = self.options.max_hold(max_hold);
        self
    }

    /// Keeps the lock from all others for at least this long after it was acquired: it is not
    /// released before, whatever becomes of the guard. At most 24 h. If not set, it is released at
    /// once.
    ///
    /// For a job that each of several replicas starts by its own clock, and that must run once. When
    /// the process is killed, the TTL alone counts: the job has then not been done.
    ///
    /// Of several keys each lease counts from when it was got. Those that are given back since
    /// others could not be got are not kept.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock::LockError> {
    /// use std::time::Duration;
    ///
    /// # let manager = dlock::LockManager::memory();
    /// for _replica in 0..2 {
    ///     let job = manager.lock("nightly").min_hold(Duration::from_secs(600));
    ///     if let Some(guard) = job.try_acquire().await? {
    ///         println!("runs once");
    ///         guard.release().await?;
    ///     }
    /// }
    /// assert!(manager.lock("nightly").try_acquire().await?.is_none());
    /// # Ok(()) }
    /// ```
    pub fn min_hold(mut self, min_hold: Duration) -> Self {
        self.options = self.options.min_hold(min_hold);
        self
    }

    /// Sets what logs and metrics show for calls of this kind, as their label `template`: the key's template, such as
    /// `order:<id>`, or another word. If not set, it is `none`: there may be millions of keys, so no key is shown.
    ///
    /// It must be one of few, as it is kept for as long as the process lives. An annotated function has its key's
    /// template, or what its own option `metric` says. Of several keys it is one text for all of them.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock::LockError> {
    /// # let manager = dlock::LockManager::memory();
    /// let id = 42;
    /// let lock = manager.lock(format!("order:{id}")).metric("order:<id>");
    /// lock.run(async |_lease| ()).await
    /// # }
    /// ```
    pub fn metric(mut self, metric: &'static str) -> Self {
        self.metric = Some(metric);
        self
    }

    /// The key that was named first, or why it is none.
    pub(crate) fn first_key(&self) -> Result<&LockKey, &LockError> {
        self.keys.as_ref().map(LockKeys::first)
    }

    pub(crate) fn origin(&self) -> Origin {
        Origin {
            site: None,
            template: self.metric,
        }
    }

    /// Takes the lock. Bind the guard to a name: `let _ =` would release it at once.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock::LockError> {
    /// use std::time::Duration;
    ///
    /// # let manager = dlock::LockManager::memory();
    /// let held = manager.lock("order:42").acquire().await?;
    /// let error = manager.lock("order:42").wait(Duration::from_millis(5)).acquire().await;
    /// assert!(error.is_err_and(|error| error.is_busy()));
    /// held.release().await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`LockError::Busy`] when another holder had it, or one of several, for all of the wait,
    /// [`LockError::Unavailable`] when the store gave no usable answer,
    /// [`LockError::WouldDeadlock`], [`LockError::InvalidKey`], [`LockError::InvalidOption`] and
    /// [`LockError::Closed`] at once. A lock that is held through a bare guard is not found by the
    /// deadlock check, since a guard may move to another task: it is waited for.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives up the place in the queue, and the lock if it was just granted.
    pub async fn acquire(self) -> Result<LockGuard, LockError> {
        let origin = self.origin();
        let keys = self.keys;
        let keys = keys.map_err(|error| observe::not_asked(origin, error))?;
        let core = self.manager.core();
        // Boxed: the states of an acquisition must not weigh on the caller's future.
        if let Some(key) = keys.only() {
            let taken = acquire(core, key.clone(), self.options, origin);
            Box::pin(taken).await.map(LockGuard::new)
        } else {
            let all = acquire_all::acquire(core, keys, self.options, origin);
            Box::pin(all).await.map(LockGuard::of_all)
        }
    }

    /// Acquires the lock if it is free, without waiting; `None` if another holder has it.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock::LockError> {
    /// # let manager = dlock::LockManager::memory();
    /// let Some(guard) = manager.lock("cache:refresh").try_acquire().await? else {
    ///     return Ok(()); // another one refreshes it
    /// };
    /// guard.release().await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire), without [`LockError::Busy`].
    ///
    /// # Cancel safety
    ///
    /// As for [`acquire`](Self::acquire).
    pub async fn try_acquire(self) -> Result<Option<LockGuard>, LockError> {
        unless_busy(self.wait(Wait::Never).acquire().await)
    }

    /// Runs `body`, an async closure, while holding the lock, as the attribute does.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock::LockError> {
    /// # let manager = dlock::LockManager::memory();
    /// let lock = manager.lock("order:42");
    /// let token = lock.run(async |lease| {
    ///     println!("{:?} are left without a renewal", lease.remaining());
    ///     lease.fencing_token()
    /// });
    /// println!("was done with token {}", token.await?);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire), and [`LockError::Lost`] when the lease was lost: the body
    /// was then cancelled, unless [`OnLost::Finish`] was asked for.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the body and releases the lock in the background.
    pub async fn run<T>(self, body: impl AsyncFnOnce(&Lease) -> T) -> Result<T, LockError> {
        let guard = self.acquire().await?;
        let output = guard.run_while_held(Box::pin(body(guard.lease()))).await;
        finish(guard, output).await
    }
}

/// What was taken, or `None` if another holder has the lock.
pub(crate) fn unless_busy<T>(taken: Result<T, LockError>) -> Result<Option<T>, LockError> {
    match taken {
        Ok(taken) => Ok(Some(taken)),
        Err(error) if error.is_busy() => Ok(None),
        Err(error) => Err(error),
    }
}

impl LockManager {
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
    /// All keys are asked for at once. If another holder has one, the leases of keys that come
    /// before it in the order of keys are kept while it is waited for, and the others released: in
    /// whatever order calls name their keys, they never deadlock. This is true of the keys of one
    /// call: a call inside the body of another one waits while that holds its own. A key that is
    /// named twice counts once; a list without any key is an error when it is acquired.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock::LockError> {
    /// # let manager = dlock::LockManager::memory();
    /// let (from, to) = (7, 4);
    /// let accounts = [from, to].map(|id| format!("account:{id}"));
    /// let moved = manager.lock_all(accounts).run(async |lease| {
    ///     for (key, token) in lease.fencing_tokens() {
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
}
