//! Requests of code that blocks its thread.

use std::time::Duration;

use super::{BlockingGuard, guard::finish_blocking, refused};
use crate::{
    api::{
        guard::Lease,
        request::{LockRequest, unless_busy},
    },
    engine::blocking,
    error::LockError,
    key::LockKey,
    options::{OnLost, Wait},
};

/// A request for a lock, or for several, by code that blocks its thread.
///
/// [`BlockingManager::lock`](super::BlockingManager::lock) and
/// [`BlockingManager::lock_all`](super::BlockingManager::lock_all) create it.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// # fn main() -> Result<(), dlock::LockError> {
/// use std::time::Duration;
/// # let manager = dlock::LockManager::memory();
///
/// let token = manager
///     .blocking()
///     .lock("order:42")
///     .ttl(Duration::from_secs(30))
///     .wait(Duration::from_secs(5))
///     .run(|lease| lease.fencing_token())?;
/// println!("completed with token {token}");
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[must_use = "it does nothing until `acquire`, `try_acquire`, `run` or `try_run` is called"]
pub struct BlockingRequest(LockRequest);

impl BlockingRequest {
    pub(super) fn new(request: LockRequest) -> Self {
        // A thread's body runs to its end in any case. With this option, the release reports a loss.
        Self(request.on_lost(OnLost::Stop))
    }

    /// Sets shared mode; see [`LockRequest::shared`].
    pub fn shared(self) -> Self {
        Self(self.0.shared())
    }

    /// Sets the mode to at most `most` holders; see [`LockRequest::permits`].
    pub fn permits(self, most: u32) -> Self {
        Self(self.0.permits(most))
    }

    /// Adds a key in shared mode; see [`LockRequest::also_shared`].
    pub fn also_shared<K>(self, key: K) -> Self
    where
        K: TryInto<LockKey>,
        K::Error: Into<LockError>,
    {
        Self(self.0.also_shared(key))
    }

    /// Sets the TTL of the lease; see [`LockRequest::ttl`].
    pub fn ttl(self, ttl: Duration) -> Self {
        Self(self.0.ttl(ttl))
    }

    /// Sets how long to wait for the lock; see [`LockRequest::wait`].
    pub fn wait(self, wait: impl Into<Wait>) -> Self {
        Self(self.0.wait(wait))
    }

    /// Sets whether the lease is renewed; see [`LockRequest::renew`].
    pub fn renew(self, renew: bool) -> Self {
        Self(self.0.renew(renew))
    }

    /// Sets the time after which the lease is released; see [`LockRequest::max_hold`]. The body continues.
    pub fn max_hold(self, max_hold: Duration) -> Self {
        Self(self.0.max_hold(max_hold))
    }

    /// Sets the minimum time before the release; see [`LockRequest::min_hold`].
    pub fn min_hold(self, min_hold: impl Into<Option<Duration>>) -> Self {
        Self(self.0.min_hold(min_hold))
    }

    /// Sets the label of logs and metrics; see [`LockRequest::metric`].
    pub fn metric(self, metric: &'static str) -> Self {
        Self(self.0.metric(metric))
    }

    /// Acquires the lock and blocks until then.
    ///
    /// Bind the guard to a name: `let _ =` releases the lock at once.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`LockRequest::acquire`], and [`LockError::WouldBlock`] inside an async task.
    /// The deadlock check does not find a lock that is held through a bare guard, because a guard can move to
    /// another thread. The call then waits.
    ///
    /// # Panics
    ///
    /// Panics inside `tokio::task::unconstrained`. There, tokio reports only by a panic that a thread must not block.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # fn main() -> Result<(), dlock::LockError> {
    /// use std::time::Duration;
    ///
    /// # let manager = dlock::LockManager::memory();
    /// let locks = manager.blocking();
    /// let held = locks.lock("order:42").acquire()?;
    /// let error = locks.lock("order:42").wait(Duration::from_millis(5)).acquire();
    /// assert!(error.is_err_and(|error| error.is_busy()));
    /// held.release()
    /// # }
    /// ```
    pub fn acquire(self) -> Result<BlockingGuard, LockError> {
        match blocking::runtime() {
            Ok(runtime) => {
                let guard = blocking::wait_for_acquire(&runtime, self.0.acquire());
                guard.map(BlockingGuard::new)
            }
            Err(no_wait) => Err(refused(self.0.origin(), &no_wait, self.0.first_key())),
        }
    }

    /// Acquires the lock if it is free, without waiting for its holder. Returns `None` if another holder has
    /// it.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`acquire`](Self::acquire), except [`LockError::Busy`].
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # fn main() -> Result<(), dlock::LockError> {
    /// # let manager = dlock::LockManager::memory();
    /// let Some(guard) = manager.blocking().lock("cache:refresh").try_acquire()? else {
    ///     return Ok(()); // another process refreshes the cache
    /// };
    /// guard.release()
    /// # }
    /// ```
    pub fn try_acquire(self) -> Result<Option<BlockingGuard>, LockError> {
        unless_busy(self.wait(Wait::Never).acquire())
    }

    /// Acquires the lock, runs `body` on this thread and releases the lock, as the attribute does.
    ///
    /// If the body panics, the lock is released and the panic continues.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`acquire`](Self::acquire), and [`LockError::Lost`] if the lease was lost before
    /// the body ended. The output of the body is then dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # fn main() -> Result<(), dlock::LockError> {
    /// # let manager = dlock::LockManager::memory();
    /// let parts = manager.blocking().lock("order:42").run(|lease| {
    ///     // A long body checks its lease between steps, because it cannot be cancelled.
    ///     (0..3).take_while(|_| !lease.is_lost()).count()
    /// })?;
    /// assert_eq!(parts, 3);
    /// # Ok(()) }
    /// ```
    pub fn run<T>(self, body: impl FnOnce(&Lease) -> T) -> Result<T, LockError> {
        let guard = self.acquire()?;
        let output = guard.run(|| body(guard.lease()));
        finish_blocking(guard, output)
    }

    /// Runs a body that can fail, like [`run`](Self::run), with one error type for both kinds of failure.
    ///
    /// # Errors
    ///
    /// Returns the error of the body, and the errors of [`run`](Self::run).
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let manager = dlock::LockManager::memory();
    /// let lock = manager.blocking().lock("order:42");
    /// let number: u32 = lock.try_run(|_lease| Ok::<_, Box<dyn std::error::Error>>("42".parse()?))?;
    /// assert_eq!(number, 42);
    /// # Ok(()) }
    /// ```
    pub fn try_run<T, E: From<LockError>>(
        self,
        body: impl FnOnce(&Lease) -> Result<T, E>,
    ) -> Result<T, E> {
        self.run(body)?
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::manager::LockManager;

    type Change<R> = fn(R, Duration) -> R;

    /// A body cannot be stopped: its caller has to hear of a loss.
    #[test]
    fn each_option_is_that_of_an_async_request_but_for_the_loss_of_a_lease() {
        let manager = LockManager::builder().on_lost(OnLost::Finish);
        let manager = manager.connect_lazy("memory://").unwrap();
        let second = Duration::from_secs(1);
        let pairs: [(Change<BlockingRequest>, Change<LockRequest>); 9] = [
            (|it, _| it.shared(), |it, _| it.shared()),
            (|it, _| it.permits(2), |it, _| it.permits(2)),
            (|it, _| it.also_shared("l"), |it, _| it.also_shared("l")),
            (|it, time| it.ttl(time), |it, time| it.ttl(time)),
            (|it, time| it.wait(time), |it, time| it.wait(time)),
            (|it, _| it.renew(false), |it, _| it.renew(false)),
            (|it, time| it.max_hold(time), |it, time| it.max_hold(time)),
            (|it, time| it.min_hold(time), |it, time| it.min_hold(time)),
            (|it, _| it.metric("k"), |it, _| it.metric("k")),
        ];
        for (number, (change, same)) in pairs.into_iter().enumerate() {
            let before = manager.blocking().lock("k");
            let unchanged = format!("{before:?}");
            let BlockingRequest(changed) = change(before, second);
            let expected = same(manager.lock("k").on_lost(OnLost::Stop), second);
            assert_eq!(format!("{changed:?}"), format!("{expected:?}"));
            assert_ne!(
                format!("BlockingRequest({changed:?})"),
                unchanged,
                "{number}"
            );
        }
    }
}
