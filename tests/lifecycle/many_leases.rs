//! So many leases that a store takes longer to renew them all than one answer may take.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use dlock::{
    LockKey, LockManager, LockStore, OwnerId,
    store::{
        AcquireRequest, Acquisition, Released, RenewRequest, Renewal, StoreError,
        memory::MemoryStore,
    },
};
use futures_util::future::join_all;
use tokio::time::{Instant, sleep, sleep_until};

use crate::assert_clean;

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
    async fn acquire(&self, request: AcquireRequest<'_>) -> Result<Acquisition, StoreError> {
        self.store.acquire(request).await
    }

    async fn renew(&self, request: RenewRequest<'_>) -> Result<Renewal, StoreError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.turn().await;
        self.store.renew(request).await
    }

    async fn release(&self, key: &LockKey, owner: OwnerId) -> Result<Released, StoreError> {
        self.store.release(key, owner).await
    }
}

/// They are due at the same time, and renewing them takes three times as long as the manager waits for an answer by
/// default. If all were asked for at once, most answers would come too late, and asking again would only make
/// the rest later.
#[tokio::test(start_paused = true)]
async fn are_all_kept_and_asked_for_once_in_each_round() {
    const LEASES: usize = 3000;
    const TTL: Duration = Duration::from_secs(10);
    let store = OneByOne::default();
    let manager = LockManager::builder()
        .ttl(TTL)
        .store(store.clone())
        .unwrap();
    let all = (0..LEASES).map(|number| manager.lock(format!("order:{number}")).acquire());
    let guards: Vec<_> = join_all(all)
        .await
        .into_iter()
        .map(Result::unwrap)
        .collect();
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

/// It answers for fewer leases than it was asked for.
struct Forgetful(MemoryStore);

impl LockStore for Forgetful {
    async fn acquire(&self, request: AcquireRequest<'_>) -> Result<Acquisition, StoreError> {
        self.0.acquire(request).await
    }

    async fn renew(&self, request: RenewRequest<'_>) -> Result<Renewal, StoreError> {
        self.0.renew(request).await
    }

    async fn renew_all(
        &self,
        requests: &[RenewRequest<'_>],
        _limit: Duration,
    ) -> Vec<Result<Renewal, StoreError>> {
        let some = requests.len().div_ceil(2);
        join_all(requests[..some].iter().map(|request| self.renew(*request))).await
    }

    async fn release(&self, key: &LockKey, owner: OwnerId) -> Result<Released, StoreError> {
        self.0.release(key, owner).await
    }
}

#[tokio::test(start_paused = true)]
async fn are_kept_by_a_store_that_does_not_answer_for_each_of_them() {
    const TTL: Duration = Duration::from_secs(10);
    let store = MemoryStore::new();
    let manager = LockManager::builder().ttl(TTL);
    let manager = manager.store(Forgetful(store.clone())).unwrap();
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
