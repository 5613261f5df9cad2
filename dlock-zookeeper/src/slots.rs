//! The children that this process has in ZooKeeper: one for each claim, deleted when the claim's time is over.
//!
//! A child ends with its session, but a session outlives its leases and waiters. So a timer deletes each child whose claim
//! was not renewed in time. A claim has one request at a time: the next one waits for the slot.

use std::{
    collections::HashMap,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use dlock_runtime::{LockKey, store::OwnerId};
use futures_util::FutureExt;
use tokio::{
    sync::{Mutex as AsyncMutex, OwnedMutexGuard},
    task::AbortHandle,
    time::{Instant, sleep_until},
};
use zookeeper_client::Error;

use crate::{answers::Answers, data::Held, fence::Base, session::Session, timers::Ending};

/// The pause after a deletion without an answer.
const PAUSE: Duration = Duration::from_millis(200);

/// The child of one claim.
pub(crate) struct Slot {
    pub(crate) child: Option<Child>,
    /// The session in which a child may have been created, as the request got no answer.
    pub(crate) unknown: Option<Session>,
    /// The fence of the child with which the claim was last granted its key.
    pub(crate) granted: Option<u64>,
    key: LockKey,
    answers: Arc<Answers>,
}

pub(crate) struct Child {
    pub(crate) session: Session,
    pub(crate) directory: String,
    pub(crate) name: String,
    pub(crate) base: Base,
    /// The fence of this child alone.
    pub(crate) fence: u64,
    /// The words that were written when its owner was first known to hold the key. It does so until the child is deleted.
    pub(crate) held: Option<Held>,
    /// The task that watches for it while it waits.
    pub(crate) watching: Option<Watching>,
    /// Its text says that it holds the key, although its owner has not seen that.
    pub(crate) is_hopeful: bool,
    /// Its creation or deletion got no answer, and nothing was written to it since: perhaps one server alone has it.
    pub(crate) needs_write: bool,
    /// A write of its fence got no answer.
    pub(crate) is_doubtful: bool,
    /// When its timer checks it. A timer with another time was replaced, and ends.
    pub(crate) timer: Option<Instant>,
    /// The end of the lease, or of the place in the queue, unless a request comes before.
    pub(crate) ends: Instant,
    pub(crate) label: Option<String>,
    pub(crate) function: Option<String>,
}

/// A task that ends with the child for which it watches: otherwise those of waiters that have left would pile up.
pub(crate) struct Watching(pub(crate) AbortHandle);

impl Drop for Watching {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Child {
    pub(crate) fn path(&self) -> String {
        format!("{}/{}", self.directory, self.name)
    }

    pub(crate) fn ending(&self, key: &LockKey, owner: OwnerId) -> Ending {
        Ending {
            key: key.clone(),
            owner,
            name: self.name.clone(),
        }
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
        let Some(child) = &mut self.child else {
            self.granted = None;
            return Ok(false);
        };
        let deleted = child.session.client.delete(&child.path(), None).await;
        // Those behind it in this process may hold the key now.
        self.answers.forget_all(&self.key);
        let was_there = match deleted {
            Ok(()) => true,
            // All children have ended with their session, or end with it.
            Err(
                Error::NoNode | Error::SessionExpired | Error::ClientClosed | Error::AuthFailed,
            ) => false,
            Err(error) => {
                child.needs_write = true;
                return Err(error);
            }
        };
        self.child = None;
        self.granted = None;
        Ok(was_there)
    }

    /// Notes that the claim was granted its key, with the child that it has.
    pub(crate) fn note_grant(&mut self) {
        self.granted = self.child.as_ref().map(|it| it.fence);
    }

    /// Returns `true` if the claim was granted its key with a child that is gone.
    pub(crate) fn has_lost_its_grant(&self) -> bool {
        !is_of_grant(self.granted, self.child.as_ref().map(|it| it.fence))
    }

    fn is_empty(&self) -> bool {
        self.child.is_none() && self.unknown.is_none()
    }
}

/// Returns `true` if a claim may go on with a child of the second fence after a grant with the first: another child has another
/// place in the queue, and others may have held the key in between.
fn is_of_grant(granted: Option<u64>, child: Option<u64>) -> bool {
    granted.is_none() || granted == child
}

pub(crate) type Locked = OwnedMutexGuard<Slot>;
type Key = (LockKey, OwnerId);

/// The slots of all claims that have a child or a request.
pub(crate) struct Slots {
    map: Mutex<HashMap<Key, Entry>>,
    answers: Arc<Answers>,
}

struct Entry {
    slot: Arc<AsyncMutex<Slot>>,
    /// The path of a child that holds its key, for readers that must not wait.
    held: Option<String>,
}

impl Slots {
    pub(crate) fn new(answers: Arc<Answers>) -> Self {
        Self {
            map: Mutex::default(),
            answers,
        }
    }

    /// Waits until no other request of the claim is under way. `false` beside the slot if there was one: what was read before may
    /// be old.
    pub(crate) async fn lock_after(&self, key: &LockKey, owner: OwnerId) -> (Locked, bool) {
        let mut lock = pin!(self.lock(key, owner));
        match lock.as_mut().now_or_never() {
            Some(slot) => (slot, true),
            None => (lock.await, false),
        }
    }

    /// Waits until no other request of the claim is under way.
    pub(crate) async fn lock(&self, key: &LockKey, owner: OwnerId) -> Locked {
        let slot = {
            let mut map = self.map();
            let entry = map.entry((key.clone(), owner)).or_insert_with(|| Entry {
                slot: Arc::new(AsyncMutex::new(Slot {
                    child: None,
                    unknown: None,
                    granted: None,
                    key: key.clone(),
                    answers: self.answers.clone(),
                })),
                held: None,
            });
            entry.slot.clone()
        };
        slot.lock_owned().await
    }

    /// Forgets a slot that is empty and that no other request waits for.
    pub(crate) fn unlock(&self, key: &LockKey, owner: OwnerId, slot: Locked) {
        let is_empty = slot.is_empty();
        let child = slot.child.as_ref().filter(|it| it.held.is_some());
        let held = child.map(Child::path);
        if slot.child.is_none() {
            self.answers.forget(key, owner);
        }
        let mut map = self.map();
        drop(slot);
        let id = (key.clone(), owner);
        let Some(entry) = map.get_mut(&id) else {
            return;
        };
        entry.held = held;
        if is_empty && Arc::strong_count(&entry.slot) == 1 {
            map.remove(&id);
        }
    }

    /// Returns the path of a claim's child, if the claim was known to hold its key.
    pub(crate) fn held(&self, key: &LockKey, owner: OwnerId) -> Option<String> {
        self.map().get(&(key.clone(), owner))?.held.clone()
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.map().is_empty()
    }

    fn map(&self) -> MutexGuard<'_, HashMap<Key, Entry>> {
        // Every change is complete before any code can panic.
        self.map.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Deletes the child of this name when its time is over, unless another timer looks at it before.
    pub(crate) async fn end_in_time(
        &self,
        key: LockKey,
        owner: OwnerId,
        name: String,
        first: Instant,
    ) {
        let mut due = first;
        loop {
            sleep_until(due).await;
            let mut slot = self.lock(&key, owner).await;
            let child = slot.child.as_mut();
            let Some(child) = child.filter(|it| it.name == name && it.timer == Some(due)) else {
                return self.unlock(&key, owner, slot);
            };
            due = child.ends;
            child.timer = Some(due);
            if due <= Instant::now() {
                if slot.delete().await.is_ok() {
                    return self.unlock(&key, owner, slot);
                }
                due = Instant::now() + PAUSE;
                if let Some(child) = &mut slot.child {
                    child.timer = Some(due);
                }
            }
            self.unlock(&key, owner, slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use dlock_runtime::{random::SystemRandom, store::ClientId};

    use super::*;

    #[tokio::test]
    async fn a_slot_that_had_to_be_waited_for_says_so() {
        let slots = Slots::new(Arc::default());
        let key = LockKey::new("waits").unwrap();
        let owner = OwnerId::new(ClientId::new(&SystemRandom), 1);
        let (slot, at_once) = slots.lock_after(&key, owner).await;
        assert!(at_once);
        let mut second = pin!(slots.lock_after(&key, owner));
        assert!(second.as_mut().now_or_never().is_none());
        slots.unlock(&key, owner, slot);
        let (_, at_once) = second.await;
        assert!(!at_once);
    }

    #[tokio::test]
    async fn a_slot_lasts_while_a_request_waits_for_it_and_no_longer() {
        let slots = Slots::new(Arc::default());
        let key = LockKey::new("lasts").unwrap();
        let owner = OwnerId::new(ClientId::new(&SystemRandom), 1);
        let first = slots.lock(&key, owner).await;
        let mut waits = pin!(slots.lock(&key, owner));
        assert!(waits.as_mut().now_or_never().is_none());
        slots.unlock(&key, owner, first);
        let second = waits.await;
        let mut waits = pin!(slots.lock(&key, owner));
        assert!(
            waits.as_mut().now_or_never().is_none(),
            "a claim has two requests at a time"
        );
        slots.unlock(&key, owner, second);
        let third = waits.await;
        slots.unlock(&key, owner, third);
        assert!(slots.is_empty(), "it would be there for ever");
    }

    #[test]
    fn a_grant_goes_on_with_its_own_child_alone() {
        assert!(is_of_grant(None, None));
        assert!(is_of_grant(None, Some(7)));
        assert!(is_of_grant(Some(7), Some(7)));
        assert!(!is_of_grant(Some(7), Some(9)), "another one holds between");
        assert!(!is_of_grant(Some(7), None));
    }
}
