//! A wrapper that forwards all required methods loses nothing: limits, drift, batches and hints.

#![allow(
    clippy::unwrap_used,
    reason = "a test that fails there has said what it has to say"
)]

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use dlock_conformance::{Level, Suite};
use dlock_runtime::{
    LockError, LockManager, StoreError, Wait,
    clock::{Clock, Moment},
    store::{
        AcquireOutcome, AcquireRequest, Drift, LockStore, ReleaseRequest, Released, RenewBatch,
        Renewal, StoreProperties, memory::MemoryStore,
    },
};
use tokio::time::{Instant, sleep};

const TTL: Duration = Duration::from_secs(30);

/// A store with all features that a wrapper can lose.
#[derive(Clone, Default)]
struct Inner {
    store: MemoryStore,
    /// The time of a request.
    slowness: Duration,
    batches: Arc<AtomicUsize>,
    renewals: Arc<AtomicUsize>,
}

impl Inner {
    const DRIFT: Drift = Drift::new(100, Duration::from_secs(1));
}

impl LockStore for Inner {
    async fn acquire(&self, request: AcquireRequest<'_>) -> Result<AcquireOutcome, StoreError> {
        sleep(self.slowness).await;
        self.store.acquire(request).await
    }

    async fn renew(&self, batch: RenewBatch<'_>) -> Vec<Result<Renewal, StoreError>> {
        self.batches.fetch_add(1, Ordering::Relaxed);
        let renewals = batch.requests.len();
        self.renewals.fetch_add(renewals, Ordering::Relaxed);
        self.store.renew(batch).await
    }

    async fn release(&self, request: ReleaseRequest<'_>) -> Result<Released, StoreError> {
        self.store.release(request).await
    }

    fn properties(&self) -> StoreProperties<'_> {
        let properties = self.store.properties().drift(Self::DRIFT);
        properties.gives_up_after(Duration::from_secs(1))
    }
}

/// A wrapper that does not know these features.
struct Wrapper<S>(S);

impl<S: LockStore> LockStore for Wrapper<S> {
    async fn acquire(&self, request: AcquireRequest<'_>) -> Result<AcquireOutcome, StoreError> {
        self.0.acquire(request).await
    }

    async fn renew(&self, batch: RenewBatch<'_>) -> Vec<Result<Renewal, StoreError>> {
        self.0.renew(batch).await
    }

    async fn release(&self, request: ReleaseRequest<'_>) -> Result<Released, StoreError> {
        self.0.release(request).await
    }

    fn properties(&self) -> StoreProperties<'_> {
        self.0.properties()
    }
}

/// A store that waits as long as its caller does.
struct Unlimited(Inner);

impl LockStore for Unlimited {
    async fn acquire(&self, request: AcquireRequest<'_>) -> Result<AcquireOutcome, StoreError> {
        self.0.acquire(request).await
    }

    async fn renew(&self, batch: RenewBatch<'_>) -> Vec<Result<Renewal, StoreError>> {
        self.0.renew(batch).await
    }

    async fn release(&self, request: ReleaseRequest<'_>) -> Result<Released, StoreError> {
        self.0.release(request).await
    }

    fn properties(&self) -> StoreProperties<'_> {
        self.0.properties().never_gives_up()
    }
}

/// The boot clock stands still as tokio's does, however long the machine takes.
struct Paused(Instant);

impl Clock for Paused {
    fn now(&self) -> Moment {
        let monotonic = Instant::now();
        let boot = monotonic.duration_since(self.0);
        Moment { monotonic, boot }
    }
}

fn manager(store: impl LockStore) -> LockManager {
    LockManager::builder()
        .ttl(TTL)
        .clock(Paused(Instant::now()))
        .build_with_store(store)
        .unwrap()
}

#[tokio::test(start_paused = true)]
async fn drift_is_kept() {
    let manager = manager(Wrapper(Inner::default()));
    let guard = manager.lock("order:42").acquire().await.unwrap();
    let left = guard.remaining();
    assert!(
        left + Inner::DRIFT.of(TTL) <= TTL,
        "broken promise: a lease is believed beyond its end: {left:?}"
    );
    assert!(left >= TTL / 2, "{left:?}");
    guard.release().await.unwrap();
}

/// The manager leaves the limit to a store that declares one, however long the store then takes.
#[tokio::test(start_paused = true)]
async fn limits_are_kept() {
    let slow = Inner {
        slowness: TTL / 3,
        ..Inner::default()
    };
    let locks = manager(Wrapper(slow.clone()));
    let guard = locks.lock("order:42").acquire().await.unwrap();
    guard.release().await.unwrap();

    let locks = manager(Wrapper(Unlimited(slow)));
    let asked = locks.lock("order:42").try_acquire().await;
    let timed_out = matches!(asked, Err(LockError::Unavailable { .. }));
    assert!(timed_out, "the manager gives up by itself");
}

#[tokio::test(start_paused = true)]
async fn batches_are_kept() {
    let inner = Inner::default();
    let manager = manager(Wrapper(inner.clone()));
    let mut guards = Vec::new();
    for number in 0..50 {
        let lock = manager.lock(format!("order:{number}"));
        guards.push(lock.acquire().await.unwrap());
    }
    sleep(TTL).await;
    assert!(guards.iter().all(|guard| !guard.is_lost()));
    let counts = [&inner.batches, &inner.renewals];
    let [batches, renewals] = counts.map(|count| count.load(Ordering::Relaxed));
    assert!(renewals >= 100, "{renewals} renewals");
    assert!(
        batches * 10 <= renewals,
        "{batches} batches for {renewals} renewals"
    );
    for guard in guards {
        guard.release().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn hints_are_kept() {
    let inner = Inner::default();
    let managers = [(); 2].map(|()| manager(Wrapper(inner.clone())));
    let guard = managers[0].lock("order:42").acquire().await.unwrap();
    let waiting = managers[1].lock("order:42").wait(Wait::Forever).acquire();
    let waiting = tokio::spawn(waiting);
    // The waiter is in the queue: paused time continues when all tasks wait.
    sleep(Duration::from_millis(1)).await;
    let before = Instant::now();
    guard.release().await.unwrap();
    let next = waiting.await.unwrap().unwrap();
    assert!(before.elapsed().is_zero(), "it did not wait for its timer");
    next.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_whole_contract_is_kept() {
    let store = Wrapper(Inner::default());
    Suite::new(Level::Grants).alone().run(&store).await.assert();
}
