//! Bodies that are held up, leave something behind, or hold something themselves when their lease ends.

use std::{
    future::poll_fn,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use dlock::{
    FencingToken, LockManager, LostCause,
    store::{
        AcquireOutcome, AcquireRequest, LockStore, ReleaseRequest, Released, RenewBatch, Renewal,
        StoreError, StoreProperties, memory::MemoryStore, renew_each,
    },
};
use tokio::{sync::Notify, task::yield_now, time::advance};

use crate::common::{LIMIT, TestClock, is_lost, soon};
use crate::lifecycle::{TTL, assert_clean, hold, memory, one_thread, threads};

/// B15. Without a thread for renewals nobody can renew meanwhile, and nobody can stop it: it ends at its next await, and
/// may ask before.
#[test]
fn a_body_that_hogs_the_only_thread_past_its_lease_ends_at_its_next_await() {
    one_thread().block_on(async {
        let store = MemoryStore::new();
        let builder = LockManager::builder().renewal_thread(false);
        let manager = builder.build_with_store(store.clone()).unwrap();
        let ttl = Duration::from_millis(200);
        let (asked, went_on) = (AtomicBool::new(false), AtomicBool::new(false));
        let body = manager.lock("order:42").ttl(ttl).run(async |lease| {
            thread::sleep(2 * ttl);
            asked.store(lease.ensure_held().is_err(), Ordering::Relaxed);
            yield_now().await;
            went_on.store(true, Ordering::Relaxed);
        });
        let outcome = soon(body).await;
        assert!(
            is_lost(&outcome, |cause| *cause == LostCause::Expired),
            "{outcome:?}"
        );
        assert!(
            asked.load(Ordering::Relaxed) && !went_on.load(Ordering::Relaxed),
            "broken promise: a lease is believed beyond its end"
        );
        assert_clean(&store, &manager).await;
    });
}

/// The lease is handed over by a release, after which the same task blocks its thread. The waiter runs on another.
#[test]
fn a_waiter_enters_while_the_task_before_it_blocks_its_thread() {
    threads(2).block_on(async {
        let (store, manager) = memory();
        let guard = hold(&manager, "order:42").await;
        let (entered, has_entered) = mpsc::channel();
        let body = async move |_: &dlock::Lease| entered.send(()).unwrap();
        let mut next = Box::pin(manager.lock("order:42").run(body));
        let waits = Arc::new(Notify::new());
        let told = waits.clone();
        let next = tokio::spawn(poll_fn(move |context| {
            let outcome = next.as_mut().poll(context);
            if outcome.is_pending() {
                told.notify_one();
            }
            outcome
        }));
        soon(waits.notified()).await;
        let blocked = tokio::spawn(async move {
            guard.release().await.unwrap();
            has_entered.recv_timeout(LIMIT)
        });
        assert_eq!(blocked.await.unwrap(), Ok(()));
        soon(next).await.unwrap().unwrap();
        assert_clean(&store, &manager).await;
    });
}

/// The release is a task of its own, which another thread of the runtime has to take.
#[test]
fn a_guard_that_is_dropped_is_released_while_its_task_blocks_its_thread() {
    threads(2).block_on(async {
        let (store, manager) = memory();
        let guard = hold(&manager, "order:42").await;
        let seen = store.clone();
        let blocked = tokio::spawn(async move {
            drop(guard);
            let since = std::time::Instant::now();
            while !seen.is_empty() && since.elapsed() < LIMIT {
                thread::sleep(Duration::from_millis(5));
            }
            seen.is_empty()
        });
        assert!(blocked.await.unwrap());
        assert_clean(&store, &manager).await;
    });
}

/// Something outside that takes a write only with a greater token than the last.
#[derive(Default)]
struct Resource(Mutex<Option<FencingToken>>);

impl Resource {
    fn write(&self, token: FencingToken) -> bool {
        let mut last = self.0.lock().unwrap();
        let is_newer = last.is_none_or(|last| token >= last);
        if is_newer {
            *last = Some(token);
        }
        is_newer
    }
}

/// B16. What a body spawns is not stopped with it, and what it writes later is refused.
#[tokio::test]
async fn what_a_body_has_spawned_outlives_the_lock_and_is_refused_by_its_token() {
    let (store, manager) = memory();
    let (resource, go_on) = (Arc::new(Resource::default()), Arc::new(Notify::new()));
    let mut spawned = None;
    let body = manager.lock("order:42").run(async |lease| {
        let (resource, go_on) = (resource.clone(), go_on.clone());
        let token = lease.fencing_token();
        assert!(
            resource.write(token),
            "broken promise: the resource refused a holder"
        );
        spawned = Some(tokio::spawn(async move {
            go_on.notified().await;
            resource.write(token)
        }));
    });
    soon(body).await.unwrap();
    let next = hold(&manager, "order:42").await;
    assert!(
        resource.write(next.fencing_token()),
        "broken promise: the resource refused a holder"
    );
    go_on.notify_one();
    let written = soon(spawned.expect("the body has run")).await;
    assert!(
        !written.unwrap(),
        "broken promise: a late write was accepted"
    );
    next.release().await.unwrap();
    assert_clean(&store, &manager).await;
}

/// B17. It is dropped at its await as any future is: a mutex is unlocked and not poisoned, what it was
/// writing is dropped.
#[tokio::test(start_paused = true)]
#[expect(clippy::await_holding_lock, reason = "that is the question here")]
async fn a_body_that_is_cancelled_gives_back_what_it_holds_itself() {
    struct Writes(Arc<AtomicBool>);
    impl Drop for Writes {
        fn drop(&mut self) {
            assert!(!thread::panicking());
            self.0.store(true, Ordering::Relaxed);
        }
    }

    let (store, manager) = memory();
    let (mutex, dropped) = (Mutex::new(0), Arc::new(AtomicBool::new(false)));
    let body = manager.lock("order:42").ttl(TTL).run(async |_| {
        let _writes = Writes(dropped.clone());
        let mut number = mutex.lock().unwrap();
        *number += 1;
        store.forget();
        std::future::pending::<()>().await;
    });
    let outcome = soon(body).await;
    assert!(
        is_lost(&outcome, |cause| *cause == LostCause::Revoked),
        "{outcome:?}"
    );
    assert!(dropped.load(Ordering::Relaxed));
    assert_eq!(*mutex.try_lock().unwrap(), 1);
    assert_clean(&store, &manager).await;
}

/// B9. Neither waits for the other, and nothing is dropped where that is not allowed.
#[test]
fn a_runtime_that_is_shut_down_within_another_leaves_nothing() {
    for inner in [one_thread as fn() -> _, || threads(2)] {
        let outer = threads(2);
        outer.block_on(async {
            let (store, manager) = memory();
            let inner = inner();
            let mut tasks = Vec::new();
            for number in 0..10 {
                let lock = manager.lock(format!("order:{}", number % 5));
                tasks.push(inner.spawn(lock.run(async |_| std::future::pending::<()>().await)));
            }
            let kept = hold(&manager, "kept").await;
            inner.shutdown_background();
            for task in tasks {
                assert!(soon(task).await.unwrap_err().is_cancelled());
            }
            for number in 0..5 {
                let guard = hold(&manager, &format!("order:{number}")).await;
                guard.release().await.unwrap();
            }
            kept.ensure_held().unwrap();
            kept.release().await.unwrap();
            assert_clean(&store, &manager).await;
        });
    }
}

/// A store whose clock goes too fast by a hundredth.
struct Fast(MemoryStore);

impl LockStore for Fast {
    async fn acquire(&self, request: AcquireRequest<'_>) -> Result<AcquireOutcome, StoreError> {
        let ttl = request.ttl / 100 * 99;
        self.0.acquire(request.ttl(ttl)).await
    }

    async fn renew(&self, batch: RenewBatch<'_>) -> Vec<Result<Renewal, StoreError>> {
        renew_each(batch, |request| {
            let ttl = request.ttl / 100 * 99;
            self.0.renew_one(request.ttl(ttl))
        })
        .await
    }

    fn properties(&self) -> StoreProperties<'_> {
        StoreProperties::new().grants(true)
    }

    async fn release(&self, request: ReleaseRequest<'_>) -> Result<Released, StoreError> {
        self.0.release(request).await
    }
}

/// C14. The lease is not believed for longer than the store keeps it, however long it is.
#[tokio::test(start_paused = true)]
async fn a_store_whose_clock_is_fast_by_a_hundredth_lets_nobody_believe_a_lease_too_long() {
    const DAY: Duration = Duration::from_secs(24 * 3600);

    for ttl in [Duration::from_secs(1), TTL, Duration::from_secs(3600), DAY] {
        let store = MemoryStore::new();
        let builder = LockManager::builder().clock(TestClock::new());
        let manager = builder.build_with_store(Fast(store.clone())).unwrap();
        let lock = manager.lock("order:42").ttl(ttl).renew(false);
        let guard = lock.acquire().await.unwrap();
        // As near to the end as it is worth a look.
        advance(ttl / 100 * 98).await;
        guard.ensure_held().expect("there is nothing to fear yet");
        let mut looks = 0;
        while !guard.is_lost() {
            assert_eq!(store.len(), 1, "it ended before for the store, of {ttl:?}");
            advance(ttl / 2000).await;
            looks += 1;
        }
        assert!(looks > 5, "{looks}");
        drop(guard);
        assert_clean(&store, &manager).await;
    }
}
