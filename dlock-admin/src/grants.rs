//! The published messages about new holders.

use std::{
    fmt,
    future::poll_fn,
    task::{Context, Poll},
};

use crate::model::Grant;

/// Receives the wake-up messages of a namespace.
///
/// Created by [`Inspect::grants`](crate::Inspect::grants). Dropping it closes the connections.
///
/// ```
/// use dlock::admin::Grants;
///
/// /// Shows each new holder, until a connection breaks.
/// async fn watch(mut grants: Grants) {
///     while let Some(grant) = grants.next().await {
///         println!("{} goes to {}", grant.key, grant.owner.handle());
///     }
/// }
/// # let _ = watch;
/// ```
pub struct Grants {
    poll: Box<PollNext>,
}

type PollNext = dyn FnMut(&mut Context<'_>) -> Poll<Option<Grant>> + Send;

impl Grants {
    /// Creates the stream from the function that polls for its next grant, for stores of other crates. The function
    /// returns `None` when a connection has broken, and always from then on.
    ///
    /// ```
    /// use dlock::admin::{Grant, Grants};
    ///
    /// let (sender, mut receiver) = tokio::sync::mpsc::channel::<Grant>(16);
    /// let grants = Grants::new(move |context| receiver.poll_recv(context));
    /// # drop((sender, grants));
    /// ```
    #[must_use]
    pub fn new(poll: impl FnMut(&mut Context<'_>) -> Poll<Option<Grant>> + Send + 'static) -> Self {
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
    /// use std::time::Duration;
    /// use dlock::admin::Grants;
    ///
    /// /// Counts the grants to waiters within ten seconds.
    /// async fn count(grants: &mut Grants) -> usize {
    ///     let mut count = 0;
    ///     let counting = async {
    ///         while grants.next().await.is_some() {
    ///             count += 1;
    ///         }
    ///     };
    ///     let _ = tokio::time::timeout(Duration::from_secs(10), counting).await;
    ///     count
    /// }
    /// # let _ = count;
    /// ```
    pub async fn next(&mut self) -> Option<Grant> {
        poll_fn(|context| (self.poll)(context)).await
    }
}

impl fmt::Debug for Grants {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Grants").finish_non_exhaustive()
    }
}
