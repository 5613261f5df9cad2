//! Bodies that continue after their caller has been dropped (`on_cancel = detach`).
//!
//! While the caller polls, the body runs in place. When the caller drops the future, the body is spawned on
//! the runtime where it began.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use tokio::runtime::Handle;
use tracing::Instrument;

use crate::{
    api::{global, guard::LockGuard, manager::LockManager},
    engine::{acquisition::Acquisition, spawn::let_others_take_it},
    exclusive::Exclusive,
};

/// The parts of a locked call that continue without its caller.
pub struct Detach {
    /// The acquisition of the body, if it has a lock.
    acquisition: Option<Arc<Acquisition>>,
    /// The manager in scope: a new task does not inherit it.
    scope: Option<LockManager>,
    caller: tracing::Span,
    runtime: Option<Handle>,
}

impl Detach {
    /// Prepares the body of `guard` to be detached. Call it where the body will run.
    #[must_use]
    pub fn of(guard: &LockGuard) -> Self {
        Self::here(Some(guard.acquisition().clone()))
    }

    /// Prepares a body without a lock to be detached. Call it where the body will run.
    #[must_use]
    pub(super) fn without_lock() -> Self {
        Self::here(None)
    }

    fn here(acquisition: Option<Arc<Acquisition>>) -> Self {
        Self {
            acquisition,
            scope: global::in_scope(),
            caller: tracing::Span::current(),
            runtime: Handle::try_current().ok(),
        }
    }

    /// Runs `rest` in place while the caller polls it, and in a task of its own after that.
    pub fn run<F>(self, rest: F) -> Detached<F::Output>
    where
        F: Future + Send + 'static,
    {
        Detached {
            rest: Exclusive::new(Some(Box::pin(rest))),
            detach: self,
        }
    }

    fn spawn(&self, rest: impl Future + Send + 'static) {
        // Without a runtime, `rest` is dropped. It owns the guard, so this releases the lock.
        if let Some(runtime) = &self.runtime {
            let acquisition = self.acquisition.clone();
            let rest = async move {
                // Reported inside the task: a runtime that has shut down drops the task before its first
                // poll.
                if let Some(acquisition) = acquisition {
                    acquisition.events().detached();
                }
                drop(rest.await);
            };
            let rest = rest.instrument(self.caller.clone());
            match self.scope.clone() {
                Some(manager) => runtime.spawn(global::with_manager(manager, rest)),
                None => runtime.spawn(rest),
            };
            let_others_take_it();
        }
    }
}

impl fmt::Debug for Detach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Detach")
    }
}

/// The future of [`Detach::run`].
///
/// Nothing is spawned while the caller polls it: the body sees the caller's task-locals, and its panics reach
/// the caller.
#[must_use = "futures do nothing unless polled"]
pub struct Detached<T> {
    /// Taken out while it is polled, so that a future that has panicked is not polled again.
    rest: Exclusive<Option<Pin<Box<dyn Rest<Output = T>>>>>,
    detach: Detach,
}

/// The rest of a body. It is spawned through this trait, where its own type is known. A bound `T: 'static`
/// instead would make the compiler report an error in a generic function twice.
trait Rest: Future + Send {
    fn spawn(self: Pin<Box<Self>>, detach: &Detach);
}

impl<F: Future + Send + 'static> Rest for F {
    fn spawn(self: Pin<Box<Self>>, detach: &Detach) {
        detach.spawn(self);
    }
}

impl<T> Future for Detached<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let mut rest = self
            .rest
            .get_mut()
            .take()
            .expect("a future is not polled after its end");
        let poll = rest.as_mut().poll(context);
        if poll.is_pending() {
            *self.rest.get_mut() = Some(rest);
        }
        poll
    }
}

impl<T> Drop for Detached<T> {
    fn drop(&mut self) {
        if let Some(rest) = self.rest.get_mut().take() {
            rest.spawn(&self.detach);
        }
    }
}

impl<T> fmt::Debug for Detached<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Detached")
    }
}
