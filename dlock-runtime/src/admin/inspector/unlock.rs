//! Ends a lease that an operator has seen, and no other.

use std::sync::atomic::Ordering;

use futures_util::future::join_all;

use super::Inspector;
use crate::{
    admin::{LockInfo, Unlocked},
    key::LockKey,
    owner::OwnerId,
    store::{StoreError, StoreErrorKind},
};

impl Inspector {
    /// Takes a lock away from the holder that was `seen` with it, if it is still that lease, and
    /// grants it to the first waiter.
    ///
    /// The fence of the slot is raised first. So a resource that checks fencing tokens refuses
    /// later writes of the old holder as soon as it has seen a newer token. The holder is notified,
    /// and its body ends as [`Lost`](crate::LockError::Lost) within about a round trip; if the
    /// message does not arrive, with its next renewal. A lease that is not renewed ends for its
    /// holder only at its deadline: until then two bodies may run. The same is true of a
    /// third-party client, which is not notified.
    ///
    /// A lease that was renewed, or handed over inside its process, since it was seen counts as the
    /// same. A third-party client's lock is recognised by its whole value.
    ///
    /// # Errors
    ///
    /// [`StoreError`] when a server did not answer, or when so many of a quorum did not at the time of the
    /// look that the lease may still be held. The lock may have been taken away: look again.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped before its answer, the lock may have been taken away or not; at each
    /// server it is one step.
    ///
    /// ```no_run
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use dlock::{admin::Inspector, store::redis::RedisConfig};
    /// use dlock::LockKey;
    ///
    /// let inspector = Inspector::connect(RedisConfig::new("redis://localhost")).await?;
    /// if let Some(seen) = inspector.lock(&LockKey::new("order:42")?).await? {
    ///     // Only the lease that was seen is ended, not that of a later holder.
    ///     println!("{:?}", inspector.unlock(&seen).await?);
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn unlock(&self, seen: &LockInfo) -> Result<Unlocked, StoreError> {
        let Ok(key) = LockKey::new(&seen.key) else {
            return Ok(Unlocked::Changed);
        };
        let me = OwnerId::new(self.me, self.unlocked.fetch_add(1, Ordering::Relaxed));
        let known = seen.seen.iter();
        let known = known.filter_map(|(server, lease)| Some((self.stores.get(*server)?, lease)));
        let (mut taken, mut handed_on, mut failure) = (0, false, None);
        let asked = known.map(|(store, lease)| store.unlock(&key, me, lease));
        for answer in join_all(asked).await {
            match answer {
                Ok(None) => {}
                Ok(Some(to_waiter)) => {
                    taken += 1;
                    handed_on |= to_waiter;
                }
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        let majority = self.stores.len() / 2 + 1;
        let left = seen.seen.len() - taken;
        // A server that did not answer when the lock was looked at may hold the same lease.
        let untold = self.stores.len().saturating_sub(seen.servers);
        match failure {
            Some(error) if taken == 0 || left + untold >= majority => Err(error),
            _ if taken == 0 || left >= majority => Ok(Unlocked::Changed),
            _ if left + untold >= majority => Err(too_few(seen.servers, self.stores.len())),
            _ if handed_on => Ok(Unlocked::HandedOn),
            _ => Ok(Unlocked::Freed),
        }
    }
}

fn too_few(told: usize, servers: usize) -> StoreError {
    let message = format!(
        "only {told} of {servers} servers told who holds the lock, and a majority may still hold it for \
         the same"
    );
    StoreError::new(StoreErrorKind::Unreachable, message)
}
