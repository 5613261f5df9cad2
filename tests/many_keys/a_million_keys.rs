//! Keys without holder and waiter leave nothing behind: not after a million of them.
//!
//! A program of its own, as it looks at the memory of its process.
#![allow(
    clippy::unwrap_used,
    reason = "a test that fails there has said what it has to say"
)]

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use dlock::{LockManager, Wait, store::memory::MemoryStore};
use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
};

const KEYS: u32 = 1_000_000;
const TASKS: u32 = 16;
const LIMIT: Duration = Duration::from_secs(20);

/// One of so many keys is left in each of the ways that are not the usual one.
const ONE_IN: u32 = 10;

/// Less than any table needs for the keys that are left in one of the ways alone: each entry would
/// take more than ten bytes.
const GROWTH: u64 = 10 * (KEYS / ONE_IN) as u64;

/// Bytes of this process that lie in memory; `None` where the system does not tell by a file.
fn resident() -> Option<u64> {
    let told = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = told.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kibibytes * 1024)
}

/// Takes all keys below `end`, and leaves each in one of the ways there are.
async fn take(manager: &LockManager, next: &Arc<AtomicU32>, end: u32) {
    let mut tasks = JoinSet::new();
    for _ in 0..TASKS {
        let (manager, next) = (manager.clone(), next.clone());
        tasks.spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= end {
                    return;
                }
                let key = format!("order:{number}");
                let guard = manager.lock(&key).acquire().await.unwrap();
                match number % ONE_IN {
                    // By the manager, later.
                    0 => drop(guard),
                    // By a waiter, meanwhile.
                    1 => {
                        let waits = manager.lock(&key).wait(Wait::Forever).acquire();
                        let (next, released) = tokio::join!(waits, guard.release());
                        released.unwrap();
                        next.unwrap().release().await.unwrap();
                    }
                    // After a try that did not wait.
                    2 => {
                        let busy = manager.lock(&key).try_acquire().await.unwrap();
                        assert!(busy.is_none(), "broken promise: two hold the key");
                        guard.release().await.unwrap();
                    }
                    _ => guard.release().await.unwrap(),
                }
            }
        });
    }
    while let Some(task) = tasks.join_next().await {
        task.unwrap();
    }
    next.store(end, Ordering::Relaxed);
    let given_back = async {
        while manager.active_keys() > 0 {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(LIMIT, given_back)
        .await
        .expect("all are given back");
}

#[tokio::test]
async fn leave_nothing_behind() {
    let store = MemoryStore::new();
    let manager = LockManager::builder()
        .build_with_store(store.clone())
        .unwrap();
    let next = Arc::new(AtomicU32::new(0));
    // Tables have grown to the size that so many tasks need.
    take(&manager, &next, KEYS / 10).await;
    let before = resident();
    take(&manager, &next, KEYS).await;
    let after = resident();
    assert!(store.is_empty(), "{} locks are left", store.len());
    let growth = after
        .zip(before)
        .map(|(after, before)| after.saturating_sub(before));
    println!("{before:?} bytes before, {growth:?} more after");
    assert!(
        growth.is_none_or(|growth| growth < GROWTH),
        "{growth:?} bytes more"
    );
    if cfg!(target_os = "linux") {
        assert!(growth.is_some(), "memory is looked at");
    }
}
