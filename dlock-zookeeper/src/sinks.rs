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

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    use dlock_runtime::{random::SystemRandom, store::HintReceiver};

    use super::*;

    /// Counts its hints, and how often it has to ask.
    #[derive(Default)]
    struct Counts {
        hints: AtomicUsize,
        polls: AtomicUsize,
        is_gone: bool,
    }

    impl HintReceiver for Counts {
        fn hint(&self, _: &Hint<'_>) -> bool {
            self.hints.fetch_add(1, Ordering::SeqCst);
            !self.is_gone
        }

        fn look_again(&self) -> bool {
            self.polls.fetch_add(1, Ordering::SeqCst);
            !self.is_gone
        }
    }

    #[test]
    fn a_hint_reaches_the_manager_of_its_owner_as_long_as_that_listens() {
        let (sinks, key) = (Sinks::default(), LockKey::new("order:42").unwrap());
        let [one, other] = [(); 2].map(|()| ClientId::new(&SystemRandom));
        let stays = Arc::new(Counts::default());
        let leaves = Arc::new(Counts {
            is_gone: true,
            ..Counts::default()
        });
        let counts = |of: &Counts| {
            let counts = [&of.hints, &of.polls];
            counts.map(|it| it.load(Ordering::SeqCst))
        };
        sinks.attach(one, HintSink::new(stays.clone()));
        sinks.attach(other, HintSink::new(leaves.clone()));
        for _ in 0..2 {
            sinks.wake(&key, OwnerId::new(one, 1), 7);
            sinks.wake(&key, OwnerId::new(other, 1), 7);
        }
        sinks.look_again();
        assert_eq!(counts(&stays), [2, 1]);
        assert_eq!(counts(&leaves), [1, 0], "it wants no more hints");
        sinks.detach(one);
        sinks.wake(&key, OwnerId::new(one, 1), 7);
        sinks.look_again();
        assert_eq!(counts(&stays), [2, 1]);
    }
}
