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
    pub(crate) fn forget_if_idle(&self, slot: &Slot) {
        let mut slots = self.slots();
        if slot.state().is_idle() {
            slots.by_key.remove(&slot.key);
        }
        if slots.by_key.is_empty() {
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
