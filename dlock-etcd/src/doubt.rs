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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    async fn is_tried(doubt: &Doubt) -> bool {
        let tried = timeout(Duration::from_millis(1), doubt.raised());
        tried.await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_in_doubt_from_a_request_without_an_answer_until_its_next_one() {
        let doubt = Doubt::default();
        assert!(!doubt.is_open() && !is_tried(&doubt).await);
        drop(Unanswered(&doubt));
        assert!(doubt.is_open());
        assert!(is_tried(&doubt).await && !is_tried(&doubt).await, "once");
        assert!(doubt.is_open(), "a try is no answer");
        // Another request gets no answer while the connection is tried.
        doubt.raise();
        doubt.settle();
        assert!(!doubt.is_open());
        assert!(is_tried(&doubt).await);
        assert!(doubt.is_open(), "it counts for the next try");
    }

    #[tokio::test(start_paused = true)]
    async fn a_doubt_about_one_of_two_connections_to_a_member_is_one_about_both() {
        let own = Arc::<Doubt>::default();
        let near = Doubt::with(own.clone());
        near.raise();
        assert!(own.is_open() && is_tried(&own).await);
        near.settle();
        assert!(own.is_open(), "the other one has not answered");
        own.settle();
        own.raise();
        assert!(!near.is_open(), "that of the store says nothing about it");
    }
}
