//! Ends exactly the lease that an operator has inspected.

use std::sync::atomic::Ordering;

use dlock_runtime::{
    LockKey,
    admin::{AfterUnlock, LeaseIdentity},
    store::{LockMode, OwnerId, StoreError, StoreErrorKind},
};
use futures_util::future::join_all;

use super::Inspector;
use crate::model::{LockInfo, Unlocked};

impl Inspector {
    /// Force-releases the lease in `seen`, if it still exists, and grants the lock to the first waiter. Of a shared
    /// lock it ends the leases of all holders: also of those that began to share it after the inspection, if the
    /// lock was never free in between. [`unlock_holder`](Self::unlock_holder) ends only one of them.
    ///
    /// The fence of the slot is raised first. A resource that compares fencing tokens therefore refuses later
    /// writes of the old holder as soon as it has seen a newer token. The holder is notified, and its body ends
    /// as [`Lost`](dlock_runtime::LockError::Lost) within about a round trip; if the message does not arrive, at its
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
        let first = seen.seen.first().map_or(&[][..], Vec::as_slice);
        if seen.mode != Some(LockMode::Shared) {
            return self.end(seen, first, &[]).await;
        }
        let sharers: Vec<_> = seen.holders().filter_map(|it| it.owner).collect();
        let mut all: Vec<(usize, LeaseIdentity)> = Vec::new();
        for (server, lease) in seen.seen.iter().flatten() {
            let known = all.iter().any(|(known, _)| known == server);
            if let (LeaseIdentity::Ours { fence, .. }, false) = (lease, known) {
                all.push((*server, LeaseIdentity::Shared { fence: *fence }));
            }
        }
        self.end(seen, &all, &sharers).await
    }

    /// Force-releases the lease of one holder of a shared lock, if it still exists, and grants the lock to the
    /// waiters that may have it then. The lock of a single holder is released as by [`unlock`](Self::unlock). An
    /// `owner` that is not in `seen` is [`Changed`](Unlocked::Changed).
    ///
    /// **Fencing does not stop this holder while others share the lock:** all of them carry the same token, so a
    /// resource cannot distinguish the writes of the old holder. It is notified, and its body ends as
    /// [`Lost`](dlock_runtime::LockError::Lost) within about a round trip; if the message does not arrive, at its next
    /// renewal. To be certain, end the leases of all holders.
    ///
    /// # Errors
    ///
    /// The same as of [`unlock`](Self::unlock).
    ///
    /// # Cancel safety
    ///
    /// The same as of [`unlock`](Self::unlock).
    ///
    /// ```no_run
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use dlock::{LockKey, admin::{Inspector, LockInfo}, store::redis::RedisConfig};
    ///
    /// let inspector = Inspector::connect(RedisConfig::new("redis://localhost")).await?;
    /// if let Some(seen) = inspector.lock(&LockKey::new("catalog")?).await? {
    ///     let of_billing = seen.holders().find(|holder| {
    ///         holder.label.as_deref().is_some_and(|label| label.starts_with("billing@"))
    ///     });
    ///     if let Some(owner) = of_billing.and_then(|holder| holder.owner) {
    ///         println!("{:?}", inspector.unlock_holder(&seen, owner).await?);
    ///     }
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn unlock_holder(
        &self,
        seen: &LockInfo,
        owner: OwnerId,
    ) -> Result<Unlocked, StoreError> {
        let place = seen.holders().position(|it| it.owner == Some(owner));
        match place.and_then(|place| seen.seen.get(place)) {
            Some(leases) => self.end(seen, leases, &[]).await,
            None => Ok(Unlocked::Changed),
        }
    }

    /// Ends leases, of which each server has one. `sharers` are the holders if all of a shared lock are ended.
    async fn end(
        &self,
        seen: &LockInfo,
        leases: &[(usize, LeaseIdentity)],
        sharers: &[OwnerId],
    ) -> Result<Unlocked, StoreError> {
        let Ok(key) = LockKey::new(&seen.key) else {
            return Ok(Unlocked::Changed);
        };
        let me = OwnerId::new(self.me, self.unlocked.fetch_add(1, Ordering::Relaxed));
        let known = leases.iter();
        let known = known.filter_map(|(server, lease)| Some((self.readers.get(*server)?, lease)));
        let (mut taken, mut failure) = (0, None);
        let (mut granted, mut shared) = (false, false);
        let asked = known.map(|(reader, lease)| reader.unlock(&key, me, lease, sharers));
        for answer in join_all(asked).await {
            match answer {
                Ok(None) => {}
                Ok(Some(after)) => {
                    taken += 1;
                    granted |= after == AfterUnlock::Granted;
                    shared |= after == AfterUnlock::Shared;
                }
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        let majority = self.readers.len() / 2 + 1;
        let left = leases.len() - taken;
        // A server that did not answer the inspection may hold the same lease.
        let untold = self.readers.len().saturating_sub(seen.servers);
        match failure {
            Some(error) if taken == 0 || left + untold >= majority => Err(error),
            _ if taken == 0 || left >= majority => Ok(Unlocked::Changed),
            _ if left + untold >= majority => Err(too_few(seen.servers, self.readers.len())),
            _ if granted => Ok(Unlocked::Granted),
            _ if shared => Ok(Unlocked::StillShared),
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
