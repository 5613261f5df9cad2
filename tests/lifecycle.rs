//! Where and how long locks live: runtimes, threads and clocks, panics, shutdown, and what is
//! left when nothing is held any more.
#![allow(
    clippy::unwrap_used,
    reason = "a test that fails there has said what it has to say"
)]

mod common;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use dlock::{
    AlreadyInstalled, LockError, LockGuard, LockManager, LostCause, Shutdown, Wait,
    distributed_lock, store::memory::MemoryStore, with_manager,
};
use dlock_testkit::eventually;
use tokio::{
    runtime::{self, Handle, Runtime},
    sync::{Notify, oneshot},
    task::{JoinSet, yield_now},
    time::{Instant, sleep},
};

use common::{Env, Fate, Kind, LIMIT, Memory, OneKey, TestClock, Wire, assert_idle, is_lost, soon};

const TTL: Duration = Duration::from_secs(30);

fn one_thread() -> Runtime {
    runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}

fn threads(count: usize) -> Runtime {
    runtime::Builder::new_multi_thread()
        .worker_threads(count)
        .enable_all()
        .build()
        .unwrap()
}

/// A store and a manager over it, made where this is called.
fn memory() -> (MemoryStore, LockManager) {
    let store = MemoryStore::new();
    let manager = LockManager::builder().store(store.clone()).unwrap();
    (store, manager)
}

async fn hold(manager: &LockManager, key: &str) -> LockGuard {
    soon(manager.lock(key).acquire()).await.unwrap()
}

async fn assert_clean(store: &MemoryStore, manager: &LockManager) {
    assert_idle(&[manager]).await;
    assert!(store.is_empty(), "{} locks are left", store.len());
}

mod guards {
    use super::*;

    /// B6.
    #[test]
    fn one_dropped_outside_any_runtime_is_released() {
        for runtime in [one_thread(), threads(2)] {
            let (store, manager) = memory();
            let guard = runtime.block_on(hold(&manager, "order:42"));
            drop(guard);
            runtime.block_on(assert_clean(&store, &manager));
        }
    }

    /// B6: on a thread that never heard of tokio.
    #[test]
    fn one_dropped_on_a_foreign_thread_is_released() {
        let runtime = threads(1);
        let (store, manager) = memory();
        let guard = runtime.block_on(hold(&manager, "order:42"));
        thread::spawn(move || drop(guard)).join().unwrap();
        runtime.block_on(assert_clean(&store, &manager));
    }

    /// B7.
    #[test]
    fn one_dropped_on_another_runtime_is_released() {
        let (first, second) = (threads(1), one_thread());
        let (store, manager) = memory();
        let guard = first.block_on(hold(&manager, "order:42"));
        second.block_on(async { drop(guard) });
        first.block_on(assert_clean(&store, &manager));
    }

    /// B7: what outlives the runtime that acquired is released by the next that lives.
    #[test]
    fn one_that_outlives_its_runtime_is_released_on_another() {
        let (first, second) = (threads(1), one_thread());
        let (store, manager) = memory();
        let guard = first.block_on(hold(&manager, "order:42"));
        drop(first);
        second.block_on(async {
            drop(guard);
            assert_clean(&store, &manager).await;
        });
    }

    #[test]
    fn one_that_outlives_its_runtime_is_released_where_the_manager_was_made() {
        let (home, other) = (threads(1), one_thread());
        let (store, manager) = home.block_on(async { memory() });
        let guard = other.block_on(hold(&manager, "order:42"));
        drop(other);
        drop(guard);
        home.block_on(assert_clean(&store, &manager));
    }

    /// B8: nobody is left to release, so the TTL has to do; but nothing panics and nothing hangs.
    #[test]
    fn one_that_outlives_all_runtimes_is_left_to_its_ttl() {
        for runtime in [one_thread(), threads(2)] {
            let (store, manager) = memory();
            let guard = runtime.block_on(hold(&manager, "order:42"));
            drop(runtime);
            drop(guard);
            assert_eq!(manager.active(), 0, "this process has given it up");
            assert_eq!(store.len(), 1, "the store keeps it, as it was told");
        }
    }

    /// The release is under way when its runtime ends, and another one could repeat it.
    #[test]
    fn a_release_that_dies_with_its_runtime_is_repeated_on_another() {
        let (home, other) = (threads(1), one_thread());
        let (store, wire, manager) = home.block_on(async {
            let store = MemoryStore::new();
            let wire = Wire::new(store.clone());
            let manager = LockManager::builder().store(wire.clone()).unwrap();
            (store, wire, manager)
        });
        wire.next(Kind::Release, Fate::Swallowed);
        other.block_on(async {
            drop(hold(&manager, "order:42").await);
            wire.until_sent(Kind::Release, 1).await;
        });
        drop(other);
        home.block_on(assert_clean(&store, &manager));
    }

    /// B8: a runtime that shuts down drops its tasks, with the guards in them.
    #[test]
    fn those_in_the_tasks_of_a_dying_runtime_do_no_harm() {
        for runtime in [one_thread(), threads(2)] {
            let (_store, manager) = memory();
            for key in 0..20 {
                let lock = manager.lock(format!("order:{key}"));
                runtime.spawn(lock.run(async |_| std::future::pending::<()>().await));
                let waiter = manager.lock(format!("order:{key}")).wait(Wait::Forever);
                runtime.spawn(waiter.acquire());
            }
            runtime.block_on(eventually(LIMIT, "they hold and wait", async || {
                manager.active() == 20
            }));
            drop(runtime);
            assert_eq!(manager.active(), 0);
        }
    }

    /// A manager serves the runtimes of its process one after the other.
    #[test]
    fn a_manager_outlives_the_runtime_that_kept_its_leases() {
        let (first, second) = (one_thread(), one_thread());
        let (store, manager) = memory();
        let guard = first.block_on(hold(&manager, "order:1"));
        drop(first);
        second.block_on(async {
            drop(guard);
            let ttl = Duration::from_millis(1500);
            let body = manager.lock("order:2").ttl(ttl).run(async |lease| {
                let since = Instant::now();
                let confirmed = since.elapsed() + lease.remaining();
                eventually(LIMIT, "it is renewed", async || {
                    since.elapsed() + lease.remaining() > confirmed + ttl / 4
                })
                .await;
            });
            soon(body).await.unwrap();
            assert_clean(&store, &manager).await;
        });
    }

    /// B14.
    #[tokio::test(start_paused = true)]
    async fn one_that_was_forgotten_ends_with_max_hold() {
        let (store, manager) = memory();
        let limit = Duration::from_secs(3600);
        let lock = manager.lock("order:42").ttl(TTL).max_hold(limit);
        let since = Instant::now();
        std::mem::forget(lock.acquire().await.unwrap());
        let next = manager.lock("order:42").wait(Wait::Forever);
        let next = next.acquire().await.unwrap();
        assert!(since.elapsed() + TTL >= limit, "it was renewed so long");
        assert!(since.elapsed() <= limit + TTL, "and no longer");
        next.release().await.unwrap();
        assert!(store.is_empty());
    }
}

mod panics {
    use super::*;

    /// B10.
    #[tokio::test]
    async fn a_body_that_panics_gives_the_lock_back() {
        let (store, manager) = memory();
        let lock = manager.lock("order:42");
        let body = lock.run(async |_| {
            yield_now().await;
            panic!("on purpose");
        });
        let outcome: Result<Result<(), _>, _> = soon(tokio::spawn(body)).await;
        let panic = outcome.unwrap_err().into_panic();
        assert_eq!(
            panic.downcast_ref(),
            Some(&"on purpose"),
            "the caller's own"
        );
        hold(&manager, "order:42").await.release().await.unwrap();
        assert_clean(&store, &manager).await;
    }

    #[tokio::test]
    async fn a_locked_function_that_panics_gives_the_lock_back() {
        #[distributed_lock(key = "order:<id>", manager = locks)]
        async fn settle(locks: LockManager, id: u32) -> Result<(), LockError> {
            panic!("on purpose");
        }

        let (store, manager) = memory();
        assert!(
            soon(tokio::spawn(settle(manager.clone(), 42)))
                .await
                .is_err()
        );
        assert_clean(&store, &manager).await;
    }

    /// B12: a guard that is dropped while unwinding, outside of any runtime.
    #[test]
    fn a_guard_dropped_while_unwinding_is_released() {
        let runtime = threads(1);
        let (store, manager) = memory();
        let guard = runtime.block_on(hold(&manager, "order:42"));
        let unwound = catch_unwind(AssertUnwindSafe(|| {
            let _guard = guard;
            panic!("on purpose");
        }));
        assert!(unwound.is_err());
        runtime.block_on(assert_clean(&store, &manager));
    }

    /// The thread that unwound knows nothing of the key any more.
    #[tokio::test]
    async fn a_panic_is_not_taken_for_a_lock_that_is_held() {
        let (_store, manager) = memory();
        let lock = manager.lock("order:42");
        let body = lock.clone().run(async |_| panic!("on purpose"));
        let outcome: Result<Result<(), _>, _> = soon(tokio::spawn(body)).await;
        assert!(outcome.is_err());
        assert_eq!(soon(lock.run(async |_| 7)).await, Ok(7));
    }
}

mod shutdown {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn of_an_idle_manager_ends_at_once_and_refuses_what_comes() {
        let (store, manager) = memory();
        let before = Instant::now();
        assert_eq!(manager.shutdown(TTL).await, Shutdown::default());
        assert!(before.elapsed().is_zero());
        let started = AtomicBool::new(false);
        let body = manager
            .lock("order:42")
            .run(async |_| started.store(true, Ordering::Relaxed));
        let error = body.await.unwrap_err();
        assert!(matches!(error, LockError::Closed { .. }), "{error}");
        assert!(error.to_string().contains("`order:42`"), "{error}");
        assert_eq!(error.retry_after(), None);
        assert!(!started.load(Ordering::Relaxed));
        // A clone is the same manager, and a second time changes nothing.
        assert!(manager.clone().lock("order:7").try_acquire().await.is_err());
        assert_eq!(manager.shutdown(TTL).await, Shutdown::default());
        assert_clean(&store, &manager).await;
    }

    #[tokio::test(start_paused = true)]
    async fn refuses_waiters_at_once_and_waits_for_holders() {
        let (store, manager) = memory();
        let (finish, finished) = oneshot::channel();
        let body = manager
            .lock("order:42")
            .ttl(TTL)
            .run(async |_| finished.await);
        let body = tokio::spawn(body);
        eventually(LIMIT, "it is held", async || store.len() == 1).await;
        let other = LockManager::builder().store(store.clone()).unwrap();
        let waiters = [
            manager.lock("order:42"),
            manager.lock("order:42").wait(Wait::Forever),
        ];
        let waiters = waiters.map(|lock| tokio::spawn(lock.acquire()));
        let key = OneKey::new(store.clone(), "order:42");
        key.until_waiting(2).await;

        let before = Instant::now();
        let shutdown = tokio::spawn({
            let manager = manager.clone();
            async move { manager.shutdown(20 * TTL).await }
        });
        for waiter in waiters {
            let error = waiter.await.unwrap().unwrap_err();
            assert!(matches!(error, LockError::Closed { .. }), "{error}");
        }
        assert!(
            before.elapsed().is_zero(),
            "they did not wait for the holder"
        );
        // It is renewed meanwhile, or it would be lost.
        sleep(5 * TTL).await;
        assert!(!shutdown.is_finished());
        finish.send("done").unwrap();
        assert_eq!(body.await.unwrap(), Ok(Ok("done")));
        assert_eq!(shutdown.await.unwrap(), Shutdown::default());
        assert_eq!(before.elapsed(), 5 * TTL, "no longer than the holder took");
        assert_clean(&store, &manager).await;
        hold(&other, "order:42").await.release().await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn cuts_short_what_takes_too_long() {
        let (store, manager) = memory();
        let body = manager
            .lock("order:42")
            .run(async |_| std::future::pending::<()>().await);
        let body = tokio::spawn(body);
        let guard = hold(&manager, "order:7").await;
        eventually(LIMIT, "both are held", async || store.len() == 2).await;
        let before = Instant::now();
        let limit = Duration::from_secs(5);
        let (report, outcome) = tokio::join!(manager.shutdown(limit), async {
            let outcome = body.await.unwrap();
            assert_eq!(before.elapsed(), limit);
            assert!(guard.is_lost());
            let error = guard.release().await;
            assert!(
                is_lost(&error, |cause| *cause == LostCause::ShutDown),
                "{error:?}"
            );
            outcome
        });
        assert!(
            is_lost(&outcome, |cause| *cause == LostCause::ShutDown),
            "{outcome:?}"
        );
        let expected = Shutdown {
            cut_short: 2,
            unreleased: 0,
        };
        assert_eq!(report, expected);
        assert_clean(&store, &manager).await;
    }

    #[tokio::test(start_paused = true)]
    async fn reports_what_the_store_has_not_confirmed() {
        let store = MemoryStore::new();
        let wire = Wire::new(store.clone());
        let manager = LockManager::builder().store(wire.clone()).unwrap();
        let guard = hold(&manager, "order:42").await;
        wire.always(Kind::Release, Fate::Swallowed);
        drop(guard);
        let report = soon(manager.shutdown(Duration::from_secs(3))).await;
        assert_eq!(report.unreleased, 1);
        wire.heal();
        assert_idle(&[&manager]).await;
        assert!(store.is_empty());
    }

    /// The manager is closed by the first poll of the future.
    #[tokio::test(start_paused = true)]
    async fn given_up_leaves_the_holders_alone() {
        let (store, manager) = memory();
        let guard = hold(&manager, "order:42").await;
        let impatient = tokio::time::timeout(Duration::from_secs(1), manager.shutdown(TTL));
        assert!(impatient.await.is_err());
        sleep(2 * TTL).await;
        guard.ensure().expect("it goes on being renewed");
        assert!(manager.lock("order:7").acquire().await.is_err());
        guard.release().await.unwrap();
        assert_clean(&store, &manager).await;
    }
}

mod threads_and_runtimes {
    use super::*;

    /// A body that does not await until it has been renewed four times.
    async fn hog(manager: &LockManager, wire: &Wire<MemoryStore>) {
        let lock = manager.lock("order:42").ttl(Duration::from_millis(1500));
        let wire = wire.clone();
        let body = lock.run(async move |_| {
            let since = std::time::Instant::now();
            while wire.count(Kind::Renew) < 4 && since.elapsed() < LIMIT / 4 {
                thread::sleep(Duration::from_millis(5));
            }
            wire.count(Kind::Renew)
        });
        assert_eq!(soon(tokio::spawn(body)).await.unwrap(), Ok(4));
    }

    /// B15: on a runtime of several threads the lease is renewed by another one.
    #[test]
    fn a_body_that_hogs_its_thread_keeps_its_lease() {
        threads(2).block_on(async {
            let wire = Wire::new(MemoryStore::new());
            let manager = LockManager::builder().store(wire.clone()).unwrap();
            // Its renewal runs already.
            let other = hold(&manager, "order:7").await;
            hog(&manager, &wire).await;
            other.release().await.unwrap();
            assert_idle(&[&manager]).await;
        });
    }

    /// B15: also if it is the first, whose renewal was started from the thread that it hogs.
    #[test]
    fn the_first_body_of_all_that_hogs_its_thread_keeps_its_lease() {
        threads(2).block_on(async {
            let wire = Wire::new(MemoryStore::new());
            let manager = LockManager::builder().store(wire.clone()).unwrap();
            hog(&manager, &wire).await;
            assert_idle(&[&manager]).await;
        });
    }

    #[test]
    fn a_runtime_of_one_thread_renews_between_awaits() {
        let runtime = one_thread();
        runtime.block_on(async {
            let wire = Wire::new(MemoryStore::new());
            let manager = LockManager::builder().store(wire.clone()).unwrap();
            let lock = manager.lock("order:42").ttl(Duration::from_millis(1500));
            let body = lock.run(async |_| wire.until_sent(Kind::Renew, 3).await);
            soon(body).await.unwrap();
            assert_idle(&[&manager]).await;
        });
    }

    #[test]
    fn without_a_runtime_there_is_an_error_and_no_panic() {
        let (_store, manager) = memory();
        let mut acquiring = Box::pin(manager.lock("order:42").acquire());
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        let std::task::Poll::Ready(outcome) = acquiring.as_mut().poll(&mut context) else {
            panic!("it waits for a runtime");
        };
        let error = outcome.unwrap_err();
        assert!(matches!(error, LockError::Unavailable { .. }), "{error}");
        assert!(error.to_string().contains("tokio runtime"), "{error}");
        assert_eq!(manager.active(), 0);
    }
}

mod managers {
    use super::*;

    #[distributed_lock(key = "order:<id>", wait = never)]
    async fn settle(id: u32) -> Result<i64, LockError> {
        Ok(i64::from(id))
    }

    /// One test, since there is one installed manager in a process.
    #[tokio::test]
    async fn none_is_used_before_one_is_installed_and_only_one_can_be() {
        assert!(dlock::installed().is_none());
        let error = settle(42).await.unwrap_err();
        assert!(matches!(error, LockError::NotInstalled { .. }), "{error}");
        let text = error.to_string();
        assert!(
            text.contains("`order:42`") && text.contains("dlock::install"),
            "{text}"
        );
        // There is nothing to shut down.
        assert_eq!(dlock::shutdown(TTL).await, Shutdown::default());

        let (store, manager) = memory();
        dlock::install(manager.clone()).unwrap();
        assert!(matches!(
            dlock::install(LockManager::memory()),
            Err(AlreadyInstalled)
        ));
        assert!(AlreadyInstalled.to_string().contains("with_manager"));
        assert_eq!(settle(42).await, Ok(42));

        let guard = hold(&manager, "order:42").await;
        assert!(
            settle(42).await.unwrap_err().is_busy(),
            "the first one stays"
        );
        let tenant = LockManager::memory();
        assert_eq!(with_manager(tenant, settle(42)).await, Ok(42));
        guard.release().await.unwrap();

        dlock::shutdown(TTL).await;
        assert!(matches!(settle(42).await, Err(LockError::Closed { .. })));
        assert_clean(&store, &manager).await;
    }

    #[tokio::test]
    async fn the_innermost_one_in_scope_is_used() {
        let [outer, inner] = [LockManager::memory(), LockManager::memory()];
        let (held_outside, held_inside) =
            (hold(&outer, "order:1").await, hold(&inner, "order:2").await);
        with_manager(outer.clone(), async {
            assert!(settle(1).await.unwrap_err().is_busy());
            with_manager(inner.clone(), async {
                assert_eq!(settle(1).await, Ok(1));
                assert!(settle(2).await.unwrap_err().is_busy());
            })
            .await;
            assert!(settle(1).await.unwrap_err().is_busy(), "back outside");
            assert_eq!(settle(2).await, Ok(2));
        })
        .await;
        held_outside.release().await.unwrap();
        held_inside.release().await.unwrap();
    }
}

mod deadlocks {
    use super::*;

    /// H1.
    #[tokio::test(start_paused = true)]
    async fn of_a_task_with_itself_are_refused_at_once() {
        let (store, manager) = memory();
        let before = Instant::now();
        let outer = manager.lock("order:42").run(async |_| {
            let lock = manager.lock("order:42").wait(Wait::Forever);
            let error = lock.clone().run(async |_| ()).await.unwrap_err();
            assert!(matches!(error, LockError::WouldDeadlock { .. }), "{error}");
            let text = error.to_string();
            assert!(
                text.contains("`order:42`") && text.contains("Lease"),
                "{text}"
            );
            let deeper = manager.lock("order:7").run(async |_| lock.acquire().await);
            assert!(matches!(
                deeper.await,
                Ok(Err(LockError::WouldDeadlock { .. }))
            ));
            // Another key, or the same in another store, is no matter.
            manager.lock("order:1").run(async |_| ()).await.unwrap();
            LockManager::memory()
                .lock("order:42")
                .run(async |_| ())
                .await
                .unwrap();
        });
        outer.await.unwrap();
        assert!(before.elapsed().is_zero());
        assert_clean(&store, &manager).await;
    }

    #[tokio::test(start_paused = true)]
    async fn of_locked_functions_are_refused_too() {
        #[distributed_lock(key = "order:<id>", manager = locks)]
        async fn outer(locks: &LockManager, id: u32) -> Result<(), LockError> {
            inner(locks, id).await
        }

        #[distributed_lock(key = "order:<order>", manager = locks)]
        async fn inner(locks: &LockManager, order: u32) -> Result<(), LockError> {
            Ok(())
        }

        let (store, manager) = memory();
        let outcome = outer(&manager, 42).await;
        assert!(
            matches!(outcome, Err(LockError::WouldDeadlock { .. })),
            "{outcome:?}"
        );
        inner(&manager, 42).await.unwrap();
        assert_clean(&store, &manager).await;
    }

    /// H2.
    #[tokio::test(start_paused = true)]
    async fn are_not_seen_in_tasks_that_wait_their_turn() {
        let (store, manager) = memory();
        let (mut tasks, child) = (JoinSet::new(), manager.lock("order:42").wait(Wait::Forever));
        let parent = manager.lock("order:42").run(async |_| {
            tasks.spawn(child.run(async |_| "my turn"));
            sleep(Duration::from_secs(3)).await;
            assert!(tasks.try_join_next().is_none());
        });
        parent.await.unwrap();
        let child = tasks.join_next().await.expect("it is there");
        assert_eq!(child.unwrap(), Ok("my turn"));
        assert_clean(&store, &manager).await;
    }

    #[tokio::test(start_paused = true)]
    async fn are_not_seen_in_two_sections_that_one_task_joins() {
        let (store, manager) = memory();
        let section = || {
            manager.lock("order:42").run(async |_| {
                sleep(Duration::from_secs(1)).await;
            })
        };
        let (one, two) = tokio::join!(section(), section());
        assert_eq!((one, two), (Ok(()), Ok(())));
        assert_clean(&store, &manager).await;
    }
}

/// C4: a machine that was suspended. tokio's clock stood still, the store's went on.
mod suspended {
    use super::*;

    fn sleepy() -> (MemoryStore, TestClock, LockManager) {
        let (store, clock) = (MemoryStore::new(), TestClock::new());
        let builder = LockManager::builder().clock(clock.clone());
        let manager = builder.store(store.clone()).unwrap();
        (store, clock, manager)
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_is_lost_as_soon_as_somebody_looks() {
        let (_store, clock, manager) = sleepy();
        let guard = manager.lock("order:42").ttl(TTL).acquire().await.unwrap();
        clock.suspend(Duration::from_millis(29_999));
        guard.ensure().expect("a millisecond is left");
        assert_eq!(guard.remaining(), Duration::from_millis(1));
        clock.suspend(Duration::from_millis(1));
        assert!(guard.is_lost());
        assert!(is_lost(&guard.ensure(), |cause| *cause == LostCause::Expired));
        assert!(is_lost(&guard.release().await, |cause| *cause == LostCause::Expired));
        assert_idle(&[&manager]).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_waits_is_cancelled_within_a_second() {
        let (store, clock, manager) = sleepy();
        // Far from its next renewal and its deadline.
        let ttl = Duration::from_secs(3600);
        let asleep = Arc::new(Notify::new());
        let body = manager.lock("order:42").ttl(ttl).run(async |_| {
            clock.suspend(ttl);
            asleep.notify_one();
            std::future::pending::<()>().await;
        });
        let (outcome, woken) = tokio::join!(body, async {
            asleep.notified().await;
            Instant::now()
        });
        assert!(
            is_lost(&outcome, |cause| *cause == LostCause::Expired),
            "{outcome:?}"
        );
        assert!(
            woken.elapsed() <= Duration::from_millis(1100),
            "{:?}",
            woken.elapsed()
        );
        assert_clean(&store, &manager).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_short_sleep_brings_the_renewal_forward() {
        let store = MemoryStore::new();
        let (wire, clock) = (Wire::new(store.clone()), TestClock::new());
        let builder = LockManager::builder().clock(clock.clone());
        let manager = builder.store(wire.clone()).unwrap();
        let guard = manager.lock("order:42").ttl(TTL).acquire().await.unwrap();
        let since = Instant::now();
        clock.suspend(TTL / 2);
        wire.until_sent(Kind::Renew, 1).await;
        assert!(
            since.elapsed() <= Duration::from_millis(1100),
            "not after ten seconds"
        );
        guard.release().await.unwrap();
        assert_idle(&[&manager]).await;
    }

    /// C2: between the grant and the first poll of the body.
    #[tokio::test(start_paused = true)]
    async fn a_body_is_never_started_with_a_lease_that_has_ended() {
        let (store, clock, manager) = sleepy();
        for on_lost in [dlock::OnLost::Cancel, dlock::OnLost::Finish] {
            let lock = manager.lock("order:42").ttl(TTL).on_lost(on_lost);
            let guard = lock.acquire().await.unwrap();
            clock.suspend(TTL);
            let started = AtomicBool::new(false);
            let outcome = guard
                .watch(async { started.store(true, Ordering::Relaxed) })
                .await;
            assert!(
                is_lost(&outcome, |cause| *cause == LostCause::Expired),
                "{outcome:?}"
            );
            assert!(!started.load(Ordering::Relaxed));
            drop(guard);
            assert_clean(&store, &manager).await;
        }
    }

    /// A body that computes through the end of its lease is stopped at its next await.
    #[tokio::test(start_paused = true)]
    async fn a_body_that_was_held_up_does_not_go_on_after_its_next_await() {
        let (store, clock, manager) = sleepy();
        let reached = AtomicBool::new(false);
        let body = manager.lock("order:42").ttl(TTL).run(async |_| {
            clock.suspend(TTL);
            yield_now().await;
            reached.store(true, Ordering::Relaxed);
        });
        let outcome = body.await;
        assert!(
            is_lost(&outcome, |cause| *cause == LostCause::Expired),
            "{outcome:?}"
        );
        assert!(!reached.load(Ordering::Relaxed));
        assert_clean(&store, &manager).await;
    }
}

mod leftovers {
    use super::*;

    /// 10 of the promises: nothing grows with the number of keys seen.
    #[tokio::test(start_paused = true)]
    async fn of_twenty_thousand_keys_there_are_none() {
        let (store, manager) = memory();
        for key in 0..20_000 {
            let outcome = manager.lock(format!("order:{key}")).run(async |_| ()).await;
            outcome.unwrap();
            assert_eq!(manager.active(), 0);
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
            guard.ensure().unwrap();
            guard.release().await.unwrap();
        }
        eventually(LIMIT, "the keeper has ended", async || tasks() == 0).await;

        // And another one is there when it is needed.
        let guard = manager.lock("c").ttl(TTL).acquire().await.unwrap();
        sleep(2 * TTL).await;
        guard.ensure().unwrap();
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
            .store(store.clone())
            .unwrap();
        let guard = hold(&manager, "order:42").await;
        drop(manager);
        sleep(2 * TTL).await;
        guard.ensure().expect("a guard keeps its manager alive");
        drop(guard);
        eventually(LIMIT, "the manager is gone", async || {
            Arc::strong_count(&witness) == 1
        })
        .await;
        assert!(store.is_empty());
    }

    /// Random bits that belong to one manager.
    struct Witness(#[expect(dead_code, reason = "it is counted")] Arc<()>);

    impl dlock::Random for Witness {
        fn next_u64(&self) -> u64 {
            dlock::SystemRandom.next_u64()
        }
    }
}
