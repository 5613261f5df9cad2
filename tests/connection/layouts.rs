//! The same for servers that belong together: Sentinels and what they watch, and clusters.

use dlock::{LockManager, store::StoreErrorKind};
use dlock_testkit::{Authority, Cluster, RedisServer, Sentinels, TlsSentinel, eventually};

use crate::{
    LIMIT, assert_works,
    common::{assert_idle, soon},
    refused, run,
};

/// A lock that one has and gives back goes to the other.
async fn assert_handed_on(one: &LockManager, other: &LockManager) {
    for key in ["order:1", "order:2", "order:3", "order:4"] {
        let held = soon(one.lock(key).acquire()).await.unwrap();
        let tried = soon(other.lock(key).try_acquire()).await.unwrap();
        assert!(tried.is_none(), "`{key}` is held");
        let waits = soon(other.lock(key).wait(LIMIT).run(async |_| 7));
        let (waited, given) = tokio::join!(waits, held.release());
        assert_eq!((waited, given), (Ok(7), Ok(())));
    }
    assert_idle(&[one, other]).await;
}

#[tokio::test]
async fn sentinels_find_a_master_that_speaks_resp2() {
    let sentinels = Sentinels::start_small().await;
    let url = format!("{}?protocol=resp2", sentinels.url());
    let one = soon(LockManager::connect(&url)).await.unwrap();
    let other = soon(LockManager::connect(&url)).await.unwrap();
    assert_works(sentinels.master().await, &one, &other).await;
}

#[tokio::test]
async fn a_cluster_speaks_resp2() {
    let cluster = Cluster::start(3, 0).await;
    let url = format!("{}?protocol=resp2", cluster.url());
    let one = soon(LockManager::connect(&url)).await.unwrap();
    let other = soon(LockManager::connect(&url)).await.unwrap();
    assert_handed_on(&one, &other).await;
}

#[tokio::test]
async fn a_cluster_is_reached_over_tls() {
    let authority = Authority::new();
    let identity = authority.issue(&["localhost", "127.0.0.1"]);
    let arguments = ["--cluster-enabled", "yes", "--tls-cluster", "yes"];
    let server = RedisServer::start_with_tls(&identity, None, &arguments).await;
    let mut behind = server.connection().await;
    run(&mut behind, "CLUSTER ADDSLOTSRANGE 0 16383").await;
    eventually(LIMIT, "it has all slots", async || {
        run(&mut behind, "CLUSTER INFO")
            .await
            .contains("cluster_state:ok")
    })
    .await;
    let url = |ca: &Authority| {
        let (port, ca) = (server.tls_port(), ca.ca_file());
        format!("rediss-cluster://localhost:{port}?ca={}", ca.display())
    };
    let one = soon(LockManager::connect(&url(&authority))).await.unwrap();
    let other = soon(LockManager::connect(&url(&authority))).await.unwrap();
    assert_handed_on(&one, &other).await;

    let (kind, text) = refused(LockManager::builder(), &url(&Authority::new())).await;
    assert_eq!(kind, StoreErrorKind::Tls, "{text}");
}

#[tokio::test]
async fn a_master_is_found_and_reached_over_tls() {
    let authority = Authority::new();
    let identity = authority.issue(&["localhost", "127.0.0.1"]);
    let server = RedisServer::start_with_tls(&identity, None, &[]).await;
    let sentinel = TlsSentinel::watch(&server, &identity, &authority).await;
    let url = |ca: &Authority| {
        let (port, ca) = (sentinel.port(), ca.ca_file());
        let service = TlsSentinel::SERVICE;
        format!(
            "rediss-sentinel://localhost:{port}/{service}?ca={}",
            ca.display()
        )
    };
    let one = soon(LockManager::connect(&url(&authority))).await.unwrap();
    let other = soon(LockManager::connect(&url(&authority))).await.unwrap();
    assert_works(&server, &one, &other).await;

    let (kind, text) = refused(LockManager::builder(), &url(&Authority::new())).await;
    assert_eq!(kind, StoreErrorKind::Tls, "{text}");
    assert!(text.contains("from an unknown authority"), "{text}");
}
