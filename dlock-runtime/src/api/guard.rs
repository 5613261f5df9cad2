//! Proof of holding a lock: the guard that owns a lease, and the lease its body sees.

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
        release::{Occupied, release},
    },
    error::LockError,
    exclusive::Exclusive,
};

pub use held::RunWhileHeld;
pub use lease::Lease;
use lease::OtherLeases;

/// A held lock. It is renewed until the guard is released or dropped.
///
/// Dropping it releases the lock in the background, also while unwinding and outside a runtime;
/// [`release`](Self::release) waits for the answer and tells whether the lease was valid to the
/// end. It reads as the [`Lease`] it owns.
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

    /// One guard of all, of which there is at least one; its key is that of the first.
    pub(crate) fn of_all(taken: Vec<Taken>) -> Self {
        let mut leases = taken.into_iter().map(Lease::new);
        let mut lease = leases.next().expect("a list of keys has at least one");
        let others: Vec<_> = leases.collect();
        lease.others = (!others.is_empty()).then(|| Box::new(OtherLeases(others)));
        Self { lease }
    }

    /// The lease this guard owns.
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

    /// Runs `body` as long as the lease is valid.
    ///
    /// With [`OnLost::Stop`](crate::OnLost::Stop) the body is dropped at the await it has reached as soon as the
    /// lease is lost. It is never started without a valid lease.
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
    ///
    /// # Errors
    ///
    /// The future yields [`LockError::Lost`] if the body was cancelled or never started.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the body; the lock stays held by the guard.
    pub fn run_while_held<F: Future>(&self, body: F) -> RunWhileHeld<'_, F> {
        RunWhileHeld::new(&self.lease, body)
    }

    /// Gives the lock back and waits until the store has confirmed it.
    ///
    /// A store that does not answer is not the caller's error: the release is repeated in the
    /// background until the lease has run out. Several keys are given back at once, each whatever
    /// becomes of the others.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock::LockError> {
    /// # let manager = dlock::LockManager::memory();
    /// let guard = manager.lock("order:42").acquire().await?;
    /// // The work. Then, before anybody is told of its success:
    /// guard.release().await?;
    /// assert!(manager.lock("order:42").try_acquire().await?.is_some());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// The future yields [`LockError::Lost`] if the lease was not valid to the end, unless
    /// [`OnLost::Finish`](crate::OnLost::Finish) was asked for.
    ///
    /// # Cancel safety
    ///
    /// The lock is given back whether the future is awaited to its end or dropped at any point.
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
/// Dropped before its end it goes on in the background: the lock is given back all the same.
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

/// Gives back several keys; the error is that of the first that was not valid to the end.
async fn release_all(place: Occupied, others: OtherLeases) -> Result<(), LockError> {
    let others = others.0.into_iter().map(|lease| lease.place);
    let released = join_all(std::iter::once(place).chain(others).map(release)).await;
    released.into_iter().collect()
}

pin_project! {
    /// The future of [`finish`].
    //
    // Not in the expansion, where an output kept over the await of the release would make each
    // function's future larger than this does.
    #[must_use = "futures do nothing unless polled"]
    pub struct Finish<T> {
        release: Release,
        output: Option<Result<T, LockError>>,
    }
}

/// Releases the lock of a body with this output, and yields the outcome of both.
///
/// # Errors
///
/// The future yields [`LockError::Lost`] if either says so.
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
