//! The published messages about new holders.

use std::fmt;

use super::HandOff;
use crate::store::redis::Listener;

/// Receives the wake-up messages of a namespace.
///
/// Created by [`Inspector::hand_offs`](super::Inspector::hand_offs). Dropping it closes the connections.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// use dlock::admin::HandOffs;
///
/// /// Shows each new holder, until a connection breaks.
/// async fn watch(mut hand_offs: HandOffs) {
///     while let Some(hand_off) = hand_offs.next().await {
///         println!("{} goes to {}", hand_off.key, hand_off.owner);
///     }
/// }
/// # let _ = watch;
/// ```
pub struct HandOffs {
    listener: Listener,
    /// `true` if waiters are notified without being made the holder.
    of_quorum: bool,
}

impl HandOffs {
    pub(super) fn new(listener: Listener, of_quorum: bool) -> Self {
        Self {
            listener,
            of_quorum,
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
        loop {
            let told = self.listener.next().await?;
            // A single server sends a fence of 0 to a holder whose lock was force-released.
            if told.fence > 0 || self.of_quorum {
                return Some(HandOff {
                    key: told.key,
                    owner: told.owner,
                    fence: told.fence,
                });
            }
        }
    }
}

impl fmt::Debug for HandOffs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandOffs").finish_non_exhaustive()
    }
}
