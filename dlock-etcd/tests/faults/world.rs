//! The parts that tests of faults share.

use std::time::{Duration, Instant};

use dlock::{LockGuard, LockManager, LockManagerBuilder};
use dlock_etcd::{Etcd, EtcdStore};
use dlock_runtime::store::StoreOptions;
use dlock_testkit::{EtcdServer, Proxy, eventually, within};
use tokio::time::sleep;

/// Longer than anything takes here, also on a busy machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// A lease that outlasts every fault which a test expects it to.
pub(crate) const TTL: Duration = Duration::from_secs(120);

/// The pause between two tries.
const PAUSE: Duration = Duration::from_millis(5);

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

/// Loses the answer to the request that creates a key with this prefix, once the server has carried it out.
///
/// A proxy that cuts before the next bytes of the server would come too early: they may be about the connection, and etcd
/// drops a request whose connection has ended.
pub(crate) async fn lose_answer(proxy: &Proxy, server: &EtcdServer, prefix: &str) {
    eventually(DEADLINE, "the request is carried out", async || {
        !server.keys(prefix).await.is_empty()
    })
    .await;
    assert!(!proxy.is_trap_set(), "its answer is held back");
    proxy.cut();
    proxy.thaw();
}

/// Acquires and releases a lock, in spite of requests that fail.
pub(crate) async fn works(manager: &LockManager, key: &str) {
    let mut failures = Vec::new();
    let begun = Instant::now();
    let worked = within(DEADLINE, async {
        loop {
            let failed = match manager.lock(key).acquire().await {
                Ok(guard) => guard.release().await.err(),
                Err(error) => Some(error),
            };
            let Some(error) = failed else { return };
            let text = error.to_string();
            if failures.last().is_none_or(|(_, last)| *last != text) {
                failures.push((begun.elapsed(), text));
            }
            sleep(PAUSE).await;
        }
    });
    let is_done = worked.await.is_some();
    assert!(
        is_done,
        "`{key}` is not acquired and released: {failures:#?}"
    );
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
            Ok(Some(_)) => panic!("broken promise: two hold `{key}` {}", words().await),
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
