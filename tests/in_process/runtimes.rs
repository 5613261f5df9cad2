//! Tokio runtimes come and go under a manager: what was begun on one goes on on another.

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
    LockError, LockGuard, LockManager,
    store::{
        AcquireOutcome, AcquireRequest, LockStore, ReleaseRequest, Released, RenewBatch, Renewal,
        StoreError, StoreProperties, memory::MemoryStore, renew_each,
    },
};
use dlock_waiting::eventually;
use tokio::{
    runtime::{Builder, Runtime},
    sync::Semaphore,
    time::timeout,
};

/// Long enough for a loaded machine, and only waited for when a test fails.
const DEADLINE: Duration = Duration::from_secs(20);

/// Long enough for a machine that stands still for a second, short enough to wait for its end.
const TTL: Duration = Duration::from_secs(3);

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
    LockManager::builder()
        .ttl(TTL)
        .build_with_store(store)
        .unwrap()
}

/// A body can go on for several TTLs, since its lease is renewed.
async fn assert_kept(guard: LockGuard) {
    let body = guard.run_while_held(tokio::time::sleep(2 * TTL));
    let outcome = timeout(DEADLINE, body).await.unwrap();
    outcome.expect("it was renewed");
    guard.release().await.unwrap();
}

/// A memory store that is slow in one way or another, and cannot release without a runtime.
#[derive(Clone, Default)]
struct Slow {
    store: MemoryStore,
    /// The time for which a grant is on its way.
    grant: Duration,
    /// The number of renewals that are never answered.
    deaf_renewals: Arc<AtomicUsize>,
    /// The permits that releases wait for, if they do.
    permits: Option<Arc<Semaphore>>,
}

impl LockStore for Slow {
    async fn acquire(&self, request: AcquireRequest<'_>) -> Result<AcquireOutcome, StoreError> {
        let answer = self.store.acquire(request).await;
        tokio::time::sleep(self.grant).await;
        answer
    }

    async fn renew(&self, batch: RenewBatch<'_>) -> Vec<Result<Renewal, StoreError>> {
        renew_each(batch, async |request| {
            let one_less = |left: usize| left.checked_sub(1);
            let left =
                self.deaf_renewals
                    .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less);
            if left.is_ok() {
                pending::<()>().await;
            }
            self.store.renew_one(request).await
        })
        .await
    }

    fn properties(&self) -> StoreProperties<'_> {
        StoreProperties::new().grants(true)
    }

    async fn release(&self, request: ReleaseRequest<'_>) -> Result<Released, StoreError> {
        if let Some(permits) = &self.permits {
            permits.acquire().await.unwrap().forget();
        }
        self.store.release(request).await
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
        assert_kept(guard).await;
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
        let lost = timeout(DEADLINE, guard.run_while_held(pending::<()>()))
            .await
            .unwrap();
        assert!(matches!(lost, Err(LockError::Lost { .. })), "{lost:?}");
    });
}

#[test]
fn leases_are_kept_although_the_managers_runtime_ended_before_it_ever_ran() {
    let (home, here) = (idle_runtime(), runtime(2));
    let manager = manager(&home, MemoryStore::new());
    // The renewer is given to a runtime that is never run, and that ends without having run it.
    here.block_on(async {
        let first = manager.lock("first").acquire().await.unwrap();
        first.release().await.unwrap();
    });
    drop(home);
    here.block_on(async {
        let guard = manager.lock("later").acquire().await.unwrap();
        assert_kept(guard).await;
    });
}

#[test]
fn leases_are_kept_although_nobody_runs_the_managers_runtime() {
    let (home, here) = (idle_runtime(), runtime(2));
    let manager = manager(&home, MemoryStore::new());
    here.block_on(async {
        let guard = manager.lock("k").acquire().await.unwrap();
        assert_kept(guard).await;
    });
}

#[test]
fn a_lease_is_kept_where_its_body_is_although_the_runtime_it_was_taken_on_has_ended() {
    let (first, second) = (runtime(1), runtime(2));
    let manager = LockManager::builder()
        .ttl(TTL)
        .build_with_store(MemoryStore::new())
        .unwrap();
    let guard = first.block_on(manager.lock("k").acquire()).unwrap();
    drop(first);
    second.block_on(async {
        assert_kept(guard).await;
    });
}

/// The manager does on the attempt's runtime what it cannot do on its own, and does not try again
/// and again.
#[test]
fn a_lease_is_kept_although_the_managers_runtime_has_no_timers() {
    let home = Builder::new_multi_thread()
        .worker_threads(1)
        .build()
        .unwrap();
    let here = runtime(2);
    let manager = manager(&home, MemoryStore::new());
    // The panic prints its text before the renewal, and that may take long.
    let ttl = 2 * TTL;
    here.block_on(async {
        let guard = manager.lock("k").ttl(ttl).acquire().await.unwrap();
        let outcome = guard.run_while_held(tokio::time::sleep(ttl + TTL)).await;
        outcome.expect("it was renewed");
        guard.release().await.unwrap();
    });
}

/// The lease is due for renewal as soon as it is there.
#[test]
fn a_body_that_hogs_its_thread_at_once_does_not_hold_up_a_renewal_that_is_due() {
    let here = runtime(4);
    let manager = LockManager::builder().ttl(TTL).response_timeout(TTL);
    let slow = Slow {
        grant: TTL / 2,
        ..Slow::default()
    };
    let manager = manager.build_with_store(slow).unwrap();
    here.block_on(async {
        let body = manager.lock("k").run(async |_| std::thread::sleep(TTL));
        let outcome = timeout(DEADLINE, tokio::spawn(body)).await.unwrap();
        outcome.unwrap().expect("it was renewed meanwhile");
    });
}

#[test]
fn a_release_does_not_wait_for_a_runtime_that_nobody_runs() {
    const LEASE: Duration = Duration::from_secs(60);

    let (home, here) = (runtime(1), idle_runtime());
    let store = MemoryStore::new();
    let manager = manager(&home, store.clone());
    let lock = manager.lock("k").ttl(LEASE);
    let guard = here.block_on(lock.acquire()).unwrap();
    drop(guard);
    home.block_on(async {
        // Long before the lease has ended by itself.
        eventually(LEASE / 3, "the release to be done", async || {
            manager.active_keys() == 0
        })
        .await;
    });
    assert!(store.is_empty());
}

/// It counts as unanswered; if it counted as under way for ever, no other would be sent.
#[test]
fn a_renewal_that_dies_with_its_runtime_is_repeated_on_another() {
    const TTL: Duration = Duration::from_secs(5);

    let (home, here) = (runtime(1), runtime(2));
    let store = Slow {
        deaf_renewals: Arc::new(AtomicUsize::new(1)),
        ..Slow::default()
    };
    // Renewals are sent from where the manager was made.
    let manager = manager(&home, store.clone());
    here.block_on(async {
        let guard = manager.lock("k").ttl(TTL).acquire().await.unwrap();
        eventually(DEADLINE, "a renewal is under way", async || {
            store.deaf_renewals.load(Ordering::Relaxed) == 0
        })
        .await;
        tokio::task::spawn_blocking(move || drop(home))
            .await
            .unwrap();
        // The first is sent when less than this is left.
        let renewed = eventually(DEADLINE, "the lease is renewed", async || {
            guard.remaining() > TTL * 2 / 3
        });
        guard
            .run_while_held(renewed)
            .await
            .expect("it was renewed in time");
        guard.release().await.unwrap();
    });
    assert!(store.store.is_empty());
}

#[test]
fn a_release_goes_on_where_the_manager_is_when_the_callers_runtime_has_ended() {
    let home = runtime(1);
    let permits = Arc::new(Semaphore::new(0));
    let store = Slow {
        permits: Some(permits.clone()),
        ..Slow::default()
    };
    let manager = manager(&home, store.clone());
    let here = runtime(1);
    // The release is begun there, and has to wait.
    here.block_on(async { drop(manager.lock("k").acquire().await.unwrap()) });
    drop(here);
    assert_eq!(manager.active_keys(), 1, "it is still being released");
    permits.add_permits(2);
    home.block_on(async {
        eventually(DEADLINE, "the release to be done", async || {
            manager.active_keys() == 0
        })
        .await;
    });
    assert!(store.store.is_empty());
}

#[test]
fn without_any_runtime_the_ttl_has_to_do_and_nothing_stays_here() {
    let here = runtime(1);
    let store = Slow::default();
    let manager = manager(&here, store.clone());
    // Not so short that it could be over before the test has looked.
    let lock = manager.lock("k").ttl(DEADLINE);
    let guard = here.block_on(lock.acquire()).unwrap();
    drop(here);
    drop(guard);
    assert_eq!(manager.active_keys(), 0);
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
            manager.active_keys() == 0
        })
        .await;
    });
}

#[test]
fn whoever_is_woken_by_the_end_may_look_at_the_manager() {
    struct Looks(LockManager);
    impl Wake for Looks {
        fn wake(self: Arc<Self>) {
            assert_eq!(self.0.active_keys(), 0);
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
