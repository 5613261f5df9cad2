//! Locks for threads: without a runtime, beside one, and where a thread must not be blocked.

mod attribute;
mod ends;
mod pool;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use dlock::{
    ConnectError, LockError, LockManager, LostCause, ShutdownReport, StoreError, Wait,
    blocking::BlockingManager,
    store::{
        AcquireOutcome, AcquireRequest, LockStore, ReleaseRequest, Released, RenewBatch, Renewal,
        StoreProperties, memory::MemoryStore,
    },
};
use tokio::{runtime::Builder, task::block_in_place};

/// Long enough for a machine that stands still.
const LIMIT: Duration = Duration::from_secs(60);

/// A TTL whose renewals do not take long to come.
const TTL: Duration = Duration::from_secs(3);

fn memory() -> (MemoryStore, BlockingManager) {
    let store = MemoryStore::new();
    let manager = LockManager::builder().build_with_store(store.clone());
    (store, manager.unwrap().blocking())
}

/// Blocks until `is_so`.
#[track_caller]
fn until(is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < LIMIT, "it never comes");
        thread::sleep(Duration::from_millis(2));
    }
}

/// A store that counts renewals.
#[derive(Clone, Default)]
struct Counted {
    store: MemoryStore,
    renewals: Arc<AtomicUsize>,
}

impl LockStore for Counted {
    async fn acquire(&self, request: AcquireRequest<'_>) -> Result<AcquireOutcome, StoreError> {
        self.store.acquire(request).await
    }

    async fn renew(&self, batch: RenewBatch<'_>) -> Vec<Result<Renewal, StoreError>> {
        let answers = self.store.renew(batch).await;
        self.renewals.fetch_add(1, Ordering::SeqCst);
        answers
    }

    async fn release(&self, request: ReleaseRequest<'_>) -> Result<Released, StoreError> {
        self.store.release(request).await
    }

    fn properties(&self) -> StoreProperties<'_> {
        self.store.properties()
    }
}

#[test]
fn one_thread_at_a_time_is_in_a_section() {
    let (store, locks) = memory();
    let inside = AtomicBool::new(false);
    let count = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..25 {
                    let lock = locks.lock("stock:42").wait(LIMIT);
                    let section = lock.run(|lease| {
                        assert!(
                            !inside.swap(true, Ordering::SeqCst),
                            "broken promise: another one is inside"
                        );
                        assert!(lease.ensure_held().is_ok());
                        let seen = count.load(Ordering::SeqCst);
                        thread::yield_now();
                        count.store(seen + 1, Ordering::SeqCst);
                        inside.store(false, Ordering::SeqCst);
                    });
                    section.unwrap();
                }
            });
        }
    });
    assert_eq!(
        count.into_inner(),
        100,
        "broken promise: an update was lost"
    );
    assert!(store.is_empty());
}

#[test]
fn threads_and_tasks_exclude_each_other() {
    let (_, locks) = memory();
    let runtime = Builder::new_multi_thread().enable_all().build().unwrap();
    let held = locks.lock("order:42").acquire().unwrap();
    let manager = locks.manager().clone();
    let refused = runtime.block_on(manager.lock("order:42").wait(Wait::Never).acquire());
    assert!(refused.unwrap_err().is_busy());
    let waiting =
        runtime.spawn(async move { manager.lock("order:42").wait(LIMIT).acquire().await });
    until(|| locks.manager().active_keys() == 1);
    let token = held.fencing_token();
    held.release().unwrap();
    let guard = runtime.block_on(waiting).unwrap().unwrap();
    assert!(
        guard.fencing_token() > token,
        "broken promise: the token did not grow"
    );
    assert!(
        locks.lock("order:42").try_acquire().unwrap().is_none(),
        "broken promise: two hold the key"
    );
    runtime.block_on(guard.release()).unwrap();
    assert!(locks.lock("order:42").try_acquire().unwrap().is_some());
}

#[test]
fn a_guard_that_is_dropped_has_given_its_lock_back() {
    let (store, locks) = memory();
    drop(locks.lock("order:42").acquire().unwrap());
    assert!(store.is_empty(), "without a wait");
    assert_eq!(locks.manager().active_keys(), 0);
}

#[test]
fn a_panic_gives_the_lock_back_before_it_goes_on() {
    let (store, locks) = memory();
    let body = || locks.lock("order:42").run(|_| panic!("on purpose"));
    let panicked = catch_unwind(AssertUnwindSafe(body)).unwrap_err();
    assert_eq!(panicked.downcast_ref(), Some(&"on purpose"));
    assert!(store.is_empty());
    locks.lock("order:42").run(|_| ()).unwrap();
}

#[test]
fn a_thread_that_blocks_keeps_its_lock() {
    let store = Counted::default();
    let manager = LockManager::builder()
        .ttl(TTL)
        .build_with_store(store.clone())
        .unwrap();
    let kept = manager.blocking().lock("order:42").run(|lease| {
        // In place of anything that awaits nothing.
        until(|| store.renewals.load(Ordering::SeqCst) >= 2);
        lease.ensure_held()
    });
    kept.unwrap().unwrap();
}

#[test]
fn nested_calls_of_a_thread_are_refused_and_those_of_others_wait() {
    let (_, locks) = memory();
    let nested = |key: &str| locks.lock(key).wait(Wait::Never).acquire();
    let outer = locks.lock_all(["order:42", "order:7"]).run(|_| {
        for key in ["order:42", "order:7"] {
            assert!(matches!(nested(key), Err(LockError::WouldDeadlock { .. })));
            let elsewhere = thread::scope(|scope| scope.spawn(|| nested(key)).join().unwrap());
            assert!(elsewhere.unwrap_err().is_busy());
        }
        nested("order:1").unwrap().release()
    });
    outer.unwrap().unwrap();
    nested("order:42").unwrap().release().unwrap();
}

#[test]
fn a_task_that_a_section_drives_is_part_of_it() {
    let (_, locks) = memory();
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let section = locks.lock("order:42").run(|_| {
        let inner = locks.manager().lock("order:42").wait(Wait::Forever);
        runtime.block_on(inner.acquire())
    });
    assert!(matches!(
        section.unwrap(),
        Err(LockError::WouldDeadlock { .. })
    ));
}

#[test]
fn a_body_ends_although_its_lease_is_lost_and_the_call_says_so() {
    let (_, locks) = memory();
    let ended = AtomicBool::new(false);
    // The body begins before it is over, also on a machine that stands still for a second.
    let lock = locks.lock("order:42").max_hold(Duration::from_secs(2));
    let lost = lock.run(|lease| {
        until(|| lease.is_lost());
        assert!(matches!(lease.ensure_held(), Err(LockError::Lost { .. })));
        ended.store(true, Ordering::SeqCst);
    });
    let cause = match lost {
        Err(LockError::Lost { cause, .. }) => cause,
        other => panic!("{other:?}"),
    };
    assert_eq!(cause, LostCause::MaxHold);
    assert!(ended.into_inner());
}

#[test]
fn a_lease_that_was_gone_before_its_release_was_lost() {
    let (store, locks) = memory();
    let lost = locks.lock("order:42").run(|_| store.forget());
    assert!(
        matches!(
            lost,
            Err(LockError::Lost {
                cause: LostCause::Revoked,
                ..
            })
        ),
        "{lost:?}"
    );
}

#[test]
fn a_body_does_not_begin_without_its_lease() {
    let (_, locks) = memory();
    let lock = locks.lock("order:42").max_hold(Duration::from_millis(20));
    let guard = lock.acquire().unwrap();
    until(|| guard.is_lost());
    let lost = guard.run(|| panic!("it must not run"));
    assert!(matches!(lost, Err(LockError::Lost { .. })), "{lost:?}");
}

#[test]
fn a_min_hold_keeps_others_out_after_the_section() {
    let (_, locks) = memory();
    let job = || locks.lock("nightly").min_hold(LIMIT);
    job().run(|_| ()).unwrap();
    assert!(
        job().try_acquire().unwrap().is_none(),
        "broken promise: two hold the key"
    );
}

#[test]
fn failures_of_a_body_and_of_its_lock_are_one() {
    #[derive(Debug)]
    enum Failed {
        Lock(LockError),
        Body,
    }

    impl From<LockError> for Failed {
        fn from(error: LockError) -> Self {
            Self::Lock(error)
        }
    }

    let (_, locks) = memory();
    let lock = || locks.lock("order:42").wait(Wait::Never);
    assert_eq!(lock().try_run(|_| Ok::<_, Failed>(7)).unwrap(), 7);
    let failed = lock().try_run(|_| Err::<(), _>(Failed::Body));
    assert!(matches!(failed, Err(Failed::Body)), "{failed:?}");
    let _held = lock().acquire().unwrap();
    let failed = thread::scope(|scope| {
        let asked = scope.spawn(|| lock().try_run(|_| Ok::<_, Failed>(())));
        asked.join().unwrap()
    });
    assert!(
        matches!(&failed, Err(Failed::Lock(error)) if error.is_busy()),
        "{failed:?}"
    );
}

#[test]
fn inside_of_a_task_nothing_blocks() {
    let (store, locks) = memory();
    for mut builder in [Builder::new_current_thread(), Builder::new_multi_thread()] {
        let runtime = builder.enable_all().build().unwrap();
        runtime.block_on(async {
            let error = locks.lock("order:42").acquire().unwrap_err();
            assert!(matches!(error, LockError::WouldBlock { .. }), "{error}");
            let text = error.to_string();
            assert!(text.contains("`order:42`") && text.contains("spawn_blocking"));
            assert_eq!(error.retry_after(), None);
            let error = LockManager::connect_blocking("memory://").unwrap_err();
            assert!(matches!(error, ConnectError::WouldBlock { .. }), "{error}");
            assert!(error.to_string().contains("call `connect`"), "{error}");
            // A key that is none is the caller's first mistake.
            let error = locks.lock("").acquire().unwrap_err();
            assert!(matches!(error, LockError::InvalidKey { .. }), "{error}");
        });
        let inside = locks.clone();
        let ran = runtime.spawn_blocking(move || inside.lock("order:42").run(|_| ()));
        runtime.block_on(ran).unwrap().unwrap();
    }
    assert!(store.is_empty());
}

#[test]
fn a_worker_that_has_let_go_of_its_tasks_may_take_a_lock() {
    let (store, locks) = memory();
    let runtime = Builder::new_multi_thread().enable_all().build().unwrap();
    let ran = runtime.spawn(async move { block_in_place(|| locks.lock("order:42").run(|_| 7)) });
    assert_eq!(runtime.block_on(ran).unwrap().unwrap(), 7);
    assert!(store.is_empty());
}

#[test]
fn a_manager_can_be_made_and_ended_without_a_runtime() {
    let manager = LockManager::builder()
        .application("import")
        .connect_blocking("memory://")
        .unwrap();
    let locks = manager.blocking();
    locks.lock("order:42").run(|_| ()).unwrap();
    assert_eq!(locks.shutdown(LIMIT), ShutdownReport::default());
    let refused = locks.lock("order:42").acquire();
    assert!(matches!(refused, Err(LockError::Closed { .. })));
    assert!(matches!(
        LockManager::connect_blocking("mysql://host"),
        Err(ConnectError::InvalidUrl { .. })
    ));
}

#[test]
fn a_shutdown_takes_the_lease_of_a_thread_that_goes_on() {
    let (_, locks) = memory();
    let held = AtomicBool::new(false);
    thread::scope(|scope| {
        let section = scope.spawn(|| {
            locks.lock("order:42").run(|lease| {
                held.store(true, Ordering::SeqCst);
                until(|| lease.is_lost());
            })
        });
        until(|| held.load(Ordering::SeqCst));
        assert_eq!(locks.shutdown(Duration::from_millis(10)).cut_short, 1);
        let lost = section.join().unwrap();
        assert!(
            matches!(
                lost,
                Err(LockError::Lost {
                    cause: LostCause::ShutDown,
                    ..
                })
            ),
            "{lost:?}"
        );
    });
}

#[test]
#[should_panic(expected = "await `LockManager::shutdown`")]
fn a_shutdown_inside_of_a_task_is_a_mistake() {
    let (_, locks) = memory();
    let runtime = Builder::new_current_thread().build().unwrap();
    runtime.block_on(async { locks.shutdown(LIMIT) });
}
