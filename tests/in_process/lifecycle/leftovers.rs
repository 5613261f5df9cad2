//! What is left when nothing is held any more.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use dlock::{
    LockManager,
    random::{Random, SystemRandom},
    store::{
        AcquireOutcome, AcquireRequest, ClientId, Detaching, HintSink, LockStore, ReleaseRequest,
        Released, RenewBatch, Renewal, StoreError, StoreErrorKind, StoreHooks, StoreProperties,
        memory::MemoryStore,
    },
};
use dlock_waiting::eventually;
use tokio::{
    runtime::Handle,
    task::yield_now,
    time::{Instant, sleep},
};

use crate::common::{Env, LIMIT, Memory};
use crate::lifecycle::{TTL, assert_clean, hold, memory};

/// Nothing grows with the number of keys seen.
#[tokio::test(start_paused = true)]
async fn of_twenty_thousand_keys_there_are_none() {
    let (store, manager) = memory();
    for key in 0..20_000 {
        let outcome = manager.lock(format!("order:{key}")).run(async |_| ()).await;
        outcome.unwrap();
        assert_eq!(manager.active_keys(), 0);
    }
    assert!(store.is_empty());
}

#[tokio::test(start_paused = true)]
async fn there_is_no_task_for_a_short_section_nor_after_a_long_one() {
    let (store, manager) = memory();
    let tasks = || Handle::current().metrics().num_alive_tasks();
    assert_eq!(tasks(), 0);
    let guards = [hold(&manager, "a").await, hold(&manager, "b").await];
    assert!(tasks() <= 1, "one task keeps all leases: {}", tasks());
    sleep(2 * TTL).await;
    assert!(tasks() <= 1, "renewals leave none: {}", tasks());
    for guard in guards {
        guard.ensure_held().unwrap();
        guard.release().await.unwrap();
    }
    eventually(LIMIT, "the renewer has ended", async || tasks() == 0).await;

    // And another one is there when it is needed.
    let guard = manager.lock("c").ttl(TTL).acquire().await.unwrap();
    sleep(2 * TTL).await;
    guard.ensure_held().unwrap();
    drop(guard);
    eventually(LIMIT, "nothing runs any more", async || tasks() == 0).await;
    assert_clean(&store, &manager).await;
}

#[tokio::test(start_paused = true)]
async fn of_dropped_waiters_and_guards_there_is_no_task() {
    let env = Memory::start().await;
    let managers = [env.manager().await, env.manager().await];
    let tasks = || Handle::current().metrics().num_alive_tasks();
    for round in 0..50 {
        let guard = hold(&managers[0], "order:42").await;
        let waiter = managers[1].lock("order:42").acquire();
        let pause = Duration::from_millis(round * 37);
        assert!(tokio::time::timeout(pause, waiter).await.is_err());
        drop(guard);
    }
    env.assert_clean(1, &[&managers[0], &managers[1]]).await;
    eventually(LIMIT, "nothing runs any more", async || tasks() == 0).await;
}

/// Dropping the last handle ends what the manager has of tasks and sinks.
#[tokio::test(start_paused = true)]
async fn of_a_manager_that_was_dropped_there_is_none() {
    let store = MemoryStore::new();
    let witness = Arc::new(());
    let manager = LockManager::builder()
        .random(Witness(witness.clone()))
        .build_with_store(store.clone())
        .unwrap();
    let guard = hold(&manager, "order:42").await;
    drop(manager);
    sleep(2 * TTL).await;
    guard
        .ensure_held()
        .expect("a guard keeps its manager alive");
    drop(guard);
    eventually(LIMIT, "the manager is gone", async || {
        Arc::strong_count(&witness) == 1
    })
    .await;
    assert!(store.is_empty());
}

/// Random bits that belong to one manager.
struct Witness(#[expect(dead_code, reason = "it is counted")] Arc<()>);

impl Random for Witness {
    fn next_u64(&self) -> u64 {
        SystemRandom.next_u64()
    }
}

/// A store in memory whose connection breaks with the first release, and comes back when the test says so.
#[derive(Clone, Default)]
struct Breaking {
    store: MemoryStore,
    sink: Arc<OnceLock<HintSink>>,
    releases: Arc<AtomicUsize>,
}

impl LockStore for Breaking {
    async fn acquire(&self, request: AcquireRequest<'_>) -> Result<AcquireOutcome, StoreError> {
        self.store.acquire(request).await
    }

    async fn renew(&self, batch: RenewBatch<'_>) -> Vec<Result<Renewal, StoreError>> {
        self.store.renew(batch).await
    }

    async fn release(&self, request: ReleaseRequest<'_>) -> Result<Released, StoreError> {
        if self.releases.fetch_add(1, Ordering::Relaxed) == 0 {
            return Err(StoreError::new(StoreErrorKind::Disconnected, "on purpose"));
        }
        self.store.release(request).await
    }

    fn properties(&self) -> StoreProperties<'_> {
        StoreProperties::new().grants(true).hooks(self)
    }
}

impl StoreHooks for Breaking {
    fn attach(&self, _client: ClientId, hints: HintSink) {
        assert!(self.sink.set(hints).is_ok(), "one manager has it");
    }

    fn detach(&self, client: ClientId) -> Detaching<'_> {
        self.store.detach(client)
    }

    fn release_at_once(&self, _request: ReleaseRequest<'_>) -> bool {
        false
    }
}

/// The pause before it is repeated is cut short by the news that the store can be reached again.
#[tokio::test(start_paused = true)]
async fn a_release_is_repeated_as_soon_as_the_store_is_back() {
    let store = Breaking::default();
    let manager = LockManager::builder()
        .build_with_store(store.clone())
        .unwrap();
    drop(hold(&manager, "order:42").await);
    let before = Instant::now();
    let until_sent = async |count| {
        // Time stands still as long as there is something to do.
        for _ in 0..1000 {
            yield_now().await;
        }
        assert_eq!(store.releases.load(Ordering::Relaxed), count);
    };
    until_sent(1).await;
    assert!(store.sink.get().unwrap().look_again());
    until_sent(2).await;
    assert_eq!(before.elapsed(), Duration::ZERO);
    assert_clean(&store.store, &manager).await;
}

/// A store whose first release fails.
#[derive(Clone)]
struct FirstFails {
    store: MemoryStore,
    kind: StoreErrorKind,
    asked: Arc<AtomicUsize>,
}

impl LockStore for FirstFails {
    async fn acquire(&self, request: AcquireRequest<'_>) -> Result<AcquireOutcome, StoreError> {
        self.store.acquire(request).await
    }

    async fn renew(&self, batch: RenewBatch<'_>) -> Vec<Result<Renewal, StoreError>> {
        self.store.renew(batch).await
    }

    async fn release(&self, request: ReleaseRequest<'_>) -> Result<Released, StoreError> {
        if self.asked.fetch_add(1, Ordering::Relaxed) == 0 {
            return Err(StoreError::new(self.kind, "only this once"));
        }
        self.store.release(request).await
    }

    fn properties(&self) -> StoreProperties<'_> {
        self.store.properties()
    }
}

/// An answer that makes no sense says nothing about the release, and permissions may be changing just then.
#[tokio::test(start_paused = true)]
async fn an_awaited_release_that_fails_is_sent_once_more() {
    for kind in [
        StoreErrorKind::BadAnswer,
        StoreErrorKind::Denied,
        StoreErrorKind::TimedOut,
        StoreErrorKind::Disconnected,
    ] {
        let store = FirstFails {
            store: MemoryStore::new(),
            kind,
            asked: Arc::default(),
        };
        let manager = LockManager::builder()
            .build_with_store(store.clone())
            .unwrap();
        let guard = manager.lock("order:42").ttl(TTL).acquire().await.unwrap();
        let begun = Instant::now();
        guard.release().await.unwrap();
        eventually(LIMIT, "the lock is free", async || store.store.is_empty()).await;
        assert!(
            begun.elapsed() < TTL,
            "{kind:?}: it is not the TTL that has freed it"
        );
        assert_eq!(store.asked.load(Ordering::Relaxed), 2, "{kind:?}");
    }
}
