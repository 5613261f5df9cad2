//! Sessions and the leases that they last for.

use std::time::Duration;

use dlock::{LockKey, LockManager};
use dlock_runtime::{
    ConnectError, StoreError,
    store::{AcquireOutcome, AcquireRequest, ClientId, LockStore, OwnerId, ReleaseRequest},
    testing::SystemRandom,
};
use dlock_testkit::{Proxy, ZooKeepers, eventually};
use dlock_zookeeper::ZooKeeper;
use tokio::time::sleep;

use crate::world::{LIMIT, store};

#[tokio::test]
async fn a_lease_that_its_session_may_not_last_for_is_not_confirmed() {
    let servers = ZooKeepers::shared().await;
    let proxy = Proxy::start(servers.port(0));
    // Requests count only after the tick, which is longer than the servers' own.
    let url = format!("zookeeper://127.0.0.1:{}?session=20s&tick=5s", proxy.port());
    let store = store(&url).await;
    let key = LockKey::new("uncertain").unwrap();
    let owner = OwnerId::new(ClientId::new(&SystemRandom), 1);
    let ask = async || {
        let ask = AcquireRequest::new(&key, owner, Duration::from_millis(12_500));
        store.acquire(ask).await
    };
    // The first requests of the session are old enough to count.
    sleep(Duration::from_secs(6)).await;
    assert!(matches!(ask().await, Ok(AcquireOutcome::Granted { .. })));
    proxy.freeze();
    // The session goes on without an answer, and its rest is shorter than the TTL.
    sleep(Duration::from_secs(9)).await;
    proxy.thaw();
    let mut answers = Vec::new();
    eventually(LIMIT, "the lease is confirmed", async || {
        answers.push(ask().await);
        matches!(answers.last(), Some(Ok(_)))
    })
    .await;
    let is_refusal = |answer: &Result<_, StoreError>| {
        let error = answer.as_ref().err();
        error.is_some_and(|error| error.message().contains("without an answer for too long"))
    };
    assert!(answers.iter().any(is_refusal), "{answers:?}");
    store
        .release(ReleaseRequest::new(&key, owner))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_ttl_beyond_the_session_is_refused_before_a_request_is_sent() {
    let servers = ZooKeepers::shared().await;
    let builder = LockManager::builder().scheme("zookeeper", ZooKeeper);
    let url = servers.url(Duration::from_secs(10));
    let error = builder.clone().connect(&url).await.unwrap_err();
    assert!(
        matches!(error, ConnectError::InvalidOption { option: "ttl", .. }),
        "{error}"
    );
    let locks = builder
        .ttl(Duration::from_secs(5))
        .connect(&url)
        .await
        .unwrap();
    let error = locks
        .lock("long")
        .ttl(Duration::from_secs(10))
        .acquire()
        .await
        .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("longer than the store's longest lease"),
        "{error}"
    );
    locks
        .lock("long")
        .acquire()
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
}

#[tokio::test]
async fn a_session_that_the_servers_shorten_is_refused() {
    let servers = ZooKeepers::shared().await;
    let builder = LockManager::builder().scheme("zookeeper", ZooKeeper);
    let error = builder
        .connect(servers.url(Duration::from_secs(121)))
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("write `session=120000ms`"),
        "{error}"
    );
}
