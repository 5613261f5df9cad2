//! Tasks of one process that want leases of their own of one key, over a store that is far away.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use dlock::{
    LockManager, LockRequest, StoreError,
    store::{
        AcquireOutcome, AcquireRequest, LockStore, ReleaseRequest, Released, RenewBatch, Renewal,
        StoreProperties, memory::MemoryStore,
    },
};
use futures_util::future::join_all;
use tokio::time::{Instant, sleep};

use crate::common::{TestClock, assert_idle};

const KEY: &str = "catalog:7";
const TASKS: u32 = 500;
const ROUND_TRIP: Duration = Duration::from_millis(30);
const HOUR: Duration = Duration::from_secs(3600);

/// A store at a distance, which counts the requests to acquire.
#[derive(Clone, Default)]
struct Distant {
    store: MemoryStore,
    asked: Arc<AtomicUsize>,
}

impl Distant {
    fn manager(&self) -> LockManager {
        let builder = LockManager::builder().clock(TestClock::new());
        builder.build_with_store(self.clone()).unwrap()
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

impl LockStore for Distant {
    async fn acquire(&self, request: AcquireRequest<'_>) -> Result<AcquireOutcome, StoreError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        sleep(ROUND_TRIP / 2).await;
        let answer = self.store.acquire(request).await;
        sleep(ROUND_TRIP / 2).await;
        answer
    }

    async fn renew(&self, batch: RenewBatch<'_>) -> Vec<Result<Renewal, StoreError>> {
        sleep(ROUND_TRIP).await;
        self.store.renew(batch).await
    }

    async fn release(&self, request: ReleaseRequest<'_>) -> Result<Released, StoreError> {
        sleep(ROUND_TRIP).await;
        self.store.release(request).await
    }

    fn properties(&self) -> StoreProperties<'_> {
        self.store.properties()
    }
}

#[tokio::test(start_paused = true)]
async fn tasks_that_wait_acquire_what_is_free_in_a_few_round_trips() {
    let kinds: [fn(LockRequest, u32) -> LockRequest; 5] = [
        |request, _| request.permits(TASKS),
        |request, _| request.shared().max_hold(HOUR),
        |request, _| request.shared().min_hold(ROUND_TRIP),
        |request, _| request.shared().renew(false),
        |request, task| request.shared().ttl(HOUR / 2 + task * ROUND_TRIP),
    ];
    for (place, kind) in kinds.into_iter().enumerate() {
        let store = Distant::default();
        let manager = store.manager();
        let since = Instant::now();
        let tasks = (0..TASKS).map(|task| {
            let lock = kind(manager.lock(KEY), task).wait(10 * ROUND_TRIP);
            tokio::spawn(lock.acquire())
        });
        let guards: Vec<_> = join_all(tasks).await;
        let took = since.elapsed();
        // 65, then twice as many with each round trip.
        assert!(took <= 5 * ROUND_TRIP, "kind {place}: {took:?}");
        for guard in guards {
            drop(guard.unwrap().unwrap());
        }
        assert_eq!(store.asked(), TASKS as usize, "kind {place}");
        assert_idle(&[&manager]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn tasks_that_wait_for_what_is_held_do_not_all_ask() {
    const PERMITS: u32 = 2;
    const BODY: Duration = Duration::from_millis(100);
    let store = Distant::default();
    let manager = store.manager();
    let inside = Arc::new(AtomicUsize::new(0));
    let tasks = (0..TASKS).map(|_| {
        let (lock, inside) = (
            manager.lock(KEY).permits(PERMITS).wait(HOUR),
            inside.clone(),
        );
        tokio::spawn(lock.run(async move |_| {
            let before = inside.fetch_add(1, Ordering::Relaxed);
            assert!(
                before < PERMITS as usize,
                "broken promise: one permit too many"
            );
            sleep(BODY).await;
            inside.fetch_sub(1, Ordering::Relaxed);
        }))
    });
    for outcome in join_all(tasks).await {
        outcome.unwrap().unwrap();
    }
    // A request of the first moment for some, and few for each body: one in the queue, and two after a grant.
    let most = 65 + 4 * TASKS as usize;
    assert!(store.asked() <= most, "{} requests", store.asked());
    assert_idle(&[&manager]).await;
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_is_shorter_than_a_round_trip_ends_as_for_a_busy_lock() {
    let store = Distant::default();
    let manager = store.manager();
    let locks = (0..3).map(|_| manager.lock(KEY).wait(ROUND_TRIP / 3).acquire());
    for outcome in join_all(locks).await {
        let error = outcome.unwrap_err();
        assert!(error.is_busy(), "{error}");
    }
    assert_idle(&[&manager]).await;
    assert!(
        store.store.is_empty(),
        "{} locks are left",
        store.store.len()
    );
}
