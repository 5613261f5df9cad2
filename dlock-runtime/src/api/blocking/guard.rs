//! A lock that a thread holds.

use std::{fmt, ops::Deref};

use super::not_waited;
use crate::{
    api::guard::{Lease, LockGuard},
    engine::{
        blocking::{NoWait, wait_for},
        reentrancy, renewer,
    },
    error::LockError,
};

/// A held lock. It is renewed until the guard is released or dropped, whatever its thread does.
///
/// Dropping it gives the lock back and waits for that, also while unwinding: after it a program may end. Only where a
/// thread must not be blocked, the lock is given back in the background. [`release`](Self::release) tells besides
/// whether the lease was valid to the end. The guard reads as the [`Lease`] it owns.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// # fn main() -> Result<(), dlock::LockError> {
/// let manager = dlock::LockManager::memory();
/// let guard = manager.blocking().lock("report:daily").acquire()?;
/// println!("token {} for {}", guard.fencing_token(), guard.key());
/// drop(guard);
/// assert_eq!(manager.active_keys(), 0);
/// # Ok(()) }
/// ```
#[must_use = "dropping the guard releases the lock at once"]
pub struct BlockingGuard {
    /// Taken out when it is given back.
    guard: Option<LockGuard>,
}

impl BlockingGuard {
    pub(crate) fn new(guard: LockGuard) -> Self {
        Self { guard: Some(guard) }
    }

    fn guard(&self) -> &LockGuard {
        let guard = self.guard.as_ref();
        guard.expect("it is taken out only when it is given back")
    }

    /// The lease this guard owns.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # fn main() -> Result<(), dlock::LockError> {
    /// # let manager = dlock::LockManager::memory();
    /// let guard = manager.blocking().lock("order:42").acquire()?;
    /// assert_eq!(guard.lease().key().as_str(), "order:42");
    /// guard.release()
    /// # }
    /// ```
    #[must_use]
    pub fn lease(&self) -> &Lease {
        self.guard().lease()
    }

    /// Runs `body` on this thread, if the lease is valid.
    ///
    /// Calls for the same lock inside of `body` are refused with [`LockError::WouldDeadlock`].
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # fn main() -> Result<(), dlock::LockError> {
    /// use dlock::LockError;
    ///
    /// # let manager = dlock::LockManager::memory();
    /// let locks = manager.blocking();
    /// let guard = locks.lock("order:42").acquire()?;
    /// let nested = guard.run(|| locks.lock("order:42").acquire().map(drop))?;
    /// assert!(matches!(nested, Err(LockError::WouldDeadlock { .. })));
    /// guard.release()
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] if the lease was lost before: the body has not run.
    pub fn run<T>(&self, body: impl FnOnce() -> T) -> Result<T, LockError> {
        let guard = self.guard();
        let acquisition = guard.acquisition();
        guard.lease().ensure_held()?;
        renewer::ensure(acquisition);
        let _span = acquisition.trail.span().enter();
        let _held = reentrancy::enter(acquisition.core.id(), guard.lease().keys());
        Ok(body())
    }

    /// Gives the lock back and waits until the store has confirmed it.
    ///
    /// A store that does not answer is not the caller's error: the release is repeated in the background until the
    /// lease has run out.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # fn main() -> Result<(), dlock::LockError> {
    /// # let manager = dlock::LockManager::memory();
    /// let guard = manager.blocking().lock("order:42").acquire()?;
    /// // The work. Then, before anybody is told of its success:
    /// guard.release()?;
    /// assert!(manager.blocking().lock("order:42").try_acquire()?.is_some());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] if the lease was not valid to the end. [`LockError::WouldBlock`] inside of an async task:
    /// the lock is then given back in the background.
    pub fn release(mut self) -> Result<(), LockError> {
        let Some(guard) = self.guard.take() else {
            return Ok(());
        };
        let key = guard.key().clone();
        wait_for(guard.release()).unwrap_or_else(|no_wait| match no_wait {
            NoWait::InAsyncTask => Err(not_waited(&no_wait, &key)),
            // The dropped future goes on in the background.
            NoWait::ThreadEnds | NoWait::NoThread(_) => Ok(()),
        })
    }
}

impl Drop for BlockingGuard {
    fn drop(&mut self) {
        if let Some(guard) = self.guard.take() {
            // Dropped before its end, the future goes on in the background.
            drop(wait_for(guard.release()));
        }
    }
}

impl Deref for BlockingGuard {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        self.lease()
    }
}

impl fmt::Debug for BlockingGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("BlockingGuard").field(self.lease()).finish()
    }
}

/// Releases the lock of a body with this output, and returns the outcome of both.
///
/// # Errors
///
/// [`LockError::Lost`] if either says so.
pub fn finish_blocking<T>(
    guard: BlockingGuard,
    output: Result<T, LockError>,
) -> Result<T, LockError> {
    let released = guard.release();
    let output = output?;
    released.map(|()| output)
}
