//! Runs a body while its lease is valid, and drops it when the lease is lost.
//!
//! The future registers for the wake-up of a loss before it checks the lease, so it cannot miss a loss.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use pin_project_lite::pin_project;
use tracing::span::Entered;

use super::{lease::Lease, woken::Woken};
use crate::{
    engine::{reentrancy, renewer},
    error::LockError,
    options::OnLost,
};

pin_project! {
    /// The future of [`LockGuard::run_while_held`].
    ///
    /// # Cancel safety
    ///
    /// Dropping it drops the body. The guard still holds the lock.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock::LockError> {
    /// # let manager = dlock::LockManager::memory();
    /// let guard = manager.lock("order:42").acquire().await?;
    /// drop(guard.run_while_held(std::future::pending::<()>()));
    /// assert!(!guard.is_lost());
    /// guard.release().await
    /// # }
    /// ```
    //
    // This struct is compiled for every locked function. Code that does not depend on the body is in
    // `Watching`.
    #[must_use = "futures do nothing unless polled"]
    pub struct RunWhileHeld<'a, F> {
        #[pin]
        watching: Watching<'a>,
        #[pin]
        body: Option<F>,
    }
}

impl<F: Future> Future for RunWhileHeld<'_, F> {
    type Output = Result<F::Output, LockError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let mut inside = this.watching.enter(context);
        if let Some(error) = inside.lost.take() {
            this.body.set(None);
            return Poll::Ready(Err(error));
        }
        let body = this.body.as_pin_mut();
        let body = body.expect("a future is not polled after its end");
        body.poll(context).map(Ok)
    }
}

impl<F> fmt::Debug for RunWhileHeld<'_, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunWhileHeld")
            .field("lease", self.watching.lease)
            .finish_non_exhaustive()
    }
}

impl<'a, F> RunWhileHeld<'a, F> {
    pub(super) fn new(lease: &'a Lease, body: F) -> Self {
        Self {
            watching: Watching::new(lease),
            body: Some(body),
        }
    }
}

pin_project! {
    /// The lease of a [`RunWhileHeld`], and whether its body has started.
    struct Watching<'a> {
        lease: &'a Lease,
        #[pin]
        woken: Woken<'a>,
        started: bool,
    }

    impl PinnedDrop for Watching<'_> {
        fn drop(this: Pin<&mut Self>) {
            this.lease.place.acquisition.polls.end();
        }
    }
}

/// The scopes that are entered while a body is polled, or while it is dropped because the lease is lost.
//
// Rust drops fields in the order of their declaration, so the scope that was entered last is left first.
struct Inside<'a> {
    lost: Option<LockError>,
    _held: Option<reentrancy::Scope>,
    _span: Entered<'a>,
}

impl<'a> Watching<'a> {
    fn new(lease: &'a Lease) -> Self {
        Self {
            lease,
            woken: lease.woken(),
            started: false,
        }
    }

    fn enter(self: Pin<&mut Self>, context: &mut Context<'_>) -> Inside<'a> {
        let mut this = self.project();
        let lease = *this.lease;
        let acquisition = &lease.place.acquisition;
        let now = acquisition.now();
        acquisition.polls.begin(now);
        // Registering precedes the check, so a loss in between is not missed.
        while this.woken.as_mut().poll(context).is_ready() {
            this.woken.set(lease.woken());
        }
        if acquisition.timing.on_lost == OnLost::Stop || !*this.started {
            if let Err(lost) = lease.ensure_at(now) {
                return Inside {
                    _span: acquisition.trail.span().enter(),
                    _held: None,
                    lost: Some(lost),
                };
            }
            if !*this.started {
                // The guard may have moved here from a runtime that has shut down, and the renewal with it.
                renewer::ensure(acquisition, now);
                *this.started = true;
            }
        }
        Inside {
            _span: acquisition.trail.span().enter(),
            _held: Some(reentrancy::enter(acquisition.core.id(), lease.keys())),
            lost: None,
        }
    }
}
