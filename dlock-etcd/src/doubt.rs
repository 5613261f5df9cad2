//! The doubt that a connection still works: a request over it has got no answer.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use tokio::sync::Notify;

/// The doubts about one connection. The task that watches over it tries it then.
#[derive(Default)]
pub(crate) struct Doubt {
    is_open: AtomicBool,
    raised: Notify,
    /// Those about another connection to the same member, which may be the one that does not answer.
    also: Option<Arc<Doubt>>,
}

impl Doubt {
    /// Doubts about a connection which are doubts about `other` as well.
    pub(crate) fn with(other: Arc<Doubt>) -> Self {
        Self {
            also: Some(other),
            ..Self::default()
        }
    }

    pub(crate) fn raise(&self) {
        self.is_open.store(true, Ordering::Release);
        self.raised.notify_one();
        if let Some(also) = &self.also {
            also.raise();
        }
    }

    /// Waits until the connection is doubted.
    pub(crate) async fn raised(&self) {
        self.raised.notified().await;
        // Those that were raised while the connection was tried count for the next try.
        self.is_open.store(true, Ordering::Release);
    }

    /// Notes that the connection has answered.
    pub(crate) fn settle(&self) {
        self.is_open.store(false, Ordering::Release);
    }

    /// Returns `true` while the connection has not answered since it was doubted.
    pub(crate) fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Acquire)
    }
}

/// A request without an answer. Dropped, it has the connection tried.
pub(crate) struct Unanswered<'a>(pub(crate) &'a Doubt);

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        self.0.raise();
    }
}
