//! What is in etcd, and when it goes.

use std::time::Duration;

use dlock::{LockManager, LockManagerBuilder};
use dlock_etcd::Etcd;
use dlock_testkit::{EtcdMake, EtcdServer, eventually};

const LONG: Duration = Duration::from_secs(30);

pub(crate) fn builder(namespace: &str) -> LockManagerBuilder {
    LockManager::builder()
        .scheme("etcd", Etcd)
        .namespace(namespace)
        .response_timeout(Duration::from_secs(10))
}

#[tokio::test]
async fn a_lock_is_a_key_that_goes_with_its_release() {
    let server = EtcdServer::shared(EtcdMake::Usual).await;
    let manager = builder("keys").connect(&server.url()).await.unwrap();
    let guard = manager.lock("order:42").acquire().await.unwrap();
    let keys = server.keys("keys/order:42/").await;
    let [key] = &keys[..] else {
        panic!("one claim: {keys:?}");
    };
    let value = server.get(key).await.unwrap();
    assert!(
        value.starts_with("1 ") && value.contains(" exclusive - "),
        "{value}"
    );
    let token = guard.fencing_token();
    guard.release().await.unwrap();
    assert_eq!(server.keys("keys/order:42/").await, [""; 0]);
    let next = manager.lock("order:42").acquire().await.unwrap();
    assert!(next.fencing_token() > token);
    next.release().await.unwrap();
    manager.shutdown(LONG).await;
    assert_eq!(server.keys("keys/").await, ["keys//fence"]);
}

#[tokio::test]
async fn a_lease_that_is_not_renewed_ends_by_itself() {
    let server = EtcdServer::shared(EtcdMake::Usual).await;
    let manager = builder("unrenewed").connect(&server.url()).await.unwrap();
    let lock = manager
        .lock("order:42")
        .ttl(Duration::from_secs(2))
        .renew(false);
    let guard = lock.acquire().await.unwrap();
    eventually(LONG, "the key has ended with its lease", async || {
        server.keys("unrenewed/order:42/").await.is_empty()
    })
    .await;
    assert!(guard.release().await.is_err(), "the lease was lost");
}
