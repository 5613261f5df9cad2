//! Guards that end where tokio cannot wait: in destructors of threads, and in a runtime's own code.
//!
//! A panic in such a place aborts the process, and with it all tests.

use std::{
    cell::RefCell,
    future::{Future, pending},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::mpsc,
    thread,
    time::Duration,
};

use dlock::{Lease, LockError, LockManager, blocking::BlockingGuard};
use futures_util::future::join;
use tokio::{
    runtime::{Builder, Handle, Runtime},
    task::{unconstrained, yield_now},
    time::timeout,
};

use super::{LIMIT, memory, until};

thread_local! {
    static KEPT: RefCell<Vec<BlockingGuard>> = const { RefCell::new(Vec::new()) };
    static AT_END: RefCell<Option<AtEnd>> = const { RefCell::new(None) };
}

/// Runs a function when its thread ends.
struct AtEnd(Option<Box<dyn FnOnce()>>);

impl AtEnd {
    fn set(function: impl FnOnce() + 'static) {
        AT_END.set(Some(Self(Some(Box::new(function)))));
    }
}

impl Drop for AtEnd {
    fn drop(&mut self) {
        if let Some(function) = self.0.take() {
            function();
        }
    }
}

fn two_workers() -> Runtime {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().build().unwrap()
}

#[test]
fn a_guard_that_ends_inside_of_a_task_is_given_back_behind_it() {
    let (store, locks) = memory();
    let runtime = Builder::new_multi_thread().enable_all().build().unwrap();
    let [dropped, released] = [1, 2].map(|id| locks.lock(format!("order:{id}")).acquire().unwrap());
    runtime.block_on(async {
        drop(dropped);
        let refused = released.release();
        assert!(matches!(refused, Err(LockError::WouldBlock { .. })));
    });
    until(|| store.is_empty());
}

#[test]
fn a_guard_that_ends_with_its_thread_is_given_back() {
    let (store, locks) = memory();
    // A thread drops its values in the order of their first use.
    for is_known_before in [false, true] {
        let locks = locks.clone();
        let ends = thread::spawn(move || {
            let take =
                |key| KEPT.with_borrow_mut(|kept| kept.push(locks.lock(key).acquire().unwrap()));
            if is_known_before {
                locks.lock("order:1").run(|_| ()).unwrap();
            } else {
                KEPT.with_borrow(|_| ());
            }
            take("order:42");
            take("order:7");
        });
        ends.join().unwrap();
        until(|| store.is_empty());
    }
}

#[test]
fn a_guard_that_a_pool_thread_keeps_is_released_when_the_thread_ends() {
    let (store, locks) = memory();
    let runtime = two_workers();
    // Such a thread has a context of tokio before its first guard.
    let kept = runtime.spawn_blocking(move || {
        KEPT.with_borrow_mut(|kept| kept.push(locks.lock("order:42").acquire().unwrap()));
    });
    runtime.block_on(kept).unwrap();
    drop(runtime);
    until(|| store.is_empty());
}

#[test]
fn a_release_in_a_destructor_of_a_thread_returns_that_the_lease_was_lost() {
    // Once a runtime has paused its clock, tokio's clock needs a context in every thread.
    let mut paused = Builder::new_current_thread();
    drop(paused.enable_all().start_paused(true).build().unwrap());
    let (_, locks) = memory();
    let (sender, released) = mpsc::channel();
    let ends = thread::spawn(move || {
        // Used before tokio's context, so dropped after it.
        AT_END.set(None);
        let lock = locks.lock("order:42").max_hold(Duration::from_millis(20));
        let guard = lock.acquire().unwrap();
        until(|| guard.is_lost());
        AtEnd::set(move || sender.send(guard.release()).unwrap());
    });
    ends.join().unwrap();
    let released = released.recv().unwrap();
    assert!(
        matches!(released, Err(LockError::Lost { .. })),
        "{released:?}"
    );
}

#[test]
fn a_section_in_a_destructor_of_a_thread_runs_or_fails_with_an_error() {
    let (store, locks) = memory();
    for is_known_before in [false, true] {
        let (sender, ran) = mpsc::channel();
        let locks = locks.clone();
        let ends = thread::spawn(move || {
            if is_known_before {
                drop(Handle::try_current());
                drop(LockManager::connect_blocking("memory://").unwrap());
            }
            let in_destructor = locks.clone();
            AtEnd::set(move || {
                sender
                    .send(in_destructor.lock("order:42").run(|_| 7))
                    .unwrap();
            });
            locks.lock("order:42").run(|_| ()).unwrap();
        });
        ends.join().unwrap();
        match ran.recv().unwrap() {
            Ok(output) => assert_eq!(output, 7),
            Err(error) => assert!(matches!(error, LockError::Unavailable { .. }), "{error}"),
        }
        until(|| store.is_empty());
    }
}

/// Drops a guard by dropping or ending the future that `around` makes of one that has it.
fn assert_released<F: Future>(around: impl FnOnce(BlockingGuard) -> F) {
    let (store, locks) = memory();
    let runtime = two_workers();
    let guard = locks.lock("order:42").acquire().unwrap();
    let _entered = runtime.enter();
    let section = AssertUnwindSafe(around(guard));
    // Some of them panic on purpose, after their guard has unwound.
    drop(catch_unwind(AssertUnwindSafe(|| {
        runtime.block_on(section.0);
    })));
    until(|| store.is_empty());
}

#[test]
fn a_guard_is_released_in_a_task_without_a_budget() {
    assert_released(|guard| unconstrained(async move { drop(guard) }));
    assert_released(|guard| {
        unconstrained(async move {
            let _guard = guard;
            panic!("on purpose")
        })
    });
    assert_released(|guard| {
        tokio::spawn(unconstrained(async move {
            let _guard = guard;
            panic!("on purpose")
        }))
    });
}

#[test]
fn a_guard_is_released_by_what_drops_its_future() {
    async fn holds(guard: BlockingGuard) {
        let _guard = guard;
        pending::<()>().await;
    }

    assert_released(|guard| timeout(Duration::from_millis(5), holds(guard)));
    assert_released(|guard| {
        join(holds(guard), async {
            yield_now().await;
            panic!("on purpose")
        })
    });
}

#[test]
fn a_guard_is_released_by_a_runtime_that_ends() {
    let (store, locks) = memory();
    let guard = locks.lock("order:42").acquire().unwrap();
    let runtime = two_workers();
    let (begun, is_held) = mpsc::channel();
    runtime.spawn(async move {
        let _guard = guard;
        begun.send(()).unwrap();
        pending::<()>().await;
    });
    is_held.recv_timeout(LIMIT).unwrap();
    drop(runtime);
    until(|| store.is_empty());
}

#[test]
fn a_thread_of_a_runtime_with_a_paused_clock_uses_that_clock() {
    let (_, locks) = memory();
    let mut builder = Builder::new_current_thread();
    let runtime = builder.enable_all().start_paused(true).build().unwrap();
    runtime.block_on(async {
        tokio::time::advance(Duration::from_secs(3600)).await;
        let section = move || locks.lock("order:42").run(Lease::ensure_held);
        let ran = tokio::task::spawn_blocking(section).await;
        ran.unwrap().unwrap().unwrap();
    });
}
