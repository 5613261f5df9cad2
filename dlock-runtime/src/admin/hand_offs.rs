//! The published messages about new holders.

use std::{
    fmt,
    future::poll_fn,
    task::{Context, Poll},
};

use super::HandOff;

/// Receives the wake-up messages of a namespace.
///
/// Created by [`Inspect::hand_offs`](super::Inspect::hand_offs). Dropping it closes the connections.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// use dlock::admin::HandOffs;
///
/// /// Shows each new holder, until a connection breaks.
/// async fn watch(mut hand_offs: HandOffs) {
///     while let Some(hand_off) = hand_offs.next().await {
///         println!("{} goes to {}", hand_off.key, hand_off.owner.handle());
///     }
/// }
/// # let _ = watch;
/// ```
pub struct HandOffs {
    poll: Box<PollNext>,
}

type PollNext = dyn FnMut(&mut Context<'_>) -> Poll<Option<HandOff>> + Send;

impl HandOffs {
    /// Creates the stream from the function that polls for its next grant, for stores of other crates. The function
    /// returns `None` when a connection has broken, and always from then on.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::admin::{HandOff, HandOffs};
    ///
    /// let (grants, mut heard) = tokio::sync::mpsc::channel::<HandOff>(16);
    /// let hand_offs = HandOffs::new(move |context| heard.poll_recv(context));
    /// # drop((grants, hand_offs));
    /// ```
    #[must_use]
    pub fn new(
        poll: impl FnMut(&mut Context<'_>) -> Poll<Option<HandOff>> + Send + 'static,
    ) -> Self {
        Self {
            poll: Box::new(poll),
        }
    }

    /// Returns the next grant of a lock to a waiter. Returns `None` when a connection has broken, and always
    /// from then on. A lock that was free when its new holder requested it is not reported.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses no message.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use std::time::Duration;
    /// use dlock::admin::HandOffs;
    ///
    /// /// Counts the grants to waiters within ten seconds.
    /// async fn count(hand_offs: &mut HandOffs) -> usize {
    ///     let mut count = 0;
    ///     let counting = async {
    ///         while hand_offs.next().await.is_some() {
    ///             count += 1;
    ///         }
    ///     };
    ///     let _ = tokio::time::timeout(Duration::from_secs(10), counting).await;
    ///     count
    /// }
    /// # let _ = count;
    /// ```
    pub async fn next(&mut self) -> Option<HandOff> {
        poll_fn(|context| (self.poll)(context)).await
    }
}

impl fmt::Debug for HandOffs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandOffs").finish_non_exhaustive()
    }
}
