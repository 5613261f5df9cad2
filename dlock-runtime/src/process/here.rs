//! Stops tasks that own a socket in a forked child.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use pin_project_lite::pin_project;
use tokio::time::Instant;

use super::Process;

pin_project! {
    /// Polls its future only in the process that created it.
    ///
    /// In a child the future stops where it is. It is not dropped: that would remove its sockets from the
    /// parent's selector, which the child shares.
    pub(crate) struct Here<F> {
        #[pin]
        work: F,
        process: Process,
    }
}

/// Wraps a task that owns sockets, so that a forked child does not run it.
pub(crate) fn here<F: Future>(work: F) -> Here<F> {
    Here {
        work,
        process: Process::this(),
    }
}

impl<F: Future> Future for Here<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        if this.process.is_this(Instant::now()) {
            this.work.poll(context)
        } else {
            Poll::Pending
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{future::ready, task::Waker};

    use super::*;

    #[test]
    fn work_stops_in_another_process() {
        let mut context = Context::from_waker(Waker::noop());
        let mut work = Box::pin(here(ready(1)));
        assert_eq!(work.as_mut().poll(&mut context), Poll::Ready(1));
        let elsewhere = Here {
            work: ready(1),
            process: Process::other(),
        };
        let mut elsewhere = Box::pin(elsewhere);
        assert_eq!(elsewhere.as_mut().poll(&mut context), Poll::Pending);
    }
}
