//! The guard that owns a lease, and the futures that run a body and release the lock.

mod held;
mod lease;
mod woken;

use std::{
    fmt,
    future::Future,
    ops::Deref,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures_util::future::join_all;
use pin_project_lite::pin_project;

use crate::{
    engine::{
        acquire::Taken,
        acquisition::Acquisition,
        release::{Occupied, abandon, release},
    },
    error::LockError,
    exclusive::Exclusive,
};

pub use held::RunWhileHeld;
pub use lease::Lease;
use lease::OtherLeases;

/// A held lock. dlock renews the lease until the guard is released or dropped.
///
/// Dropping the guard releases the lock in the background, also during unwinding and outside a runtime.
/// [`release`](Self::release) waits for the answer and reports whether the lease was valid to the end. The
/// guard dereferences to its [`Lease`].
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// # async fn demo() -> Result<(), dlock::LockError> {
/// let manager = dlock::LockManager::memory();
/// let guard = manager.lock("report:daily").acquire().await?;
/// println!("token {} for {}", guard.fencing_token(), guard.key());
/// guard.release().await?;
/// # Ok(()) }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(demo()).unwrap();
/// ```
#[must_use = "dropping the guard releases the lock at once"]
pub struct LockGuard {
    lease: Lease,
}

impl LockGuard {
    pub(crate) fn new(taken: Taken) -> Self {
        let lease = Lease::new(taken);
        Self { lease }
    }

    /// Creates one guard for all keys. There is at least one key, and the guard's key is the first.
    pub(crate) fn of_all(taken: Vec<Taken>) -> Self {
        let mut leases = taken.into_iter().map(Lease::new);
        let mut lease = leases.next().expect("a list of keys has at least one");
        let others: Vec<_> = leases.collect();
        lease.others = (!others.is_empty()).then(|| Box::new(OtherLeases(others)));
        Self { lease }
    }

    /// Returns the lease that this guard owns.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock::LockError> {
    /// # let manager = dlock::LockManager::memory();
    ///
    /// let guard = manager.lock("order:42").acquire().await?;
    /// assert_eq!(guard.lease().key().as_str(), "order:42");
    /// guard.release().await?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn lease(&self) -> &Lease {
        &self.lease
    }

    pub(crate) fn acquisition(&self) -> &Arc<Acquisition> {
        &self.lease.place.acquisition
    }

    /// Runs `body` while the lease is valid.
    ///
    /// With [`OnLost::Stop`](crate::OnLost::Stop), the body is dropped at its current await as soon as the
    /// lease is lost. Without a valid lease the body does not start.
    ///
    /// # Errors
    ///
    /// The future yields [`LockError::Lost`] if the body was cancelled or never started.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the body. The guard still holds the lock.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock::LockError> {
    /// # let manager = dlock::LockManager::memory();
    /// let guard = manager.lock("order:42").acquire().await?;
    /// let settled = guard.run_while_held(async { "settled" }).await?;
    /// guard.release().await?;
    /// assert_eq!(settled, "settled");
    /// # Ok(()) }
    /// ```
    pub fn run_while_held<F: Future>(&self, body: F) -> RunWhileHeld<'_, F> {
        RunWhileHeld::new(&self.lease, body)
    }

    /// Ends the guard without a release: the lease ends at its TTL, unless its store ends it in another way, such as
    /// with a transaction.
    ///
    /// For code that has taken the lease over in the store itself. Everywhere else, use [`release`](Self::release).
    /// Tasks of this process that share the lease continue with it, and the last of them does not release it either.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock::LockError> {
    /// # let manager = dlock::LockManager::memory();
    /// let guard = manager.lock("order:42").acquire().await?;
    /// guard.leave();
    /// assert!(manager.lock("order:42").try_acquire().await?.is_none(), "until its TTL is over");
    /// # Ok(()) }
    /// ```
    pub fn leave(self) {
        let Lease { place, others, .. } = self.lease;
        abandon(place);
        for lease in others.into_iter().flat_map(|others| others.0) {
            abandon(lease.place);
        }
    }

    /// Releases the lock and waits until the store has confirmed the release.
    ///
    /// A store that does not answer is not an error of this call: the release is repeated in the background
    /// until the lease has expired. The releases of several keys are sent at once and are independent of each
    /// other.
    ///
    /// # Errors
    ///
    /// The future yields [`LockError::Lost`] if the lease was not valid to the end, unless
    /// [`OnLost::Finish`](crate::OnLost::Finish) is set.
    ///
    /// # Cancel safety
    ///
    /// The lock is released whether the future is awaited to its end or dropped at any point.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock::LockError> {
    /// # let manager = dlock::LockManager::memory();
    /// let guard = manager.lock("order:42").acquire().await?;
    /// // The work. Confirm the release before you report success:
    /// guard.release().await?;
    /// assert!(manager.lock("order:42").try_acquire().await?.is_some());
    /// # Ok(()) }
    /// ```
    pub fn release(self) -> Release {
        let Lease { place, others, .. } = self.lease;
        match others {
            None => Release::new(Box::pin(release(place))),
            Some(others) => Release::new(Box::pin(release_all(place, *others))),
        }
    }
}

impl Deref for LockGuard {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.lease
    }
}

impl fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LockGuard").field(&self.lease).finish()
    }
}

/// The future of [`LockGuard::release`].
///
/// # Cancel safety
///
/// If the future is dropped before its end, the release continues in the background.
///
/// # Examples
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock::LockError> {
/// use dlock::Release;
///
/// # let manager = dlock::LockManager::memory();
/// let guard = manager.lock("order:42").acquire().await?;
/// let released: Release = guard.release();
/// released.await
/// # }
/// ```
#[must_use = "dropping it releases in the background, without an answer"]
pub struct Release(Exclusive<Releasing>);

type Releasing = Pin<Box<dyn Future<Output = Result<(), LockError>> + Send>>;

impl Release {
    fn new(releasing: Releasing) -> Self {
        Self(Exclusive::new(releasing))
    }
}

impl Future for Release {
    type Output = Result<(), LockError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.get_mut().as_mut().poll(context)
    }
}

impl fmt::Debug for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Release")
    }
}

/// Releases several keys. The error is that of the first key whose lease was not valid to the end.
async fn release_all(place: Occupied, others: OtherLeases) -> Result<(), LockError> {
    let others = others.0.into_iter().map(|lease| lease.place);
    let released = join_all(std::iter::once(place).chain(others).map(release)).await;
    released.into_iter().collect()
}

pin_project! {
    /// The future of [`finish`].
    //
    // This type is not part of the expansion: there, an output kept across the await of the release would
    // make the future of each function larger.
    #[must_use = "futures do nothing unless polled"]
    pub struct Finish<T> {
        release: Release,
        output: Option<Result<T, LockError>>,
    }
}

/// Releases the lock of a body with the output `output`, and yields the combined outcome.
///
/// # Errors
///
/// The future yields [`LockError::Lost`] if `output` or the release says so.
pub fn finish<T>(guard: LockGuard, output: Result<T, LockError>) -> Finish<T> {
    Finish {
        release: guard.release(),
        output: Some(output),
    }
}

impl<T> Future for Finish<T> {
    type Output = Result<T, LockError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let Poll::Ready(released) = Pin::new(this.release).poll(context) else {
            return Poll::Pending;
        };
        let output = this.output.take();
        let output = output.expect("a future is not polled after its end");
        Poll::Ready(match (output, released) {
            (Ok(output), Ok(())) => Ok(output),
            (Err(error), _) | (Ok(_), Err(error)) => Err(error),
        })
    }
}
