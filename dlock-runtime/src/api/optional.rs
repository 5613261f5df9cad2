//! Guards of calls that may run without a lock, for functions with `enabled = EXPR`.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use pin_project_lite::pin_project;

use crate::{
    api::{
        blocking::{BlockingGuard, guard::finish_blocking},
        detach::Detach,
        guard::{Finish, LockGuard, RunWhileHeld, finish},
    },
    error::LockError,
};

/// A held lock, or none if the call runs without a lock and has sent no request.
#[must_use = "dropping the guard releases the lock at once"]
pub struct OptionalGuard(Option<LockGuard>);

impl OptionalGuard {
    /// Creates the guard of a call with a lock.
    pub fn held(guard: LockGuard) -> Self {
        Self(Some(guard))
    }

    /// Creates the guard of a call without a lock.
    pub fn none() -> Self {
        Self(None)
    }

    /// Runs `body` while the lease is valid, or to its end without a lock.
    pub fn run_while_held<F: Future>(&self, body: F) -> RunIfHeld<'_, F> {
        match &self.0 {
            Some(guard) => RunIfHeld::Held {
                body: guard.run_while_held(body),
            },
            None => RunIfHeld::Free { body },
        }
    }

    /// Releases the lock of a body with the output `output`, if there is a lock.
    ///
    /// # Errors
    ///
    /// The future yields [`LockError::Lost`] if `output` or the release says so.
    pub fn finish<T>(self, output: Result<T, LockError>) -> FinishIfHeld<T> {
        match self.0 {
            Some(guard) => FinishIfHeld::Held {
                finish: finish(guard, output),
            },
            None => FinishIfHeld::Free {
                output: Some(output),
            },
        }
    }

    /// Prepares the body to continue without its caller. Call it where the body will run.
    #[must_use]
    pub fn detach(&self) -> Detach {
        match &self.0 {
            Some(guard) => Detach::of(guard),
            None => Detach::without_lock(),
        }
    }
}

impl fmt::Debug for OptionalGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OptionalGuard").field(&self.0).finish()
    }
}

pin_project! {
    /// The future of [`OptionalGuard::run_while_held`].
    #[project = Running]
    #[must_use = "futures do nothing unless polled"]
    pub enum RunIfHeld<'a, F> {
        /// With a lock.
        Held {
            #[pin]
            body: RunWhileHeld<'a, F>,
        },
        /// Without a lock.
        Free {
            #[pin]
            body: F,
        },
    }
}

impl<F: Future> Future for RunIfHeld<'_, F> {
    type Output = Result<F::Output, LockError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project() {
            Running::Held { body } => body.poll(context),
            Running::Free { body } => body.poll(context).map(Ok),
        }
    }
}

impl<F> fmt::Debug for RunIfHeld<'_, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RunIfHeld")
    }
}

pin_project! {
    /// The future of [`OptionalGuard::finish`].
    #[project = Finishing]
    #[must_use = "futures do nothing unless polled"]
    pub enum FinishIfHeld<T> {
        /// With a lock to release.
        Held {
            #[pin]
            finish: Finish<T>,
        },
        /// Without a lock.
        Free {
            output: Option<Result<T, LockError>>,
        },
    }
}

impl<T> Future for FinishIfHeld<T> {
    type Output = Result<T, LockError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project() {
            Finishing::Held { finish } => finish.poll(context),
            Finishing::Free { output } => {
                let output = output.take();
                Poll::Ready(output.expect("a future is not polled after its end"))
            }
        }
    }
}

impl<T> fmt::Debug for FinishIfHeld<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FinishIfHeld")
    }
}

/// The guard of a blocking call: a held lock, or none.
#[must_use = "dropping the guard releases the lock at once"]
#[derive(Debug)]
pub struct OptionalBlockingGuard(Option<BlockingGuard>);

impl OptionalBlockingGuard {
    /// Creates the guard of a call with a lock.
    pub fn held(guard: BlockingGuard) -> Self {
        Self(Some(guard))
    }

    /// Creates the guard of a call without a lock.
    pub fn none() -> Self {
        Self(None)
    }

    /// Runs `body`. With a lock, the lease must be valid.
    ///
    /// # Errors
    ///
    /// Returns [`LockError::Lost`] if the lease is already lost. The body does not run.
    pub fn run<T>(&self, body: impl FnOnce() -> T) -> Result<T, LockError> {
        match &self.0 {
            Some(guard) => guard.run(body),
            None => Ok(body()),
        }
    }

    /// Releases the lock of a body with the output `output`, if there is a lock.
    ///
    /// # Errors
    ///
    /// Returns [`LockError::Lost`] if `output` or the release says so.
    pub fn finish<T>(self, output: Result<T, LockError>) -> Result<T, LockError> {
        match self.0 {
            Some(guard) => finish_blocking(guard, output),
            None => output,
        }
    }
}
