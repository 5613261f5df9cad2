//! Ends exactly the lease that an operator has inspected.

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
    /// Force-releases the lease in `seen`, if it still exists, and grants the lock to the first waiter.
    ///
    /// The fence of the slot is raised first. A resource that compares fencing tokens therefore refuses later
    /// writes of the old holder as soon as it has seen a newer token. The holder is notified, and its body ends
    /// as [`Lost`](crate::LockError::Lost) within about a round trip; if the message does not arrive, at its
    /// next renewal. A lease that is not renewed ends for its holder only at its deadline, and two bodies may
    /// run until then. The same is true of a third-party client, which is not notified.
    ///
    /// A lease that was renewed or handed over inside its process after the inspection counts as the same
    /// lease. The lock of a third-party client is identified by its whole value.
    ///
    /// # Errors
    ///
    /// [`StoreError`] when a server did not answer. In a quorum also when so many servers did not answer the
    /// inspection that a majority may still hold the lease. The lease may have been ended: inspect the lock
    /// again.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped early, the lease may or may not have been ended. On each server it is one
    /// atomic step.
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
        // A server that did not answer the inspection may hold the same lease.
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

fn too_few(answered: usize, servers: usize) -> StoreError {
    let message = format!(
        "only {answered} of {servers} servers answered the inspection, and a majority may still hold the lock for \
         the same holder"
    );
    StoreError::new(StoreErrorKind::Unreachable, message)
}
