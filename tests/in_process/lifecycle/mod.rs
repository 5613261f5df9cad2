//! Where and how long locks live: runtimes, threads and clocks, panics, shutdown, and what is
//! left when nothing is held any more.

mod deadlocks;
mod guards;
mod held_up;
mod leftovers;
mod managers;
mod many_leases;
mod panics;
mod shutdown;
mod suspended;
mod threads_and_runtimes;
mod unpolled;

use std::time::Duration;

use dlock::{LockGuard, LockManager, store::memory::MemoryStore};
use tokio::runtime::{self, Runtime};

use crate::common::{assert_idle, soon};

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
    let manager = LockManager::builder()
        .build_with_store(store.clone())
        .unwrap();
    (store, manager)
}

async fn hold(manager: &LockManager, key: &str) -> LockGuard {
    soon(manager.lock(key).acquire()).await.unwrap()
}

async fn assert_clean(store: &MemoryStore, manager: &LockManager) {
    assert_idle(&[manager]).await;
    assert!(store.is_empty(), "{} locks are left", store.len());
}
