//! Guards that are dropped where there is no runtime, or another one, or hardly a thread any more.

use std::{
    cell::RefCell,
    panic::{AssertUnwindSafe, catch_unwind},
    thread,
};

use dlock::{LockGuard, LockManager, store::memory::MemoryStore};
use tokio::runtime::{Builder, Handle, Runtime};

use crate::common::{assert_idle, soon};
use crate::panics::{assert_no_others, watch_for_others};

thread_local! {
    static KEPT: RefCell<Vec<LockGuard>> = const { RefCell::new(Vec::new()) };
}

/// Drops a guard when its own thread ends, after everything that was kept there later.
fn keep(guard: LockGuard) {
    KEPT.with_borrow_mut(|kept| kept.push(guard));
}

struct Unwinds(Option<LockGuard>);

impl Drop for Unwinds {
    fn drop(&mut self) {
        drop(self.0.take());
    }
}

type Way = fn(LockGuard, Handle, Handle);

/// The arguments are the guard, the runtime it was got on and another one.
const WAYS: [(&str, Way); 9] = [
    ("by a thread without a runtime", |guard, _, _| drop(guard)),
    ("on the runtime it was got on", |guard, here, _| {
        let _inside = here.enter();
        drop(guard);
    }),
    ("on another runtime", |guard, _, there| {
        let _inside = there.enter();
        drop(guard);
    }),
    ("by a task of another runtime", |guard, _, there| {
        let task = there.spawn(async move { drop(guard) });
        while !task.is_finished() {
            thread::yield_now();
        }
    }),
    ("by a thread that blocks", |guard, _, there| {
        let task = there.spawn_blocking(move || drop(guard));
        while !task.is_finished() {
            thread::yield_now();
        }
    }),
    ("while unwinding", |guard, here, _| {
        let _inside = here.enter();
        let unwound = catch_unwind(AssertUnwindSafe(|| {
            let _unwinds = Unwinds(Some(guard));
            panic!("on purpose");
        }));
        assert!(unwound.is_err());
    }),
    (
        "when a thread ends that never was on a runtime",
        |guard, _, _| {
            keep(guard);
        },
    ),
    (
        "when a thread ends, before it forgets the runtime",
        |guard, here, _| {
            drop(here.enter());
            keep(guard);
        },
    ),
    (
        "when a thread ends, after it has forgotten the runtime",
        |guard, _, there| {
            keep(guard);
            drop(there.enter());
        },
    ),
];

fn runtimes() -> [Runtime; 2] {
    let threads = || {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(1).enable_all().build().unwrap()
    };
    [threads(), threads()]
}

fn several(manager: &LockManager, runtime: &Runtime, keys: &[&str]) -> LockGuard {
    let acquire = manager.lock_all(keys.iter().copied()).acquire();
    runtime.block_on(soon(acquire)).unwrap()
}

#[test]
fn a_guard_that_is_dropped_wherever_gives_its_locks_back() {
    watch_for_others();
    for (name, way) in WAYS {
        // The runtime the guard was got on lives, has ended, or never was one of the manager's.
        for home in [0, 1] {
            for keys in [&["a"][..], &["a", "b", "c"]] {
                let runtimes = runtimes();
                let store = MemoryStore::new();
                let manager = {
                    let _home = runtimes[home].enter();
                    LockManager::builder()
                        .build_with_store(store.clone())
                        .unwrap()
                };
                let guard = several(&manager, &runtimes[0], keys);
                let [here, there] = runtimes.each_ref().map(|it| it.handle().clone());
                thread::scope(|scope| scope.spawn(|| way(guard, here, there)).join().unwrap());
                runtimes[1].block_on(assert_idle(&[&manager]));
                assert!(store.is_empty(), "{name}");
            }
        }
    }
    assert_no_others();
}

/// The runtime that the guard came from has ended, with the manager's or before it.
#[test]
fn a_guard_that_outlives_its_runtime_gives_its_locks_back_wherever_it_is_dropped() {
    watch_for_others();
    for (name, way) in WAYS {
        for home in [0, 1] {
            let [first, second] = runtimes();
            let store = MemoryStore::new();
            let manager = {
                let _home = [&first, &second][home].enter();
                LockManager::builder()
                    .build_with_store(store.clone())
                    .unwrap()
            };
            let guard = several(&manager, &first, &["a", "b"]);
            let (here, there) = (first.handle().clone(), second.handle().clone());
            drop(first);
            thread::scope(|scope| scope.spawn(|| way(guard, here, there)).join().unwrap());
            second.block_on(assert_idle(&[&manager]));
            assert!(store.is_empty(), "{name}");
        }
    }
    assert_no_others();
}

/// From the first pause on, tokio's clock cannot be read by a thread that has forgotten its runtime.
#[test]
fn a_guard_that_a_thread_drops_at_its_very_end_is_released_although_time_was_paused() {
    watch_for_others();
    let mut paused = Builder::new_current_thread();
    let paused = paused.enable_all().start_paused(true).build().unwrap();
    paused.block_on(tokio::time::advance(std::time::Duration::from_secs(1)));
    let [runtime, _] = runtimes();
    let store = MemoryStore::new();
    let manager = LockManager::builder()
        .build_with_store(store.clone())
        .unwrap();
    let guard = several(&manager, &runtime, &["a"]);
    let there = runtime.handle().clone();
    let thread = thread::spawn(move || {
        keep(guard);
        // What is made later is forgotten sooner.
        drop(there.enter());
    });
    thread.join().unwrap();
    runtime.block_on(assert_idle(&[&manager]));
    assert!(store.is_empty());
    assert_no_others();
}
