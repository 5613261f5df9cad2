//! Tokio runtimes come and go under a manager: what was begun on one goes on on another.

#![allow(
    clippy::unwrap_used,
    reason = "a test that fails at an `unwrap` has said enough"
)]

use std::{
    future::{Future, pending},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use dlock::{
    LockError, LockKey, LockManager, LockStore, OwnerId,
    store::{AcquireRequest, Acquisition, Released, Renewal, StoreError, memory::MemoryStore},
};
use dlock_testkit::eventually;
use tokio::{
    runtime::{Builder, Runtime},
    sync::Semaphore,
    time::timeout,
};

/// Long enough for a loaded machine, and only waited for when a test fails.
const DEADLINE: Duration = Duration::from_secs(20);

/// Long enough for a machine that stands still for a moment, short enough to wait for its end.
const TTL: Duration = Duration::from_millis(1500);

fn runtime(threads: usize) -> Runtime {
    let mut builder = Builder::new_multi_thread();
    builder
        .worker_threads(threads)
        .enable_all()
        .build()
        .unwrap()
}

/// A runtime that only runs while it is blocked on.
fn idle_runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn manager(home: &Runtime, store: impl LockStore) -> LockManager {
    let _inside = home.enter();
    LockManager::builder().ttl(TTL).store(store).unwrap()
}

/// A store whose releases wait for a permit.
#[derive(Clone)]
struct SlowRelease {
    store: MemoryStore,
    permits: Arc<Semaphore>,
}

impl LockStore for SlowRelease {
    async fn acquire(&self, request: AcquireRequest<'_>) -> Result<Acquisition, StoreError> {
        self.store.acquire(request).await
    }

    async fn renew(
        &self,
        key: &LockKey,
        owner: OwnerId,
        ttl: Duration,
    ) -> Result<Renewal, StoreError> {
        self.store.renew(key, owner, ttl).await
    }

    async fn release(&self, key: &LockKey, owner: OwnerId) -> Result<Released, StoreError> {
        self.permits.acquire().await.unwrap().forget();
        self.store.release(key, owner).await
    }
}

#[test]
fn a_lease_is_kept_although_the_managers_runtime_has_ended() {
    let (home, here) = (runtime(1), runtime(2));
    let manager = manager(&home, MemoryStore::new());
    here.block_on(async {
        let guard = manager.lock("k").acquire().await.unwrap();
        tokio::task::spawn_blocking(move || drop(home))
            .await
            .unwrap();
        let body = guard.watch(tokio::time::sleep(3 * TTL));
        timeout(DEADLINE, body)
            .await
            .unwrap()
            .expect("it was renewed");
        guard.release().await.unwrap();
    });
}

#[test]
fn a_loss_is_told_although_the_managers_runtime_has_ended() {
    let (home, here) = (runtime(1), runtime(2));
    let store = MemoryStore::new();
    let manager = manager(&home, store.clone());
    here.block_on(async {
        let guard = manager.lock("k").acquire().await.unwrap();
        tokio::task::spawn_blocking(move || drop(home))
            .await
            .unwrap();
        store.forget();
        let lost = timeout(DEADLINE, guard.watch(pending::<()>()))
            .await
            .unwrap();
        assert!(matches!(lost, Err(LockError::Lost { .. })), "{lost:?}");
    });
}

#[test]
fn leases_are_kept_although_the_managers_runtime_ended_before_it_ever_ran() {
    let (home, here) = (idle_runtime(), runtime(2));
    let manager = manager(&home, MemoryStore::new());
    // The keeper is given to a runtime that nobody runs, and that ends without having run it.
    here.block_on(async {
        let first = manager.lock("first").acquire().await.unwrap();
        first.release().await.unwrap();
    });
    drop(home);
    here.block_on(async {
        let guard = manager.lock("later").acquire().await.unwrap();
        let body = guard.watch(tokio::time::sleep(3 * TTL));
        timeout(DEADLINE, body)
            .await
            .unwrap()
            .expect("it was renewed");
        guard.release().await.unwrap();
    });
}

/// A store whose first renewal is never answered.
#[derive(Clone)]
struct DeafOnce {
    store: MemoryStore,
    renewals: Arc<AtomicUsize>,
}

impl LockStore for DeafOnce {
    async fn acquire(&self, request: AcquireRequest<'_>) -> Result<Acquisition, StoreError> {
        self.store.acquire(request).await
    }

    async fn renew(
        &self,
        key: &LockKey,
        owner: OwnerId,
        ttl: Duration,
    ) -> Result<Renewal, StoreError> {
        if self.renewals.fetch_add(1, Ordering::Relaxed) == 0 {
            pending::<()>().await;
        }
        self.store.renew(key, owner, ttl).await
    }

    async fn release(&self, key: &LockKey, owner: OwnerId) -> Result<Released, StoreError> {
        self.store.release(key, owner).await
    }
}

/// It counts as unanswered; if it counted as under way for ever, no other would be sent.
#[test]
fn leases_are_kept_although_nobody_runs_the_managers_runtime() {
    let (home, here) = (idle_runtime(), runtime(2));
    let manager = manager(&home, MemoryStore::new());
    here.block_on(async {
        let guard = manager.lock("k").acquire().await.unwrap();
        let body = guard.watch(tokio::time::sleep(2 * TTL));
        let outcome = timeout(DEADLINE, body).await.unwrap();
        outcome.expect("it was renewed");
        guard.release().await.unwrap();
    });
}

#[test]
fn a_lease_is_kept_where_its_body_is_although_the_runtime_it_was_taken_on_has_ended() {
    let (first, second) = (runtime(1), runtime(2));
    let manager = LockManager::builder()
        .ttl(TTL)
        .store(MemoryStore::new())
        .unwrap();
    let guard = first.block_on(manager.lock("k").acquire()).unwrap();
    drop(first);
    second.block_on(async {
        let body = guard.watch(tokio::time::sleep(2 * TTL));
        let outcome = timeout(DEADLINE, body).await.unwrap();
        outcome.expect("it was renewed");
    });
}

/// What the manager cannot do on its own runtime it does on the attempt's, and does not try again
/// and again.
#[test]
fn a_lease_is_kept_although_the_managers_runtime_has_no_timers() {
    let home = Builder::new_multi_thread()
        .worker_threads(1)
        .build()
        .unwrap();
    let here = runtime(2);
    let manager = manager(&home, MemoryStore::new());
    here.block_on(async {
        let guard = manager.lock("k").acquire().await.unwrap();
        let body = guard.watch(tokio::time::sleep(2 * TTL));
        let outcome = timeout(DEADLINE, body).await.unwrap();
        outcome.expect("it was renewed");
        guard.release().await.unwrap();
    });
}

/// A store that is slow to grant, so that the lease is due for renewal as soon as it is there.
struct SlowGrant(MemoryStore);

impl LockStore for SlowGrant {
    async fn acquire(&self, request: AcquireRequest<'_>) -> Result<Acquisition, StoreError> {
        let answer = self.0.acquire(request).await;
        tokio::time::sleep(TTL / 2).await;
        answer
    }

    async fn renew(
        &self,
        key: &LockKey,
        owner: OwnerId,
        ttl: Duration,
    ) -> Result<Renewal, StoreError> {
        self.0.renew(key, owner, ttl).await
    }

    async fn release(&self, key: &LockKey, owner: OwnerId) -> Result<Released, StoreError> {
        self.0.release(key, owner).await
    }
}

#[test]
fn a_body_that_hogs_its_thread_at_once_does_not_hold_up_a_renewal_that_is_due() {
    let here = runtime(4);
    let manager = LockManager::builder().ttl(TTL).response_timeout(TTL);
    let manager = manager.store(SlowGrant(MemoryStore::new())).unwrap();
    here.block_on(async {
        let body = manager.lock("k").run(async |_| std::thread::sleep(TTL));
        let outcome = timeout(DEADLINE, tokio::spawn(body)).await.unwrap();
        outcome.unwrap().expect("it was renewed meanwhile");
    });
}

#[test]
fn a_release_does_not_wait_for_a_runtime_that_nobody_runs() {
    let (home, here) = (runtime(1), idle_runtime());
    let store = MemoryStore::new();
    let manager = manager(&home, store.clone());
    let guard = here.block_on(manager.lock("k").acquire()).unwrap();
    drop(guard);
    home.block_on(async {
        eventually(TTL / 2, "the release to be done", async || {
            manager.active() == 0
        })
        .await;
    });
    assert!(store.is_empty());
}

#[test]
fn a_renewal_that_dies_with_its_runtime_is_repeated_on_another() {
    const TTL: Duration = Duration::from_secs(3);

    let (home, here) = (runtime(1), runtime(2));
    let store = DeafOnce {
        store: MemoryStore::new(),
        renewals: Arc::default(),
    };
    // Renewals are sent from where the manager was made.
    let manager = manager(&home, store.clone());
    here.block_on(async {
        let guard = manager.lock("k").ttl(TTL).acquire().await.unwrap();
        eventually(DEADLINE, "a renewal is under way", async || {
            store.renewals.load(Ordering::Relaxed) == 1
        })
        .await;
        tokio::task::spawn_blocking(move || drop(home))
            .await
            .unwrap();
        // The first is sent when less than this is left.
        let renewed = eventually(DEADLINE, "the lease is renewed", async || {
            guard.remaining() > TTL * 2 / 3
        });
        guard.watch(renewed).await.expect("it was renewed in time");
        assert!(store.renewals.load(Ordering::Relaxed) > 1);
        guard.release().await.unwrap();
    });
    assert!(store.store.is_empty());
}

#[test]
fn a_release_goes_on_where_the_manager_is_when_the_callers_runtime_has_ended() {
    let home = runtime(1);
    let store = SlowRelease {
        store: MemoryStore::new(),
        permits: Arc::new(Semaphore::new(0)),
    };
    let manager = manager(&home, store.clone());
    let here = idle_runtime();
    here.block_on(async {
        drop(manager.lock("k").acquire().await.unwrap());
        // The release has been begun here, and has to wait.
        tokio::task::yield_now().await;
    });
    drop(here);
    assert_eq!(manager.active(), 1, "it is still being released");
    store.permits.add_permits(2);
    home.block_on(async {
        eventually(DEADLINE, "the release to be done", async || {
            manager.active() == 0
        })
        .await;
    });
    assert!(store.store.is_empty());
}

#[test]
fn without_any_runtime_the_ttl_has_to_do_and_nothing_stays_here() {
    let here = runtime(1);
    let store = SlowRelease {
        store: MemoryStore::new(),
        permits: Arc::new(Semaphore::new(1)),
    };
    let manager = manager(&here, store.clone());
    // Not so short that it could be over before the test has looked.
    let lock = manager.lock("k").ttl(DEADLINE);
    let guard = here.block_on(lock.acquire()).unwrap();
    drop(here);
    drop(guard);
    assert_eq!(manager.active(), 0);
    assert_eq!(store.store.len(), 1, "the store is not told");
}

#[test]
fn releasing_outside_a_runtime_does_not_panic() {
    struct Nobody;
    impl Wake for Nobody {
        fn wake(self: Arc<Self>) {}
    }
    let home = runtime(1);
    let manager = manager(&home, MemoryStore::new());
    let guard = home.block_on(manager.lock("k").acquire()).unwrap();
    let waker = Waker::from(Arc::new(Nobody));
    let released = pin!(guard.release()).poll(&mut Context::from_waker(&waker));
    assert_eq!(released, Poll::Ready(Ok(())));
    home.block_on(async {
        eventually(DEADLINE, "the release to be done", async || {
            manager.active() == 0
        })
        .await;
    });
}

#[test]
fn whoever_is_woken_by_the_end_may_look_at_the_manager() {
    struct Looks(LockManager);
    impl Wake for Looks {
        fn wake(self: Arc<Self>) {
            assert_eq!(self.0.active(), 0);
        }
    }
    let home = runtime(1);
    let manager = manager(&home, MemoryStore::new());
    let guard = home.block_on(manager.lock("k").acquire()).unwrap();
    let mut shutdown = pin!(manager.shutdown(DEADLINE));
    let waker = Waker::from(Arc::new(Looks(manager.clone())));
    let _inside = home.enter();
    let polled = shutdown.as_mut().poll(&mut Context::from_waker(&waker));
    assert!(polled.is_pending());
    home.block_on(guard.release()).unwrap();
    let shut = home.block_on(shutdown);
    assert_eq!((shut.cut_short, shut.unreleased), (0, 0));
}
