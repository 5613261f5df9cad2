//! The parts that tests of faults share.

use std::time::Duration;

use dlock::{LockGuard, LockManager, LockManagerBuilder};
use dlock_etcd::{Etcd, EtcdStore};
use dlock_runtime::store::StoreOptions;
use dlock_testkit::eventually;

/// Longer than anything takes here, also on a busy machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// A lease that outlasts every fault which a test expects it to.
pub(crate) const TTL: Duration = Duration::from_secs(120);

pub(crate) fn builder() -> LockManagerBuilder {
    LockManager::builder()
        .scheme("etcd", Etcd)
        .connect_timeout(DEADLINE / 3)
}

/// A manager, which stands for a process.
pub(crate) async fn connect(url: &str) -> LockManager {
    let connected = builder().connect(url).await;
    connected.unwrap_or_else(|error| panic!("{url}: {error}"))
}

/// A store that gives up a request, and a silent connection, after this time.
pub(crate) fn open(url: &str, response_timeout: Duration) -> EtcdStore {
    let mut options = StoreOptions::default();
    options.response_timeout = response_timeout;
    EtcdStore::open(url, &options).unwrap()
}

/// Acquires and releases a lock, in spite of requests that fail.
pub(crate) async fn works(manager: &LockManager, key: &str) {
    eventually(
        DEADLINE,
        "a lock is acquired and released",
        async || match manager.lock(key).acquire().await {
            Ok(guard) => guard.release().await.is_ok(),
            Err(_) => false,
        },
    )
    .await;
}

/// The other process finds the key held.
pub(crate) async fn is_held(other: &LockManager, key: &str) {
    finds_held(other, key, async || String::new()).await;
}

/// The same, with more words for one that does not.
pub(crate) async fn finds_held(other: &LockManager, key: &str, words: impl AsyncFn() -> String) {
    eventually(
        DEADLINE,
        "the other finds the key held",
        async || match other.lock(key).try_acquire().await {
            Ok(None) => true,
            Ok(Some(_)) => panic!("two hold `{key}` {}", words().await),
            Err(_) => false,
        },
    )
    .await;
}

/// Releases a lease that is still held.
pub(crate) async fn is_released(guard: LockGuard) {
    guard.ensure_held().unwrap();
    guard.release().await.unwrap();
}
