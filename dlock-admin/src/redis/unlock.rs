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
    /// Ends the lease in `seen`; of a shared lock those of all holders.
    pub(super) async fn end_all(&self, seen: &LockInfo) -> Result<Unlocked, StoreError> {
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

    /// Ends the lease of one holder of a shared lock.
    pub(super) async fn end_one(
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
