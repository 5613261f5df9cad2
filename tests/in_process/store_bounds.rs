//! The bounds that a store says it has: its managers keep to them before they ask it for anything.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use dlock::{
    ConnectError, LockError, LockManager, StoreError,
    store::{
        AcquireOutcome, AcquireRequest, LockModes, LockStore, ReleaseRequest, Released, RenewBatch,
        Renewal, StoreProperties, memory::MemoryStore,
    },
};

const SHORTEST: Duration = Duration::from_secs(5);
const LONGEST: Duration = Duration::from_secs(60);
const NANOSECOND: Duration = Duration::from_nanos(1);
const TOO_SHORT: Duration = SHORTEST.checked_sub(NANOSECOND).unwrap();

/// A store of leases from five seconds to a minute.
#[derive(Clone)]
struct Bounded {
    store: MemoryStore,
    requests: Arc<AtomicUsize>,
    modes: LockModes,
}

impl Bounded {
    fn new() -> Self {
        Self {
            store: MemoryStore::new(),
            requests: Arc::default(),
            modes: LockModes::EXCLUSIVE,
        }
    }

    fn requested(&self, ttl: Duration) {
        assert!((SHORTEST..=LONGEST).contains(&ttl), "{ttl:?}");
        self.requests.fetch_add(1, Ordering::Relaxed);
    }
}

impl LockStore for Bounded {
    async fn acquire(&self, request: AcquireRequest<'_>) -> Result<AcquireOutcome, StoreError> {
        self.requested(request.ttl);
        self.store.acquire(request).await
    }

    async fn renew(&self, batch: RenewBatch<'_>) -> Vec<Result<Renewal, StoreError>> {
        for request in batch.requests {
            self.requested(request.ttl);
        }
        self.store.renew(batch).await
    }

    async fn release(&self, request: ReleaseRequest<'_>) -> Result<Released, StoreError> {
        self.store.release(request).await
    }

    fn properties(&self) -> StoreProperties<'_> {
        let properties = self.store.properties().ttls(SHORTEST, LONGEST);
        properties.modes(self.modes)
    }
}

#[tokio::test(start_paused = true)]
async fn a_time_that_the_store_cannot_keep_is_refused_with_the_key_and_the_bound() {
    let store = Bounded::new();
    let manager = LockManager::builder()
        .build_with_store(store.clone())
        .unwrap();
    let lock = || manager.lock("order:42");
    for (lock, option, words) in [
        (
            lock().ttl(TOO_SHORT),
            "ttl",
            [
                "4.999999999s is shorter than the store's shortest lease",
                "set 5s or more",
            ],
        ),
        (
            lock().ttl(LONGEST + NANOSECOND),
            "ttl",
            [
                "60.000000001s is longer than the store's longest lease",
                "set 60s or less",
            ],
        ),
        (
            lock().min_hold(2 * LONGEST),
            "min_hold",
            [
                "120s is longer than the store's longest lease",
                "set 60s or less",
            ],
        ),
    ] {
        let error = lock.acquire().await.unwrap_err();
        assert!(
            matches!(&error, LockError::InvalidOption { key, option: it, .. }
                if key.as_str() == "order:42" && *it == option),
            "{error}"
        );
        let text = error.to_string();
        for word in words.iter().chain(&["`order:42`"]) {
            assert!(text.contains(word), "{text}");
        }
        assert_eq!(error.retry_after(), None);
    }
    let several = manager.lock_all(["b", "a"]).ttl(2 * LONGEST);
    let error = several.acquire().await.unwrap_err();
    assert!(
        matches!(error, LockError::InvalidOption { option: "ttl", .. }),
        "{error}"
    );
    assert_eq!(store.requests.load(Ordering::Relaxed), 0);

    for ttl in [SHORTEST, LONGEST] {
        lock().ttl(ttl).run(async |_| ()).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn the_rest_of_a_holding_time_is_no_shorter_lease_than_the_store_can_keep() {
    let store = Bounded::new();
    let manager = LockManager::builder()
        .build_with_store(store.clone())
        .unwrap();
    let lock = || manager.lock("order:42");
    let rest = lock()
        // By the machine's clock, too, which goes on while time is paused, it is not over before the release.
        .min_hold(SHORTEST / 2)
        .acquire()
        .await
        .unwrap();
    rest.release().await.unwrap();
    assert!(
        lock().try_acquire().await.unwrap().is_none(),
        "broken promise: two hold the key"
    );
    tokio::time::sleep(SHORTEST).await;
    assert!(lock().try_acquire().await.unwrap().is_some());
}

#[test]
fn no_manager_is_made_whose_defaults_the_store_cannot_keep() {
    let refused = |builder: dlock::LockManagerBuilder, store| match builder.build_with_store(store)
    {
        Err(ConnectError::InvalidOption { option, reason }) => (option, reason),
        other => panic!("{other:?}"),
    };
    let builder = LockManager::builder().ttl(2 * LONGEST);
    let (option, reason) = refused(builder, Bounded::new());
    assert_eq!(option, "ttl");
    assert_eq!(
        reason,
        "120s is longer than the store's longest lease; set 60s or less"
    );
}

#[tokio::test(start_paused = true)]
async fn a_mode_that_the_store_does_not_support_is_refused_before_a_request() {
    let store = Bounded::new();
    let manager = LockManager::builder()
        .ttl(SHORTEST)
        .build_with_store(store.clone())
        .unwrap();
    for (request, option) in [
        (manager.lock("k").shared(), "mode"),
        (manager.lock("k").permits(3), "permits"),
        (manager.lock("k").also_shared("l"), "mode"),
        (manager.lock("k").permits(0), "permits"),
    ] {
        let error = request.acquire().await.unwrap_err();
        assert!(
            matches!(&error, LockError::InvalidOption { option: named, .. } if *named == option),
            "{error}"
        );
    }
    assert_eq!(store.requests.load(Ordering::Relaxed), 0);

    let shared = Bounded {
        modes: LockModes::EXCLUSIVE.with_shared(),
        ..Bounded::new()
    };
    let manager = LockManager::builder()
        .ttl(SHORTEST)
        .build_with_store(shared)
        .unwrap();
    drop(manager.lock("k").shared().acquire().await.unwrap());
    assert!(manager.lock("k").permits(3).acquire().await.is_err());
}
