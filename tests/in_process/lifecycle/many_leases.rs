//! So many leases that a store takes longer to renew them all than one answer may take.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use dlock::{
    LockManager,
    store::{
        AcquireOutcome, AcquireRequest, LockStore, ReleaseRequest, Released, RenewBatch, Renewal,
        StoreError, StoreProperties, memory::MemoryStore, renew_each,
    },
};
use futures_util::future::join_all;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::common::TestClock;
use crate::lifecycle::assert_clean;

/// How long the server of the store takes for one renewal.
const EACH: Duration = Duration::from_millis(1);

/// A store whose server does one thing at a time, also for callers that have given up.
#[derive(Clone, Default)]
struct OneByOne {
    store: MemoryStore,
    busy_until: Arc<Mutex<Option<Instant>>>,
    asked: Arc<AtomicUsize>,
}

impl OneByOne {
    async fn turn(&self) {
        let turn = {
            let mut busy_until = self.busy_until.lock().unwrap();
            let begin = busy_until.map_or_else(Instant::now, |until| until.max(Instant::now()));
            *busy_until.insert(begin + EACH)
        };
        sleep_until(turn).await;
    }

    /// Does nothing for so long.
    fn pause(&self, time: Duration) {
        *self.busy_until.lock().unwrap() = Some(Instant::now() + time);
    }
}

impl LockStore for OneByOne {
    async fn acquire(&self, request: AcquireRequest<'_>) -> Result<AcquireOutcome, StoreError> {
        self.store.acquire(request).await
    }

    async fn renew(&self, batch: RenewBatch<'_>) -> Vec<Result<Renewal, StoreError>> {
        renew_each(batch, async |request| {
            self.asked.fetch_add(1, Ordering::Relaxed);
            self.turn().await;
            self.store.renew_one(request).await
        })
        .await
    }

    fn properties(&self) -> StoreProperties<'_> {
        StoreProperties::new().grants(true)
    }

    async fn release(&self, request: ReleaseRequest<'_>) -> Result<Released, StoreError> {
        self.store.release(request).await
    }
}

/// A manager whose clock stands still with the paused one. The machine may take longer for thousands of renewals than
/// a lease lasts.
fn manager(ttl: Duration, store: impl LockStore) -> LockManager {
    let builder = LockManager::builder().ttl(ttl).clock(TestClock::new());
    builder.build_with_store(store).unwrap()
}

async fn hold_all(manager: &LockManager, what: &str, count: usize) -> Vec<dlock::LockGuard> {
    let all = (0..count).map(|number| manager.lock(format!("{what}:{number}")).acquire());
    join_all(all)
        .await
        .into_iter()
        .map(Result::unwrap)
        .collect()
}

/// They are due at the same time, and renewing them takes three times as long as the manager waits for an answer by
/// default. If all were asked for at once, most answers would come too late, and asking again would only make
/// the rest later.
#[tokio::test(start_paused = true)]
async fn are_all_kept_and_asked_for_once_in_each_round() {
    const LEASES: usize = 3000;
    const TTL: Duration = Duration::from_secs(10);
    let store = OneByOne::default();
    let manager = manager(TTL, store.clone());
    let guards = hold_all(&manager, "order", LEASES).await;
    sleep(3 * TTL).await;
    assert!(guards.iter().all(|guard| !guard.is_lost()));
    let rounds = store.asked.load(Ordering::Relaxed).div_ceil(LEASES);
    assert!(
        rounds <= 9,
        "a lease is renewed once in a third of its TTL: {rounds}"
    );
    // The server stands still for a while, when they are due again.
    store.pause(TTL / 4);
    sleep(TTL).await;
    assert!(guards.iter().all(|guard| !guard.is_lost()));
    join_all(guards.into_iter().map(dlock::LockGuard::release)).await;
    assert_clean(&store.store, &manager).await;
}

/// A store that takes its time for a group, never answers for keys that begin with `dead:`, and counts the groups
/// that are under way.
#[derive(Clone, Default)]
struct InGroups {
    store: MemoryStore,
    under_way: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
}

impl LockStore for InGroups {
    async fn acquire(&self, request: AcquireRequest<'_>) -> Result<AcquireOutcome, StoreError> {
        self.store.acquire(request).await
    }

    async fn renew(&self, batch: RenewBatch<'_>) -> Vec<Result<Renewal, StoreError>> {
        let under_way = self.under_way.fetch_add(1, Ordering::Relaxed) + 1;
        self.most.fetch_max(under_way, Ordering::Relaxed);
        if batch.requests[0].key.as_str().starts_with("dead:") {
            std::future::pending::<()>().await;
        }
        sleep(20 * EACH).await;
        self.under_way.fetch_sub(1, Ordering::Relaxed);
        self.store.renew(batch).await
    }

    fn properties(&self) -> StoreProperties<'_> {
        StoreProperties::new().grants(true)
    }

    async fn release(&self, request: ReleaseRequest<'_>) -> Result<Released, StoreError> {
        self.store.release(request).await
    }
}

#[tokio::test(start_paused = true)]
async fn are_asked_for_in_few_groups_at_a_time() {
    const TTL: Duration = Duration::from_secs(10);
    let store = InGroups::default();
    let manager = manager(TTL, store.clone());
    let guards = hold_all(&manager, "order", 3000).await;
    sleep(2 * TTL).await;
    assert!(guards.iter().all(|guard| !guard.is_lost()));
    assert_eq!(store.most.load(Ordering::Relaxed), 4);
    drop(guards);
    assert_clean(&store.store, &manager).await;
}

/// A part of the store does not answer, as a master of a cluster that has died. Its leases are due first.
#[tokio::test(start_paused = true)]
async fn are_asked_for_while_others_wait_long_for_their_answer() {
    const TTL: Duration = Duration::from_secs(10);
    let store = InGroups::default();
    // They fall due at the same moment: groups are of one sort.
    let manager = manager(TTL, store.clone());
    let dead = hold_all(&manager, "dead", 4 * 256).await;
    sleep(TTL / 20).await;
    let alive = hold_all(&manager, "alive", 100).await;
    // A third of the TTL, and the time for an answer.
    sleep(TTL / 2).await;
    for guard in &alive {
        assert!(guard.remaining() > TTL * 3 / 4, "{:?}", guard.remaining());
    }
    drop((dead, alive));
    assert_clean(&store.store, &manager).await;
}

/// It answers for fewer leases than it was asked for.
struct Forgetful(MemoryStore);

impl LockStore for Forgetful {
    async fn acquire(&self, request: AcquireRequest<'_>) -> Result<AcquireOutcome, StoreError> {
        self.0.acquire(request).await
    }

    async fn renew(&self, batch: RenewBatch<'_>) -> Vec<Result<Renewal, StoreError>> {
        let some = batch.requests.len().div_ceil(2);
        self.0.renew(batch.requests(&batch.requests[..some])).await
    }

    fn properties(&self) -> StoreProperties<'_> {
        StoreProperties::new().grants(true)
    }

    async fn release(&self, request: ReleaseRequest<'_>) -> Result<Released, StoreError> {
        self.0.release(request).await
    }
}

#[tokio::test(start_paused = true)]
async fn are_kept_by_a_store_that_does_not_answer_for_each_of_them() {
    const TTL: Duration = Duration::from_secs(10);
    let store = MemoryStore::new();
    let manager = manager(TTL, Forgetful(store.clone()));
    let all = (0..20).map(|number| manager.lock(format!("order:{number}")).acquire());
    let guards: Vec<_> = join_all(all)
        .await
        .into_iter()
        .map(Result::unwrap)
        .collect();
    sleep(3 * TTL).await;
    assert!(guards.iter().all(|guard| !guard.is_lost()));
    join_all(guards.into_iter().map(dlock::LockGuard::release)).await;
    assert_clean(&store, &manager).await;
}

/// Two servers of which one hangs; the store waits for both within its limit, which it counts from when its requests
/// are made.
#[derive(Clone, Default)]
struct TwoServers(MemoryStore);

impl LockStore for TwoServers {
    async fn acquire(&self, request: AcquireRequest<'_>) -> Result<AcquireOutcome, StoreError> {
        self.0.acquire(request).await
    }

    async fn renew(&self, batch: RenewBatch<'_>) -> Vec<Result<Renewal, StoreError>> {
        let limit = batch.limit.unwrap();
        sleep(2 * EACH).await;
        let answers = batch.requests.iter().map(async |request| {
            let answer = async {
                if request.key.as_str().starts_with("hung:") {
                    std::future::pending::<()>().await;
                }
                self.0.renew_one(*request).await
            };
            let answer = timeout(limit, answer).await;
            answer.unwrap_or_else(|_| Err(StoreError::timed_out(limit)))
        });
        join_all(answers).await
    }

    fn properties(&self) -> StoreProperties<'_> {
        self.0.properties()
    }

    async fn release(&self, request: ReleaseRequest<'_>) -> Result<Released, StoreError> {
        self.0.release(request).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_hangs_does_not_take_the_leases_of_another_with_it() {
    const TTL: Duration = Duration::from_secs(3);
    let store = TwoServers::default();
    let manager = manager(TTL, store);
    let hung = manager.lock("hung:1").acquire().await.unwrap();
    let good = manager.lock("good:1").acquire().await.unwrap();
    sleep(2 * TTL).await;
    assert!(hung.is_lost());
    assert!(!good.is_lost());
    good.release().await.unwrap();
}
