//! The keys that somebody in this process holds or wants, and nothing else.

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError},
};

use tokio::sync::Notify;

use crate::{
    key::LockKey,
    state::KeyState,
    sync::{Mutex, MutexGuard},
};

/// One entry for each key that is held or wanted. `T` is how to ring a task.
pub(crate) struct Local<T> {
    slots: Mutex<Slots<T>>,
    /// Rung when the last key is gone.
    idle: Notify,
}

struct Slots<T> {
    by_key: HashMap<LockKey, Arc<Slot<T>>>,
    /// Set once, under the same mutex that lets newcomers in: none slips past a shutdown.
    closed: bool,
}

/// The state of one key.
pub(crate) struct Slot<T> {
    pub(crate) key: LockKey,
    state: Mutex<KeyState<T>>,
}

impl<T> Slot<T> {
    /// For a fork, whose copy of the mutex may be locked for ever.
    pub(crate) fn try_state(&self) -> Option<MutexGuard<'_, KeyState<T>>> {
        self.state.try_lock().ok()
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, KeyState<T>> {
        // Every change of the state is complete before anything can panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Default for Local<T> {
    fn default() -> Self {
        let slots = Slots {
            by_key: HashMap::new(),
            closed: false,
        };
        Self {
            slots: Mutex::new(slots),
            idle: Notify::new(),
        }
    }
}

impl<T: Clone> Local<T> {
    fn slots(&self) -> MutexGuard<'_, Slots<T>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What `enter` makes of the slot of `key`, into which it puts an attempt; `None` after
    /// [`close`].
    ///
    /// [`close`]: Self::close
    pub(crate) fn enter<R>(
        &self,
        key: &LockKey,
        enter: impl FnOnce(&Arc<Slot<T>>, &mut KeyState<T>) -> R,
    ) -> Option<R> {
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
        let entered = enter(slot, &mut slot.state());
        Some(entered)
    }

    /// Drops the entry of a key that nobody holds or wants any more.
    pub(crate) fn forget_if_idle(&self, slot: &Arc<Slot<T>>) {
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
    pub(crate) fn find(&self, key: &str) -> Option<Arc<Slot<T>>> {
        self.slots().by_key.get(key).cloned()
    }

    /// All slots as they are now, in the order of their keys: a simulation is to be replayed.
    pub(crate) fn all(&self) -> Vec<Arc<Slot<T>>> {
        let mut all: Vec<_> = self.slots().by_key.values().cloned().collect();
        all.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        all
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
        clock::{Clock, Moment, SystemClock},
        options::Timing,
        owner::{ClientId, OwnerId, Owners},
        random::SystemRandom,
        state::{Effect, Event, Surroundings, Trust, Waiter},
    };

    fn around(now: Moment, owners: &Owners) -> Surroundings<'_> {
        Surroundings {
            now,
            response_limit: Duration::ZERO,
            handover: true,
            hands_on: true,
            random: &SystemRandom,
            owners,
        }
    }

    fn enter(local: &Local<()>, key: &LockKey, owner: OwnerId) -> Arc<Slot<()>> {
        let now = SystemClock.now();
        let entered = local.enter(key, |slot, state| {
            let timing = Timing::default();
            let trust = Trust::new(timing.ttl, |_| Duration::ZERO);
            let waiter = Waiter::new(owner, (), timing, trust, now);
            state.enter(waiter, around(now, &Owners::new(owner.client())));
            slot.clone()
        });
        entered.expect("it is open")
    }

    fn leave(slot: &Slot<()>, owner: OwnerId) {
        let owners = Owners::new(owner.client());
        let around = around(SystemClock.now(), &owners);
        let left = slot.state().on_event(owner, Event::Left, around);
        assert_eq!(
            left.effect,
            Effect::Forget(None),
            "it has not asked anybody"
        );
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
        let nobody = local.enter(&key, |_, _| panic!("nobody enters"));
        assert!(nobody.is_none());
        assert_eq!(slot.state().tasks().len(), 1);
    }
}
