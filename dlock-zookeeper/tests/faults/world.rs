//! The parts that tests of faults share.

use std::time::Duration;

use dlock::{LockGuard, LockManager};
use dlock_testkit::eventually;
use dlock_zookeeper::ZooKeeper;

pub(crate) const LIMIT: Duration = Duration::from_secs(180);

/// On a busy machine, the servers need half a minute to choose a leader.
pub(crate) const SESSION: Duration = Duration::from_secs(110);
pub(crate) const TTL: Duration = Duration::from_secs(90);

/// A manager, which stands for a process.
pub(crate) async fn manager(url: &str, ttl: Duration) -> LockManager {
    let builder = LockManager::builder()
        .scheme("zookeeper", ZooKeeper)
        .ttl(ttl);
    builder.connect(url).await.expect("the servers answer")
}

/// Acquires a lock, in spite of requests that fail.
pub(crate) async fn acquires(manager: &LockManager, key: &str) -> LockGuard {
    let mut guard = None;
    eventually(LIMIT, "the lock is acquired", async || {
        guard = manager.lock(key).try_acquire().await.ok().flatten();
        guard.is_some()
    })
    .await;
    guard.expect("it was acquired")
}

/// The other process finds the key held.
pub(crate) async fn is_held(other: &LockManager, key: &str) {
    eventually(LIMIT, "an answer to the other process", async || {
        let answer = other.lock(key).try_acquire().await;
        assert!(!matches!(answer, Ok(Some(_))), "two hold `{key}`");
        answer.is_ok()
    })
    .await;
}
