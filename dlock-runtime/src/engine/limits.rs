//! Limits of one manager on memory, tasks and requests in flight, for any behavior of its callers and its
//! store.
//!
//! At a limit, new calls are refused before a request is sent and before they enter a table. Work that has
//! begun is never dropped.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::timeout,
};

use crate::{
    error::LockError,
    key::LockKey,
    store::{StoreError, StoreErrorKind},
};

/// Background releases in flight for the first time, and repeated ones. They have separate permits: releases
/// that fail repeatedly must not delay new ones.
const FIRST_IN_FLIGHT: usize = 224;
const REPEATED_IN_FLIGHT: usize = 32;

/// The limits that a builder sets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) waiters: usize,
    pub(crate) waiters_per_key: usize,
    pub(crate) pending_releases: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            waiters: 1_000_000,
            waiters_per_key: 10_000,
            pending_releases: 100_000,
        }
    }
}

impl Limits {
    /// Returns an option that is out of range and the reason.
    pub(crate) fn fault(&self) -> Option<(&'static str, &'static str)> {
        let options = [
            ("max_waiters", self.waiters),
            ("max_waiters_per_key", self.waiters_per_key),
            ("max_pending_releases", self.pending_releases),
        ];
        let zero = options.into_iter().find(|(_, bound)| *bound == 0);
        zero.map(|(option, _)| (option, "it must be greater than zero"))
    }
}

/// The limits of a manager, and how much of them is in use.
pub(crate) struct Bounds {
    limits: Limits,
    waiters: AtomicUsize,
    pending_releases: AtomicUsize,
    first: Semaphore,
    repeated: Semaphore,
}

impl Bounds {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            waiters: AtomicUsize::new(0),
            pending_releases: AtomicUsize::new(0),
            first: Semaphore::new(FIRST_IN_FLIGHT),
            repeated: Semaphore::new(REPEATED_IN_FLIGHT),
        }
    }

    /// Admits one more waiter for `key`, or refuses it. If it is admitted, call
    /// [`stops_waiting`](Self::stops_waiting) once for it.
    pub(crate) fn begins_waiting(&self, key: &LockKey) -> Result<(), LockError> {
        let bound = self.limits.pending_releases;
        if self.pending_releases.load(Ordering::Relaxed) >= bound {
            let message = format!("{bound} releases are pending (`max_pending_releases`)");
            return Err(overloaded(key, message));
        }
        let bound = self.limits.waiters;
        if self.waiters.fetch_add(1, Ordering::Relaxed) >= bound {
            self.stops_waiting();
            let message = format!("{bound} calls of this manager wait for locks (`max_waiters`)");
            return Err(overloaded(key, message));
        }
        Ok(())
    }

    /// Records that a waiter has its key or has given up.
    pub(crate) fn stops_waiting(&self) {
        self.waiters.fetch_sub(1, Ordering::Relaxed);
    }

    /// Refuses one more waiter for `key` in this process if there are too many.
    pub(crate) fn may_wait_behind(
        &self,
        fewer_wait_than: impl FnOnce(usize) -> bool,
        key: &LockKey,
    ) -> Result<(), LockError> {
        let bound = self.limits.waiters_per_key;
        if fewer_wait_than(bound) {
            return Ok(());
        }
        let message =
            format!("{bound} calls of this manager wait for this key (`max_waiters_per_key`)");
        Err(overloaded(key, message))
    }

    /// Records a new pending release.
    pub(crate) fn begins_release(&self) {
        self.pending_releases.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn ends_release(&self) {
        self.pending_releases.fetch_sub(1, Ordering::Relaxed);
    }

    /// Waits until a release may be sent, but no longer than `patience`: after that the release has no
    /// effect.
    pub(crate) async fn turn(
        &self,
        is_repeated: bool,
        patience: impl FnOnce() -> Duration,
    ) -> Option<SemaphorePermit<'_>> {
        let turns = if is_repeated {
            &self.repeated
        } else {
            &self.first
        };
        if let Ok(turn) = turns.try_acquire() {
            return Some(turn);
        }
        timeout(patience(), turns.acquire()).await.ok()?.ok()
    }
}

fn overloaded(key: &LockKey, message: String) -> LockError {
    LockError::Unavailable {
        key: key.clone(),
        waited: Duration::ZERO,
        reason: StoreError::new(StoreErrorKind::Overloaded, message),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, atomic::AtomicBool};

    use dlock_testkit::eventually;
    use futures_util::future::join_all;

    use super::*;
    use crate::{
        LockManager,
        api::builder::LockManagerBuilder,
        error::ConnectError,
        store::{
            AcquireOutcome, AcquireRequest, LockStore, ReleaseRequest, Released, RenewBatch,
            Renewal, StoreProperties, memory::MemoryStore,
        },
    };

    const LIMIT: Duration = Duration::from_secs(20);

    /// Each release waits for a permit, and fails at first.
    #[derive(Clone)]
    struct Slow {
        store: MemoryStore,
        permits: Arc<Semaphore>,
        fails: Arc<AtomicBool>,
        in_flight: Arc<AtomicUsize>,
        most: Arc<AtomicUsize>,
    }

    impl Slow {
        fn new(permits: usize) -> Self {
            Self {
                store: MemoryStore::new(),
                permits: Arc::new(Semaphore::new(permits)),
                fails: Arc::default(),
                in_flight: Arc::default(),
                most: Arc::default(),
            }
        }

        fn most(&self) -> usize {
            self.most.load(Ordering::Relaxed)
        }
    }

    impl LockStore for Slow {
        async fn acquire(&self, request: AcquireRequest<'_>) -> Result<AcquireOutcome, StoreError> {
            self.store.acquire(request).await
        }

        async fn renew(&self, batch: RenewBatch<'_>) -> Vec<Result<Renewal, StoreError>> {
            self.store.renew(batch).await
        }

        fn properties(&self) -> StoreProperties<'_> {
            StoreProperties::new().grants(true)
        }

        async fn release(&self, request: ReleaseRequest<'_>) -> Result<Released, StoreError> {
            struct InFlight<'a>(&'a AtomicUsize);
            impl Drop for InFlight<'_> {
                fn drop(&mut self) {
                    self.0.fetch_sub(1, Ordering::Relaxed);
                }
            }
            let now = self.in_flight.fetch_add(1, Ordering::Relaxed) + 1;
            let _in_flight = InFlight(&self.in_flight);
            self.most.fetch_max(now, Ordering::Relaxed);
            let permit = self.permits.acquire().await.expect("it is open");
            // A real answer takes time.
            tokio::time::sleep(Duration::from_millis(1)).await;
            drop(permit);
            if self.fails.load(Ordering::Relaxed) {
                return Err(StoreError::new(StoreErrorKind::Refused, "not now"));
            }
            self.store.release(request).await
        }
    }

    fn overload(error: &LockError) -> &str {
        assert!(error.retry_after().is_some(), "it may be tried again");
        match error {
            LockError::Unavailable { reason, .. } => {
                assert_eq!(reason.kind(), StoreErrorKind::Overloaded, "{error}");
                assert!(reason.left_nothing() && !reason.is_final());
                reason.message()
            }
            other => panic!("{other}"),
        }
    }

    fn builder() -> LockManagerBuilder {
        LockManager::builder().ttl(3 * LIMIT)
    }

    #[tokio::test]
    async fn too_many_pending_releases_refuse_new_calls_until_there_are_fewer() {
        let store = Slow::new(0);
        let builder = builder().max_pending_releases(3);
        let manager = builder.build_with_store(store.clone()).unwrap();
        for number in 0..3 {
            let guard = manager.lock(format!("k{number}")).acquire().await.unwrap();
            drop(guard);
        }
        let error = manager.lock("new").acquire().await.unwrap_err();
        assert_eq!(
            overload(&error),
            "3 releases are pending (`max_pending_releases`)"
        );
        assert_eq!(manager.active_keys(), 3, "nothing was entered");
        store.permits.add_permits(100);
        eventually(LIMIT, "they are released", async || {
            manager.active_keys() == 0
        })
        .await;
        eventually(LIMIT, "it has room again", async || {
            match manager.lock("new").acquire().await {
                Ok(guard) => guard.release().await.is_ok(),
                Err(error) => overload(&error).is_empty(),
            }
        })
        .await;
    }

    #[tokio::test]
    async fn too_many_waiters_are_refused_and_those_before_them_are_served() {
        let manager = builder().max_waiters(3).max_waiters_per_key(2);
        let manager = manager.build_with_store(MemoryStore::new()).unwrap();
        let (one, other) = (manager.lock("one"), manager.lock("other"));
        let held = one.clone().acquire().await.unwrap();
        let also_held = other.clone().acquire().await.unwrap();
        let waits = |lock: &crate::LockRequest| {
            let lock = lock.clone();
            tokio::spawn(async move { lock.acquire().await?.release().await })
        };
        let mut waiting = vec![waits(&one), waits(&one)];
        let bounds = manager.core();
        let count = || bounds.bounds.waiters.load(Ordering::Relaxed);
        eventually(LIMIT, "they wait", async || count() == 2).await;
        let error = one.clone().acquire().await.unwrap_err();
        let words = "2 calls of this manager wait for this key (`max_waiters_per_key`)";
        assert_eq!(overload(&error), words);
        assert_eq!(count(), 2);

        waiting.push(waits(&other));
        eventually(LIMIT, "it waits", async || count() == 3).await;
        let error = manager.lock("free").acquire().await.unwrap_err();
        let words = "3 calls of this manager wait for locks (`max_waiters`)";
        assert_eq!(overload(&error), words);

        // A waiter that gives up makes room.
        waiting.pop().unwrap().abort();
        eventually(LIMIT, "it has gone", async || count() == 2).await;
        let free = manager.lock("free").acquire().await.unwrap();
        free.release().await.unwrap();
        held.release().await.unwrap();
        also_held.release().await.unwrap();
        for outcome in join_all(waiting).await {
            outcome.unwrap().unwrap();
        }
        assert_eq!((count(), manager.active_keys()), (0, 0));
    }

    #[tokio::test]
    async fn releases_take_turns_and_each_is_sent() {
        const KEYS: usize = 2000;
        let store = Slow::new(1000);
        let manager = builder().build_with_store(store.clone()).unwrap();
        for fails in [false, true] {
            let keys = (0..KEYS).map(|number| manager.lock(format!("k{number}")).acquire());
            let guards = join_all(keys).await;
            store.most.store(0, Ordering::Relaxed);
            store.fails.store(fails, Ordering::Relaxed);
            drop(guards);
            if fails {
                eventually(LIMIT, "some are repeated", async || store.most() > 0).await;
                store.fails.store(false, Ordering::Relaxed);
            }
            eventually(LIMIT, "all are released", async || {
                manager.active_keys() == 0
            })
            .await;
            let most = FIRST_IN_FLIGHT + REPEATED_IN_FLIGHT;
            assert!(
                (2..=most).contains(&store.most()),
                "{} at once",
                store.most()
            );
            assert_eq!(store.store.len(), 0);
        }
        assert_eq!(
            manager
                .core()
                .bounds
                .pending_releases
                .load(Ordering::Relaxed),
            0
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_release_that_waits_for_its_turn_is_sent_before_it_is_of_no_use() {
        let bounds = Bounds::new(Limits::default());
        let mut turns = Vec::new();
        for _ in 0..REPEATED_IN_FLIGHT {
            turns.push(bounds.turn(true, || LIMIT).await.expect("there is room"));
        }
        assert!(bounds.turn(false, || LIMIT).await.is_some(), "a first one");
        let begun = tokio::time::Instant::now();
        assert!(bounds.turn(true, || LIMIT).await.is_none());
        assert_eq!(begun.elapsed(), LIMIT);
        turns.pop();
        assert!(bounds.turn(true, || Duration::ZERO).await.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_release_that_gets_no_turn_is_sent_while_the_store_still_has_the_lease() {
        const TTL: Duration = Duration::from_secs(10);
        const ANSWER: Duration = Duration::from_secs(2);
        let store = Slow::new(1);
        let builder = LockManager::builder().ttl(TTL).response_timeout(ANSWER);
        let manager = builder.build_with_store(store.clone()).unwrap();
        let guard = manager.lock("k").acquire().await.unwrap();
        let core = manager.core();
        let mut turns = Vec::new();
        for _ in 0..FIRST_IN_FLIGHT {
            turns.push(core.bounds.turn(false, || LIMIT).await.expect("it is free"));
        }
        let dropped = tokio::time::Instant::now();
        drop(guard);
        while store.most() == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        // An answer may take as long as `ANSWER`.
        let left = TTL.saturating_sub(dropped.elapsed());
        assert!((ANSWER / 2..2 * ANSWER).contains(&left), "{left:?}");
    }

    #[test]
    fn the_bounds_that_a_builder_does_not_set_are_those_of_its_documentation() {
        let Limits {
            waiters,
            waiters_per_key,
            pending_releases,
        } = Limits::default();
        assert_eq!((waiters, waiters_per_key), (1_000_000, 10_000));
        assert_eq!(pending_releases, 100_000);
    }

    #[test]
    fn a_bound_of_zero_is_refused() {
        for (builder, name) in [
            (builder().max_waiters(0), "max_waiters"),
            (builder().max_waiters_per_key(0), "max_waiters_per_key"),
            (builder().max_pending_releases(0), "max_pending_releases"),
        ] {
            let refused = builder.build_with_store(MemoryStore::new());
            assert!(
                matches!(refused, Err(ConnectError::InvalidOption { option, .. }) if option == name)
            );
        }
    }
}
