//! The parts that tests of faults share.

use std::time::Duration;

use dlock::{LockGuard, LockManager, LockManagerBuilder};
use dlock_testkit::{ZooKeepers, eventually};
use dlock_zookeeper::ZooKeeper;
use zookeeper_client::Client;

pub(crate) const LIMIT: Duration = Duration::from_secs(180);

/// On a busy machine, the servers need half a minute to choose a leader.
pub(crate) const SESSION: Duration = Duration::from_secs(110);
pub(crate) const TTL: Duration = Duration::from_secs(90);

/// A manager, which stands for a process.
pub(crate) async fn manager(url: &str, ttl: Duration) -> LockManager {
    let builder = builder().ttl(ttl).wait(LIMIT);
    builder.connect(url).await.expect("the servers answer")
}

/// Silent servers are left after some seconds.
pub(crate) fn builder() -> LockManagerBuilder {
    LockManager::builder()
        .scheme("zookeeper", ZooKeeper)
        .response_timeout(Duration::from_secs(4))
        .connect_timeout(LIMIT)
}

/// A client beside dlock's own. Its session outlasts the test.
pub(crate) async fn client(servers: &ZooKeepers) -> Client {
    let connector = Client::connector()
        .with_session_timeout(SESSION)
        .with_connection_timeout(SESSION / 2);
    let host = format!("127.0.0.1:{}", servers.port(0));
    connector.connect(&host).await.expect("the server answers")
}

/// The URL of all servers, with a directory that no other test uses.
pub(crate) fn url(servers: &ZooKeepers, session: Duration, directory: &str) -> String {
    let url = servers.url(session);
    url.replace('?', &format!("/{directory}?"))
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
        assert!(
            !matches!(answer, Ok(Some(_))),
            "broken promise: two hold `{key}`"
        );
        answer.is_ok()
    })
    .await;
}
