//! The guard of a lock that a thread holds.

use std::{fmt, ops::Deref};

use super::not_waited;
use crate::{
    api::guard::{Lease, LockGuard},
    clock::Moment,
    engine::{
        blocking::{self, NoWait, wait_for_release},
        reentrancy, renewer,
    },
    error::LockError,
};

/// A held lock. dlock renews the lease until the guard is released or dropped, even while its thread is
/// blocked.
///
/// Dropping the guard releases the lock and waits for the store's answer, also during unwinding: the program
/// may then exit. Where the thread must not block, the lock is released in the background instead.
/// [`release`](Self::release) also reports whether the lease was valid to the end. The guard dereferences to
/// its [`Lease`].
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
    /// Taken out when the lock is released.
    guard: Option<LockGuard>,
}

impl BlockingGuard {
    pub(crate) fn new(guard: LockGuard) -> Self {
        Self { guard: Some(guard) }
    }

    fn guard(&self) -> &LockGuard {
        let guard = self.guard.as_ref();
        guard.expect("it is taken out only when it is released")
    }

    /// Returns the lease that this guard owns.
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

    /// Runs `body` on this thread if the lease is valid.
    ///
    /// Inside `body`, calls for the same lock fail with [`LockError::WouldDeadlock`].
    ///
    /// # Errors
    ///
    /// Returns [`LockError::Lost`] if the lease is already lost. The body does not run.
    ///
    /// # Examples
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
    pub fn run<T>(&self, body: impl FnOnce() -> T) -> Result<T, LockError> {
        let guard = self.guard();
        let acquisition = guard.acquisition();
        guard.lease().ensure_held()?;
        renewer::ensure(acquisition, acquisition.now());
        let _span = acquisition.trail.span().enter();
        let _held = reentrancy::enter(acquisition.core.id(), guard.lease().keys());
        Ok(body())
    }

    /// Releases the lock and waits until the store has confirmed the release.
    ///
    /// A store that does not answer is not an error of this call: the release is repeated in the background
    /// until the lease has expired.
    ///
    /// # Errors
    ///
    /// Returns [`LockError::Lost`] if the lease was not valid to the end. Returns [`LockError::WouldBlock`]
    /// inside an async task; the lock is then released in the background.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # fn main() -> Result<(), dlock::LockError> {
    /// # let manager = dlock::LockManager::memory();
    /// let guard = manager.blocking().lock("order:42").acquire()?;
    /// // The work. Confirm the release before you report success:
    /// guard.release()?;
    /// assert!(manager.blocking().lock("order:42").try_acquire()?.is_some());
    /// # Ok(()) }
    /// ```
    pub fn release(mut self) -> Result<(), LockError> {
        let Some(guard) = self.guard.take() else {
            return Ok(());
        };
        // Without a wait, the guard is dropped, which releases the lock in the background.
        match blocking::runtime() {
            Ok(runtime) => wait_for_release(&runtime, guard.release()),
            Err(no_wait @ NoWait::InAsyncTask) => Err(not_waited(&no_wait, guard.key())),
            // While a thread ends, tokio's clock may panic.
            Err(_) => guard.lease().ensure_at(Moment::of_machine()),
        }
    }
}

impl Drop for BlockingGuard {
    fn drop(&mut self) {
        if let Some(guard) = self.guard.take() {
            // Without a wait, the lock is released in the background.
            match blocking::runtime() {
                Ok(runtime) => drop(wait_for_release(&runtime, guard.release())),
                Err(_) => drop(guard),
            }
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

/// Releases the lock of a body with the output `output`, and returns the combined outcome.
///
/// # Errors
///
/// Returns [`LockError::Lost`] if `output` or the release says so.
pub fn finish_blocking<T>(
    guard: BlockingGuard,
    output: Result<T, LockError>,
) -> Result<T, LockError> {
    let released = guard.release();
    let output = output?;
    released.map(|()| output)
}
