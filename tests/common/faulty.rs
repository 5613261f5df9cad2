//! A process whose requests and answers get lost, beside one whose do not.

use std::time::Duration;

use dlock::{LockManager, store::memory::MemoryStore};

use super::{TestClock, Wire, assert_idle};

/// One manager behind a [`Wire`] over memory, with paused time.
pub(crate) struct Faulty {
    pub(crate) store: MemoryStore,
    pub(crate) wire: Wire<MemoryStore>,
    pub(crate) manager: LockManager,
    /// Another process, whose connection does not fail.
    pub(crate) other: LockManager,
}

impl Faulty {
    pub(crate) fn start() -> Self {
        Self::with_response_timeout(Duration::from_secs(1))
    }

    pub(crate) fn with_response_timeout(limit: Duration) -> Self {
        let store = MemoryStore::new();
        let wire = Wire::new(store.clone());
        // The machine's boot clock goes on while time is paused; moments are to be exact here.
        let builder = LockManager::builder().clock(TestClock::new());
        let manager = builder
            .clone()
            .response_timeout(limit)
            .build_with_store(wire.clone());
        Self {
            manager: manager.unwrap(),
            other: builder.build_with_store(store.clone()).unwrap(),
            store,
            wire,
        }
    }

    pub(crate) async fn assert_clean(&self) {
        assert_idle(&[&self.manager, &self.other]).await;
        assert!(self.store.is_empty());
        self.wire.assert_nothing_is_owed();
    }
}
