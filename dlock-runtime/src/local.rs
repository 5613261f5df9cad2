//! The keys that somebody in this process holds or wants, and nothing else.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;

use crate::{key::LockKey, state::KeyState};

/// One entry for each key that is held or wanted.
#[derive(Debug, Default)]
pub(crate) struct Local {
    slots: Mutex<Slots>,
    /// Rung when the last key is gone.
    idle: Notify,
}

#[derive(Debug, Default)]
struct Slots {
    by_key: HashMap<LockKey, Arc<Slot>>,
    /// Set once, under the same mutex that lets newcomers in: none slips past a shutdown.
    closed: bool,
}

/// The state of one key.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) key: LockKey,
    state: Mutex<KeyState>,
}

impl Slot {
    pub(crate) fn state(&self) -> MutexGuard<'_, KeyState> {
        // Every change of the state is complete before anything can panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Local {
    fn slots(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The slot of `key` after `enter` has put an attempt into it; `None` after [`close`].
    ///
    /// [`close`]: Self::close
    pub(crate) fn enter(
        &self,
        key: &LockKey,
        enter: impl FnOnce(&mut KeyState),
    ) -> Option<Arc<Slot>> {
        let mut slots = self.slots();
        if slots.closed {
            return None;
        }
        let slot = slots.by_key.entry(key.clone()).or_insert_with(|| {
            Arc::new(Slot {
                key: key.clone(),
                state: Mutex::default(),
            })
        });
        // Under the outer mutex, so that `forget_if_idle` cannot drop the slot in between.
        enter(&mut slot.state());
        Some(slot.clone())
    }

    /// Drops the entry of a key that nobody holds or wants any more.
    pub(crate) fn forget_if_idle(&self, slot: &Arc<Slot>) {
        let mut slots = self.slots();
        // By now the key may have another slot, which is not ours to remove.
        let is_current = slots
            .by_key
            .get(&slot.key)
            .is_some_and(|current| Arc::ptr_eq(current, slot));
        if is_current && slot.state().is_idle() {
            slots.by_key.remove(&slot.key);
        }
        let empty = slots.by_key.is_empty();
        // Whoever is woken may look at the table at once.
        drop(slots);
        if empty {
            self.idle.notify_waiters();
        }
    }

    /// The slot of `key`, if somebody holds or wants it.
    pub(crate) fn find(&self, key: &str) -> Option<Arc<Slot>> {
        self.slots().by_key.get(key).cloned()
    }

    /// All slots as they are now.
    pub(crate) fn all(&self) -> Vec<Arc<Slot>> {
        self.slots().by_key.values().cloned().collect()
    }

    /// How many keys are held or wanted.
    pub(crate) fn len(&self) -> usize {
        self.slots().by_key.len()
    }

    /// Lets nobody in any more.
    pub(crate) fn close(&self) {
        self.slots().closed = true;
    }

    /// Waits until no key is held, wanted or being released.
    pub(crate) async fn idle(&self) {
        loop {
            let notified = self.idle.notified();
            if self.len() == 0 {
                return;
            }
            notified.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{
        clock::{Clock, SystemClock},
        options::Timing,
        owner::{ClientId, OwnerId, Owners},
        random::SystemRandom,
        state::{Effect, Event, Surroundings},
    };

    fn enter(local: &Local, key: &LockKey, owner: OwnerId) -> Arc<Slot> {
        let now = SystemClock.now();
        let enter = |state: &mut KeyState| {
            state.enter(
                owner,
                Timing::default(),
                Duration::ZERO,
                now,
                Arc::default(),
            );
        };
        local.enter(key, enter).expect("it is open")
    }

    fn leave(slot: &Slot, owner: OwnerId) {
        let around = Surroundings {
            now: SystemClock.now(),
            response_limit: Duration::ZERO,
            random: 0,
        };
        let effect = slot.state().on_event(owner, Event::Left, around);
        assert_eq!(effect, Effect::Forget(None), "it has not asked anybody");
    }

    #[test]
    fn who_forgets_late_does_not_remove_the_next_ones() {
        let (local, owners) = (Local::default(), Owners::new(ClientId::new(&SystemRandom)));
        let key = LockKey::new("k").unwrap();
        let (first, second, third) = (owners.next(), owners.next(), owners.next());
        let slot = enter(&local, &key, first);
        assert!(Arc::ptr_eq(&slot, &enter(&local, &key, second)));
        leave(&slot, first);
        leave(&slot, second);
        local.forget_if_idle(&slot);
        assert_eq!(local.len(), 0);

        let next = enter(&local, &key, third);
        local.forget_if_idle(&slot);
        assert!(Arc::ptr_eq(
            &next,
            &local.find("k").expect("the third is in there")
        ));
    }

    #[test]
    fn nobody_enters_after_the_end() {
        let (local, owners) = (Local::default(), Owners::new(ClientId::new(&SystemRandom)));
        let key = LockKey::new("k").unwrap();
        let slot = enter(&local, &key, owners.next());
        local.close();
        assert!(local.enter(&key, |_| panic!("nobody enters")).is_none());
        assert_eq!(slot.state().owners().len(), 1);
    }
}
