//! Taking a lock for a thread.

use std::time::Duration;

use super::{BlockingGuard, guard::finish_blocking, refused};
use crate::{
    api::{
        guard::Lease,
        request::{LockRequest, unless_busy},
    },
    engine::blocking,
    error::LockError,
    options::{OnLost, Wait},
};

/// A lock about to be taken by code that blocks its thread, made by
/// [`BlockingManager::lock`](super::BlockingManager::lock), or several, by
/// [`BlockingManager::lock_all`](super::BlockingManager::lock_all).
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
/// println!("was done with token {token}");
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[must_use = "it does nothing until `acquire`, `try_acquire`, `run` or `try_run` is called"]
pub struct BlockingRequest(LockRequest);

impl BlockingRequest {
    pub(super) fn new(request: LockRequest) -> Self {
        // A body runs to its end in any case; by this the release tells of a loss.
        Self(request.on_lost(OnLost::Stop))
    }

    /// See [`LockRequest::ttl`].
    pub fn ttl(self, ttl: Duration) -> Self {
        Self(self.0.ttl(ttl))
    }

    /// See [`LockRequest::wait`].
    pub fn wait(self, wait: impl Into<Wait>) -> Self {
        Self(self.0.wait(wait))
    }

    /// See [`LockRequest::renew`].
    pub fn renew(self, renew: bool) -> Self {
        Self(self.0.renew(renew))
    }

    /// See [`LockRequest::max_hold`]: the lease is given up then, and the body goes on.
    pub fn max_hold(self, max_hold: Duration) -> Self {
        Self(self.0.max_hold(max_hold))
    }

    /// See [`LockRequest::min_hold`].
    pub fn min_hold(self, min_hold: Duration) -> Self {
        Self(self.0.min_hold(min_hold))
    }

    /// See [`LockRequest::metric`].
    pub fn metric(self, metric: &'static str) -> Self {
        Self(self.0.metric(metric))
    }

    /// Takes the lock. Bind the guard to a name: `let _ =` would release it at once.
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
    ///
    /// # Errors
    ///
    /// As [`LockRequest::acquire`], and [`LockError::WouldBlock`] inside of an async task. A lock that a bare
    /// guard holds is not found by the deadlock check, since a guard may move to another thread: it is waited for.
    pub fn acquire(self) -> Result<BlockingGuard, LockError> {
        match blocking::runtime() {
            Ok(runtime) => runtime.block_on(self.0.acquire()).map(BlockingGuard::new),
            Err(no_wait) => Err(refused(self.0.origin(), &no_wait, self.0.first_key())),
        }
    }

    /// Takes the lock if it is free, without waiting for its holder; `None` if another one has it.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # fn main() -> Result<(), dlock::LockError> {
    /// # let manager = dlock::LockManager::memory();
    /// let Some(guard) = manager.blocking().lock("cache:refresh").try_acquire()? else {
    ///     return Ok(()); // another one refreshes it
    /// };
    /// guard.release()
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire), without [`LockError::Busy`].
    pub fn try_acquire(self) -> Result<Option<BlockingGuard>, LockError> {
        unless_busy(self.wait(Wait::Never).acquire())
    }

    /// Runs `body` on this thread while holding the lock, as the attribute does.
    ///
    /// A panic of the body gives the lock back and goes on.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # fn main() -> Result<(), dlock::LockError> {
    /// # let manager = dlock::LockManager::memory();
    /// let parts = manager.blocking().lock("order:42").run(|lease| {
    ///     // Long work looks between its steps, since nothing stops it.
    ///     (0..3).take_while(|_| !lease.is_lost()).count()
    /// })?;
    /// assert_eq!(parts, 3);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire), and [`LockError::Lost`] when the lease was lost before the body had ended:
    /// what the body has returned is then dropped.
    pub fn run<T>(self, body: impl FnOnce(&Lease) -> T) -> Result<T, LockError> {
        let guard = self.acquire()?;
        let output = guard.run(|| body(guard.lease()));
        finish_blocking(guard, output)
    }

    /// [`run`](Self::run) for a body that may fail itself: both kinds of failure are one.
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
    ///
    /// # Errors
    ///
    /// That of the body, and those of [`run`](Self::run).
    pub fn try_run<T, E: From<LockError>>(
        self,
        body: impl FnOnce(&Lease) -> Result<T, E>,
    ) -> Result<T, E> {
        self.run(body)?
    }
}
