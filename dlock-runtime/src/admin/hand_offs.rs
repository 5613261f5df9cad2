//! Who gets locks, as it happens.

use std::fmt;

use super::HandOff;
use crate::store::redis::Listener;

/// What the waiters of a namespace are told, from now on.
///
/// Made by [`Inspector::hand_offs`](super::Inspector::hand_offs). Dropping it ends the connections.
pub struct HandOffs {
    listener: Listener,
    /// Whether waiters are told without being made the holder.
    of_quorum: bool,
}

impl HandOffs {
    pub(super) fn new(listener: Listener, of_quorum: bool) -> Self {
        Self {
            listener,
            of_quorum,
        }
    }

    /// The next lock that went to a waiter; `None` when a connection has broken, and always from
    /// then on. A lock that was free when somebody asked for it is not among them.
    ///
    /// # Cancel safety
    ///
    /// Nothing is missed when the future is dropped.
    pub async fn next(&mut self) -> Option<HandOff> {
        loop {
            let told = self.listener.next().await?;
            // One server tells so only somebody whose lock was taken away.
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
