//! The children that this process has in ZooKeeper: one for each claim, deleted when the claim's time is over.
//!
//! A child ends with its session, but a session outlives its leases and waiters. So a timer deletes each child whose claim
//! was not renewed in time. A claim has one request at a time: the next one waits for the slot.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use dlock_runtime::{LockKey, store::OwnerId};
use tokio::{
    sync::{Mutex as AsyncMutex, OwnedMutexGuard},
    time::{Instant, sleep_until},
};
use zookeeper_client::Error;

use crate::session::Session;

/// The pause after a deletion without an answer.
const PAUSE: std::time::Duration = std::time::Duration::from_millis(200);

/// The child of one claim.
#[derive(Default)]
pub(crate) struct Slot {
    pub(crate) child: Option<Child>,
    /// The session in which a child may have been created, as the request got no answer.
    pub(crate) unknown: Option<Session>,
}

pub(crate) struct Child {
    pub(crate) session: Session,
    pub(crate) directory: String,
    pub(crate) name: String,
    pub(crate) fence: u64,
    /// Its owner is known to be the holder: no child is before it, and none can come there.
    pub(crate) holds: bool,
    pub(crate) is_watching: bool,
    /// It has a timer.
    pub(crate) is_timed: bool,
    /// The end of the lease, or of the place in the queue, unless a request comes before.
    pub(crate) ends: Instant,
    /// The label and the function of the holder.
    pub(crate) names: (String, String),
}

impl Child {
    pub(crate) fn path(&self) -> String {
        format!("{}/{}", self.directory, self.name)
    }
}

impl Slot {
    /// Forgets what has ended with its session.
    pub(crate) fn look_at(&mut self, session: &Session) {
        if self
            .child
            .as_ref()
            .is_some_and(|it| !it.session.is(session))
        {
            self.child = None;
        }
        if self.unknown.as_ref().is_some_and(|it| !it.is(session)) {
            self.unknown = None;
        }
    }

    /// Deletes the child if its time is over.
    ///
    /// # Errors
    ///
    /// Those of the deletion. The child is then still there.
    pub(crate) async fn end_late(&mut self) -> Result<(), Error> {
        if self
            .child
            .as_ref()
            .is_some_and(|it| it.ends <= Instant::now())
        {
            self.delete().await?;
        }
        Ok(())
    }

    /// Deletes the child, and returns `false` if it was not there.
    ///
    /// # Errors
    ///
    /// Those of the deletion. The child may then still be there.
    pub(crate) async fn delete(&mut self) -> Result<bool, Error> {
        let Some(child) = &self.child else {
            return Ok(false);
        };
        let was_there = match child.session.client.delete(&child.path(), None).await {
            Ok(()) => true,
            // All children have ended with their session, or end with it.
            Err(
                Error::NoNode | Error::SessionExpired | Error::ClientClosed | Error::AuthFailed,
            ) => false,
            Err(error) => return Err(error),
        };
        self.child = None;
        Ok(was_there)
    }
}

pub(crate) type Locked = OwnedMutexGuard<Slot>;
type Key = (String, OwnerId);

/// The slots of all claims that have a child or a request.
#[derive(Default)]
pub(crate) struct Slots(Mutex<HashMap<Key, Arc<AsyncMutex<Slot>>>>);

impl Slots {
    pub(crate) async fn lock(&self, key: &LockKey, owner: OwnerId) -> Locked {
        let slot = self
            .map()
            .entry((key.to_string(), owner))
            .or_default()
            .clone();
        slot.lock_owned().await
    }

    /// Forgets a slot that is empty and that no other request waits for.
    pub(crate) fn unlock(&self, key: &LockKey, owner: OwnerId, slot: Locked) {
        let is_empty = slot.child.is_none() && slot.unknown.is_none();
        let mut map = self.map();
        drop(slot);
        let key = (key.to_string(), owner);
        if is_empty
            && map
                .get(&key)
                .is_some_and(|slot| Arc::strong_count(slot) == 1)
        {
            map.remove(&key);
        }
    }

    fn map(&self) -> MutexGuard<'_, HashMap<Key, Arc<AsyncMutex<Slot>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Deletes the child of this name when its time is over.
    pub(crate) async fn end_in_time(
        &self,
        key: LockKey,
        owner: OwnerId,
        name: String,
        first: Instant,
    ) {
        let mut ends = first;
        loop {
            sleep_until(ends).await;
            let mut slot = self.lock(&key, owner).await;
            let later = slot
                .child
                .as_ref()
                .filter(|it| it.name == name)
                .map(|it| it.ends);
            let Some(later) = later else {
                return self.unlock(&key, owner, slot);
            };
            if later > Instant::now() {
                ends = later;
            } else if slot.delete().await.is_err() {
                ends = Instant::now() + PAUSE;
            }
            self.unlock(&key, owner, slot);
            if ends <= Instant::now() {
                return;
            }
        }
    }
}
