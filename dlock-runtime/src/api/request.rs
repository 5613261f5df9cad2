//! Requests: acquire a lock without the attribute.

mod run;

use crate::{
    api::{
        guard::{Lease, LockGuard, finish},
        manager::LockManager,
    },
    engine::{acquire::acquire, acquire_all},
    error::LockError,
    key::{InvalidKeyReason, KeyInMode, LockKey, LockKeys},
    mode::LockMode,
    observe,
    options::{OnLost, Options, Wait},
    site::Origin,
};
use std::time::Duration;

/// A request for a lock, or for several locks, that has not been sent yet.
///
/// [`LockManager::lock`] and [`LockManager::lock_all`] create it.
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

    /// Sets shared mode: any number of holders at the same time, but none beside an exclusive one.
    ///
    /// All callers wait in one queue, first come, first served: a shared request that comes after an exclusive
    /// one waits for it. Calls that hold a key together have the same [fencing token](crate::FencingToken),
    /// except in a quorum.
    ///
    /// For several keys, it applies to each key without a mode of its own. It replaces an earlier
    /// [`permits`](Self::permits).
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock::LockError> {
    /// # let manager = dlock::LockManager::memory();
    /// let one = manager.lock("catalog:7").shared().acquire().await?;
    /// let other = manager.lock("catalog:7").shared().acquire().await?;
    /// assert_eq!(one.fencing_token(), other.fencing_token());
    /// assert!(manager.lock("catalog:7").try_acquire().await?.is_none());
    /// # Ok(()) }
    /// ```
    pub fn shared(mut self) -> Self {
        self.options = self.options.mode(LockMode::Shared);
        self
    }

    /// Sets the mode to permits: at most `most` holders at the same time, and none beside an exclusive one.
    ///
    /// All callers of a key should set the same number, because each request counts the holders against its
    /// own. Zero is [`LockError::InvalidOption`].
    ///
    /// For several keys, it applies to each key without a mode of its own. It replaces an earlier
    /// [`shared`](Self::shared).
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock::LockError> {
    /// # let manager = dlock::LockManager::memory();
    /// let export = || manager.lock("export:7").permits(2);
    /// let held = [export().acquire().await?, export().acquire().await?];
    /// assert!(export().try_acquire().await?.is_none(), "two are inside");
    /// # drop(held);
    /// # Ok(()) }
    /// ```
    pub fn permits(mut self, most: u32) -> Self {
        self.options = self.options.permits(most);
        self
    }

    /// Adds a key that the call acquires in shared mode, whatever its mode for the other keys. The list of
    /// [`lock_all`](LockManager::lock_all) may be empty then.
    ///
    /// # Errors
    ///
    /// These are errors of the call:
    /// - [`LockError::InvalidKey`]: the key is invalid.
    /// - [`LockError::InvalidOption`]: the call already lists the key without a mode of its own, even if the call is
    ///   [`shared`](Self::shared).
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock::LockError> {
    /// # let manager = dlock::LockManager::memory();
    /// let order = manager.lock("order:42").also_shared("tenant:7").acquire().await?;
    /// assert!(manager.lock("tenant:7").shared().try_acquire().await?.is_some());
    /// assert!(manager.lock("tenant:7").try_acquire().await?.is_none());
    /// # drop(order);
    /// # Ok(()) }
    /// ```
    pub fn also_shared<K>(mut self, key: K) -> Self
    where
        K: TryInto<LockKey>,
        K::Error: Into<LockError>,
    {
        let key = key.try_into().map_err(Into::into).map(KeyInMode::shared);
        self.keys = match self.keys {
            Ok(mut keys) => key.and_then(|key| keys.extend(vec![key]).map(|()| keys)),
            // `lock_all` had no key; this is the first one.
            Err(LockError::InvalidKey {
                reason: InvalidKeyReason::NoKeys,
                ..
            }) => LockKeys::collect([key]),
            Err(error) => Err(error),
        };
        self
    }

    /// Sets the TTL of the lease: how long the store keeps it without a renewal.
    ///
    /// The range is 100 ms to 24 h. The default is the manager's.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock::LockError> {
    /// # let manager = dlock::LockManager::memory();
    /// use std::time::Duration;
    ///
    /// // If this process crashes, the lock is free after 5 s. The body itself may take longer.
    /// let guard = manager.lock("order:42").ttl(Duration::from_secs(5)).acquire().await?;
    /// assert!(guard.remaining() <= Duration::from_secs(5));
    /// # drop(guard);
    /// # Ok(()) }
    /// ```
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.options = self.options.ttl(ttl);
        self
    }

    /// Sets how long to wait while another holder has the lock. The default is the manager's.
    ///
    /// For several keys, it limits the wait for all of them together.
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

    /// Sets whether the lease is renewed until it is released. The default is the manager's.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock::LockError> {
    /// use std::time::Duration;
    ///
    /// # let manager = dlock::LockManager::memory();
    /// // If the body hangs, other callers do not wait for it: after 5 s the lock is free.
    /// let lock = manager.lock("probe").ttl(Duration::from_secs(5)).renew(false);
    /// lock.run(async |_lease| println!("probing")).await?;
    /// # Ok(()) }
    /// ```
    pub fn renew(mut self, renew: bool) -> Self {
        self.options = self.options.renew(renew);
        self
    }

    /// Sets what happens to the body of [`run`](Self::run) when the lease is lost. The default is the
    /// manager's.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock::LockError> {
    /// use dlock::OnLost;
    ///
    /// # let manager = dlock::LockManager::memory();
    /// // The token decides whether this write is too late. The transaction must not be interrupted.
    /// let lock = manager.lock("order:42").on_lost(OnLost::Finish);
    /// lock.run(async |lease| println!("UPDATE … {}", lease.fencing_token())).await?;
    /// # Ok(()) }
    /// ```
    pub fn on_lost(mut self, on_lost: OnLost) -> Self {
        self.options = self.options.on_lost(on_lost);
        self
    }

    /// Sets the time after which the lease is released even if it is still in use. The default is the
    /// manager's.
    ///
    /// For several keys, the time starts for all of them when the last key is acquired and the body begins.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock::LockError> {
    /// use std::time::Duration;
    ///
    /// # let manager = dlock::LockManager::memory();
    /// // If the body hangs, other callers can acquire the lock after a minute.
    /// let lock = manager.lock("feed:import").max_hold(Duration::from_secs(60));
    /// lock.run(async |_lease| println!("imports")).await?;
    /// # Ok(()) }
    /// ```
    pub fn max_hold(mut self, max_hold: Duration) -> Self {
        self.options = self.options.max_hold(max_hold);
        self
    }

    /// Sets the minimum time between the acquisition and the release. The default is no minimum; `None` removes
    /// an earlier one.
    ///
    /// The lock is not released earlier, whatever happens to the guard. The maximum is 24 h.
    ///
    /// Use it for a job that each replica starts by its own clock and that must run once. If the process is
    /// killed, only the TTL applies: the job has then not completed.
    ///
    /// For several keys, the time of each lease starts when that key is acquired. It does not apply to keys
    /// that are released because other keys could not be acquired.
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
    ///         println!("this replica runs the job");
    ///         guard.release().await?;
    ///     }
    /// }
    /// assert!(manager.lock("nightly").try_acquire().await?.is_none());
    /// # Ok(()) }
    /// ```
    pub fn min_hold(mut self, min_hold: impl Into<Option<Duration>>) -> Self {
        self.options.min_hold = min_hold.into();
        self
    }

    /// Sets the label `template` of this call's logs and metrics. The default is `none`.
    ///
    /// Use the key's template, such as `order:<id>`, or another word. Logs and metrics do not use the key as
    /// a label, because there may be millions of keys.
    ///
    /// Use few different texts: each is kept for the life of the process. An annotated function uses its key
    /// template, or the value of its option `metric`. A request for several keys has one label.
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

    /// Returns the first key of the request, or the reason why it is invalid.
    pub(crate) fn first_key(&self) -> Result<&LockKey, &LockError> {
        self.keys.as_ref().map(LockKeys::first)
    }

    pub(crate) fn origin(&self) -> Origin {
        Origin {
            site: None,
            template: self.metric,
            mode: self.options.mode.unwrap_or_default(),
        }
    }

    /// Acquires the lock.
    ///
    /// Bind the guard to a name: `let _ =` releases the lock at once.
    ///
    /// # Errors
    ///
    /// - [`LockError::Busy`] if another holder had the lock, or one of several, for the whole wait
    /// - [`LockError::Unavailable`] if the store gave no usable answer
    /// - [`LockError::WouldDeadlock`], [`LockError::InvalidKey`], [`LockError::InvalidOption`] and
    ///   [`LockError::Closed`] at once
    ///
    /// The deadlock check does not find a lock that is held through a bare guard, because a guard can move to
    /// another task. The call then waits.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. Dropping the future leaves the queue, and releases the lock if it was just granted.
    ///
    /// # Examples
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
    pub async fn acquire(self) -> Result<LockGuard, LockError> {
        let origin = self.origin();
        let keys = self.keys;
        let keys = keys.map_err(|error| observe::not_asked(origin, error))?;
        let core = self.manager.core();
        // Boxed: the state of an acquisition must not enlarge the caller's future.
        if let Some(only) = keys.only() {
            let options = self.options.for_key(only.mode);
            let taken = acquire(core, only.key.clone(), options, origin);
            Box::pin(taken).await.map(LockGuard::new)
        } else {
            let all = acquire_all::acquire(core, keys, self.options, origin);
            Box::pin(all).await.map(LockGuard::of_all)
        }
    }

    /// Acquires the lock without waiting. Returns `None` if a holder or an earlier waiter keeps the call out: a
    /// shared request also fails while an exclusive one waits.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`acquire`](Self::acquire), except [`LockError::Busy`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe, like [`acquire`](Self::acquire).
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock::LockError> {
    /// # let manager = dlock::LockManager::memory();
    /// let Some(guard) = manager.lock("cache:refresh").try_acquire().await? else {
    ///     return Ok(()); // another process refreshes the cache
    /// };
    /// guard.release().await?;
    /// # Ok(()) }
    /// ```
    pub async fn try_acquire(self) -> Result<Option<LockGuard>, LockError> {
        unless_busy(self.wait(Wait::Never).acquire().await)
    }

    /// Acquires the lock, runs the async closure `body` and releases the lock, as the attribute does.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`acquire`](Self::acquire), and [`LockError::Lost`] if the lease was lost. The
    /// body was then cancelled, unless [`OnLost::Finish`] is set.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the body and releases the lock in the background.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock::LockError> {
    /// # let manager = dlock::LockManager::memory();
    /// let lock = manager.lock("order:42");
    /// let token = lock.run(async |lease| {
    ///     println!("valid for {:?} without a renewal", lease.remaining());
    ///     lease.fencing_token()
    /// });
    /// println!("completed with token {}", token.await?);
    /// # Ok(()) }
    /// ```
    pub async fn run<T>(self, body: impl AsyncFnOnce(&Lease) -> T) -> Result<T, LockError> {
        let guard = self.acquire().await?;
        let output = guard.run_while_held(Box::pin(body(guard.lease()))).await;
        finish(guard, output).await
    }
}

/// Turns "busy" into `None`; passes every other error on.
pub(crate) fn unless_busy<T>(taken: Result<T, LockError>) -> Result<Option<T>, LockError> {
    match taken {
        Ok(taken) => Ok(Some(taken)),
        Err(error) if error.is_busy() => Ok(None),
        Err(error) => Err(error),
    }
}

impl LockManager {
    /// Creates a request for the lock `key`.
    ///
    /// Set the options that differ from the manager's defaults, then call [`acquire`](LockRequest::acquire),
    /// [`try_acquire`](LockRequest::try_acquire) or [`run`](LockRequest::run). These calls return an error if
    /// the key is invalid.
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

    /// Creates a request for several locks: the call acquires all of them or none.
    ///
    /// The first requests for all keys are sent at once. If another holder has a key, the call keeps the
    /// leases of the keys that sort before it and releases the others, then waits. Such calls never deadlock,
    /// in whatever order they name their keys.
    ///
    /// This covers the keys of one call. A call inside the body of another call waits while the outer call
    /// holds its keys. Two bodies that nest calls for the same keys in opposite orders wait for each other, until
    /// the `wait` of one ends with [`LockError::Busy`](crate::LockError::Busy), or for ever with
    /// [`Wait::Forever`](crate::Wait::Forever). `lock_all` for both keys avoids that. A key that is named twice counts once. An empty list is an error of the acquisition,
    /// unless [`also_shared`](LockRequest::also_shared) adds a key.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{options::Timing, store::memory::MemoryStore};

    #[test]
    fn each_option_of_a_request_counts_before_that_of_the_manager() {
        let seconds = Duration::from_secs;
        let manager = LockManager::builder().max_hold(seconds(90));
        let manager = manager.build_with_store(MemoryStore::new()).unwrap();
        let request = manager.lock("k");
        let timing = |request: &LockRequest| {
            let key = request.first_key().unwrap();
            manager.core().timing(request.options, key).unwrap()
        };
        let by_default = Timing {
            max_hold: Some(seconds(90)),
            ..Timing::default()
        };
        assert_eq!(timing(&request), by_default);
        let request = request
            .ttl(seconds(7))
            .wait(seconds(8))
            .renew(false)
            .on_lost(OnLost::Finish)
            .max_hold(seconds(9))
            .min_hold(seconds(6))
            .permits(3);
        let expected = Timing {
            ttl: seconds(7),
            wait: Wait::For(seconds(8)),
            renew: false,
            on_lost: OnLost::Finish,
            max_hold: Some(seconds(9)),
            min_hold: Some(seconds(6)),
            mode: LockMode::Permits(3),
            on_trial: false,
        };
        assert_eq!(timing(&request), expected);
        let request = request.min_hold(None).shared();
        let expected = Timing {
            min_hold: None,
            mode: LockMode::Shared,
            ..expected
        };
        assert_eq!(timing(&request), expected);
        let origin = request.metric("k:<id>").origin();
        assert_eq!(
            (origin.template, origin.mode),
            (Some("k:<id>"), LockMode::Shared)
        );
    }
}
