//! Guards that end elsewhere than they began: other threads, other runtimes, none at all.

use std::{thread, time::Duration};

use dlock::{LockManager, Wait, store::memory::MemoryStore};
use dlock_waiting::eventually;
use tokio::time::Instant;

use crate::common::{Fate, Kind, LIMIT, Wire, soon};
use crate::lifecycle::{TTL, assert_clean, hold, memory, one_thread, threads};

#[test]
fn one_dropped_outside_any_runtime_is_released() {
    for runtime in [one_thread(), threads(2)] {
        let (store, manager) = memory();
        let guard = runtime.block_on(hold(&manager, "order:42"));
        drop(guard);
        runtime.block_on(assert_clean(&store, &manager));
    }
}

/// It happens on a thread that never heard of tokio.
#[test]
fn one_dropped_on_a_foreign_thread_is_released() {
    let runtime = threads(1);
    let (store, manager) = memory();
    let guard = runtime.block_on(hold(&manager, "order:42"));
    thread::spawn(move || drop(guard)).join().unwrap();
    runtime.block_on(assert_clean(&store, &manager));
}

#[test]
fn one_dropped_on_another_runtime_is_released() {
    let (first, second) = (threads(1), one_thread());
    let (store, manager) = memory();
    let guard = first.block_on(hold(&manager, "order:42"));
    second.block_on(async { drop(guard) });
    first.block_on(assert_clean(&store, &manager));
}

/// What outlives the runtime that acquired is released by the next that lives.
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

/// Its renewals were to run on the runtime that has ended. They begin anew where its body runs.
#[test]
fn one_that_outlives_its_runtime_is_renewed_where_its_body_runs() {
    let (first, second) = (one_thread(), one_thread());
    let (wire, guard) = first.block_on(async {
        let wire = Wire::new(MemoryStore::new());
        let builder = LockManager::builder().renewal_thread(false);
        let manager = builder
            .ttl(Duration::from_secs(6))
            .build_with_store(wire.clone())
            .unwrap();
        (wire, hold(&manager, "order:42").await)
    });
    drop(first);
    second.block_on(async {
        let body = guard.run_while_held(wire.until_sent(Kind::Renew, 1));
        soon(body).await.unwrap();
    });
}

/// Nobody is left to release, so the TTL has to do; but nothing panics and nothing hangs.
#[test]
fn one_that_outlives_all_runtimes_is_left_to_its_ttl() {
    for runtime in [one_thread(), threads(2)] {
        let store = MemoryStore::new();
        let (manager, guard) = runtime.block_on(async {
            // What is behind a connection cannot be told without a runtime.
            let wire = Wire::new(store.clone());
            let manager = LockManager::builder().build_with_store(wire).unwrap();
            let guard = hold(&manager, "order:42").await;
            (manager, guard)
        });
        drop(runtime);
        drop(guard);
        assert_eq!(manager.active_keys(), 0, "this process has given it up");
        assert_eq!(store.len(), 1, "the store keeps it, as it was told");
    }
}

/// A store in this process needs no runtime to be told.
#[test]
fn one_that_outlives_all_runtimes_is_released_in_memory() {
    for runtime in [one_thread(), threads(2)] {
        let (store, manager) = memory();
        let guard = runtime.block_on(hold(&manager, "order:42"));
        drop(runtime);
        drop(guard);
        assert_eq!(manager.active_keys(), 0);
        assert!(store.is_empty());
    }
}

/// Freed at once, it would be free before its time: its TTL at least keeps others out.
#[test]
fn one_with_a_min_hold_that_outlives_all_runtimes_is_left_to_its_ttl() {
    for runtime in [one_thread(), threads(2)] {
        let (store, manager) = memory();
        let lock = manager.lock("order:42").min_hold(LIMIT);
        let guard = runtime.block_on(soon(lock.acquire())).unwrap();
        drop(runtime);
        drop(guard);
        assert_eq!(manager.active_keys(), 0);
        assert_eq!(store.len(), 1);
    }
}

/// The release is under way when its runtime ends, and another one could repeat it.
#[test]
fn a_release_that_dies_with_its_runtime_is_repeated_on_another() {
    let (home, other) = (threads(1), threads(1));
    let (store, wire, manager) = home.block_on(async {
        let store = MemoryStore::new();
        let wire = Wire::new(store.clone());
        let manager = LockManager::builder()
            .build_with_store(wire.clone())
            .unwrap();
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

/// A runtime that shuts down drops its tasks, with the guards in them.
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
            manager.active_keys() == 20
        }));
        drop(runtime);
        assert_eq!(manager.active_keys(), 0);
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
        let ttl = Duration::from_secs(3);
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
    // A waiter looks again when the lease has ended, or up to a quarter of a second later.
    let late = Duration::from_millis(250);
    assert!(since.elapsed() <= limit + TTL + late, "and no longer");
    next.release().await.unwrap();
    assert!(store.is_empty());
}
