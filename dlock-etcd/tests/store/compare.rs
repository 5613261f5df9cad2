//! Transactions of the user in etcd that compare the key of a lease.

use std::time::Duration;

use dlock::{LockGuard, LockManager};
use dlock_etcd::{Compare, CompareError};
use dlock_testkit::{EtcdMake, EtcdServer, eventually};

use crate::keys::builder;

const LONG: Duration = Duration::from_secs(60);

fn comparisons(guard: &LockGuard) -> Vec<(Vec<u8>, i64)> {
    let keys = guard.compare().unwrap();
    keys.iter()
        .map(|key| (key.name().to_vec(), key.create_revision()))
        .collect()
}

#[tokio::test]
async fn a_transaction_is_carried_out_only_while_the_lease_is_held() {
    let server = EtcdServer::shared(EtcdMake::Usual).await;
    let manager = builder("compare").connect(&server.url()).await.unwrap();
    let guard = manager
        .lock_all(["stock:7", "stock:8"])
        .acquire()
        .await
        .unwrap();
    let held = comparisons(&guard);
    assert_eq!(held.len(), 2);
    assert!(server.put_if(&held, "stock/7", "41").await);
    guard.release().await.unwrap();
    assert!(
        !server.put_if(&held, "stock/7", "40").await,
        "broken promise: a late write was accepted"
    );

    // The next holder of the same key in the same process has a comparison of its own.
    let next = manager.lock("stock:7").acquire().await.unwrap();
    assert!(
        !server.put_if(&held[..1], "stock/7", "40").await,
        "broken promise: a late write was accepted: the lease of another call"
    );
    assert!(server.put_if(&comparisons(&next), "stock/7", "39").await);
    assert_eq!(server.get("stock/7").await.as_deref(), Some("39"));
    next.release().await.unwrap();
}

#[tokio::test]
async fn a_holder_that_does_not_know_of_its_loss_writes_nothing() {
    let server = EtcdServer::shared(EtcdMake::Usual).await;
    let manager = builder("compare-late")
        .connect(&server.url())
        .await
        .unwrap();
    let guard = manager.lock("stock:7").acquire().await.unwrap();
    let held = comparisons(&guard);
    server.delete("compare-late/stock:7/").await;
    assert!(!server.put_if(&held, "late/7", "41").await);
    assert_eq!(server.get("late/7").await, None);
    let lost = guard.release().await.unwrap_err();
    assert!(lost.is_lost(), "{lost}");
}

#[tokio::test]
async fn a_lease_of_another_store_or_one_that_is_lost_has_no_comparison() {
    let memory = LockManager::builder().connect("memory://").await.unwrap();
    let guard = memory.lock("stock:7").acquire().await.unwrap();
    let error = guard.compare().unwrap_err();
    assert!(matches!(error, CompareError::OtherStore { .. }), "{error}");
    assert!(error.to_string().contains("`stock:7`"), "{error}");
    guard.release().await.unwrap();

    let server = EtcdServer::shared(EtcdMake::Usual).await;
    let manager = builder("compare-lost")
        .connect(&server.url())
        .await
        .unwrap();
    let lock = manager
        .lock("stock:7")
        .ttl(Duration::from_secs(2))
        .renew(false);
    let guard = lock.acquire().await.unwrap();
    eventually(LONG, "the lease ends", async || {
        guard.ensure_held().is_err()
    })
    .await;
    assert!(matches!(guard.compare(), Err(CompareError::Lock(_))));
}
