//! The managers that listen for hints.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use dlock_runtime::{
    LockKey,
    store::{ClientId, Hint, HintSink, OwnerId},
};

/// The managers that listen.
#[derive(Default)]
pub(crate) struct Sinks(Mutex<HashMap<ClientId, HintSink>>);

impl Sinks {
    fn map(&self) -> MutexGuard<'_, HashMap<ClientId, HintSink>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn attach(&self, client: ClientId, sink: HintSink) {
        self.map().insert(client, sink);
    }

    pub(crate) fn detach(&self, client: ClientId) {
        self.map().remove(&client);
    }

    /// Waiters have lost their places with the last session.
    pub(crate) fn look_again(&self) {
        let sinks: Vec<_> = self.map().values().cloned().collect();
        for sink in sinks {
            // A manager that is gone has detached.
            let _ = sink.look_again();
        }
    }

    /// Wakes a waiter that holds the key with this fence. With 0, it asks: its lease may need a write.
    pub(crate) fn wake(&self, key: &LockKey, owner: OwnerId, fence: u64) {
        // A hint runs code of the manager.
        let sink = self.map().get(&owner.client()).cloned();
        if sink.is_some_and(|sink| !sink.hint(&Hint::new(key.as_str(), owner, fence))) {
            self.detach(owner.client());
        }
    }
}
