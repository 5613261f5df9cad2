//! Clusters that refuse requests, and servers that are not what the URL says.

use std::time::Duration;

use dlock::{ConnectError, LockManager, StoreErrorKind};
use dlock_testkit::{Cluster, RedisServer};
use tokio::time::sleep;

use crate::cluster::{env, home, process, slot, stored};
use crate::common::{Env, shown, soon};

async fn refused(url: &str) -> (StoreErrorKind, String) {
    // What is final is said at once, whatever the limit.
    let builder = LockManager::builder().connect_timeout(Duration::from_secs(600));
    let error = soon(builder.connect(url)).await.expect_err("it is refused");
    let text = shown(&error);
    assert!(!text.contains("s3cret"), "{text}");
    match error {
        ConnectError::Unavailable { reason, .. } => (reason.kind(), text),
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn a_wrong_password_is_told_with_the_node_and_the_cluster() {
    let cluster = Cluster::start_with(2, 0, &["--requirepass", "right"]).await;
    let manager = LockManager::connect(&cluster.url()).await.unwrap();
    let guard = soon(manager.lock("order:42").acquire()).await.unwrap();
    soon(guard.release()).await.unwrap();

    let url = cluster.url().replace("right", "s3cret");
    let (kind, text) = refused(&url).await;
    assert_eq!(kind, StoreErrorKind::Unauthenticated, "{text}");
    let one = |node| text.contains(&format!("redis://127.0.0.1:{}", cluster.port(node)));
    assert!(one(0) || one(1), "{text}");
    assert!(text.contains(&url.replace(":s3cret", "***")), "{text}");
    // One node that takes another password than the rest.
    cluster.node(1).connection().await; // it takes the right one until now
    redis::cmd("CONFIG")
        .arg(&["SET", "requirepass", "other"])
        .exec_async(&mut cluster.node(1).connection().await)
        .await
        .unwrap();
    let (kind, text) = refused(&cluster.url_of(&[0])).await;
    assert_eq!(kind, StoreErrorKind::Unauthenticated, "{text}");
    assert!(
        text.contains(&format!("redis://127.0.0.1:{}", cluster.port(1))),
        "{text}"
    );
}

#[tokio::test]
async fn a_url_that_says_cluster_is_for_a_cluster() {
    let (single, cluster) = tokio::join!(RedisServer::start(), Cluster::start(1, 0));
    let (kind, text) = refused(&single.url().replace("redis:", "redis-cluster:")).await;
    assert_eq!(kind, StoreErrorKind::Unsupported, "{text}");
    assert!(
        text.contains("not in cluster mode; write `redis://`"),
        "{text}"
    );

    let (kind, text) = refused(&cluster.node(0).url()).await;
    assert_eq!(kind, StoreErrorKind::Unsupported, "{text}");
    assert!(text.contains("write `redis-cluster://`"), "{text}");
}

/// It would work until a slot moves, and then lose leases.
#[tokio::test]
async fn a_user_that_may_not_follow_a_moving_slot_is_told_at_once() {
    let cluster = Cluster::start(1, 0).await;
    let line = include_str!("../../../dlock-runtime/src/store/redis/permissions.txt");
    cluster.everywhere(line.trim_end()).await;
    cluster.everywhere("ACL SETUSER app +cluster|slots").await;
    let url = cluster.url().replace("://", "://app:change-me@");
    let (kind, text) = refused(&url).await;
    assert_eq!(kind, StoreErrorKind::Denied, "{text}");
    assert!(text.contains("`+asking`"), "{text}");
}

/// The very line that the documentation shows, and what follows it for a cluster.
#[tokio::test]
async fn few_permissions_are_enough_also_while_a_slot_moves() {
    let env = env(Cluster::start(2, 0).await);
    let cluster = &env.cluster;
    let line = include_str!("../../../dlock-runtime/src/store/redis/permissions.txt");
    let more = include_str!("../../../dlock-runtime/src/store/redis/permissions_cluster.txt");
    cluster.everywhere(line.trim_end()).await;
    let url = cluster.url().replace("://", "://app:change-me@");
    let (kind, text) = refused(&url).await;
    assert_eq!(kind, StoreErrorKind::Denied, "{text}");
    assert!(text.contains("cluster"), "{text}");
    cluster
        .everywhere(&format!("ACL SETUSER app {}", more.trim()))
        .await;

    let manager = LockManager::connect(&url).await.unwrap();
    let ttl = Duration::from_secs(4);
    let guard = soon(manager.lock("order:42").ttl(ttl).acquire())
        .await
        .unwrap();
    let slot = slot(cluster, "order:42").await;
    let to = 1 - home(cluster, "order:42").await;
    cluster.begin_migration(slot, to).await;
    cluster.move_key(&stored("order:42"), to).await;
    sleep(ttl * 4 / 3).await;
    guard.ensure_held().unwrap();
    soon(guard.release()).await.unwrap();
    cluster.move_keys(slot, to).await;
    cluster.end_migration(slot, to).await;
    let guard = soon(manager.lock("order:42").acquire()).await.unwrap();
    soon(guard.release()).await.unwrap();
    env.assert_clean(1, &[&manager, &process(cluster).await])
        .await;
}

// E13
/// As behind a translation of addresses: the URL leads to a node, and what that names to nobody.
#[tokio::test]
async fn an_address_that_nodes_announce_and_nobody_reaches_is_named() {
    let cluster = Cluster::behind_proxies(2).await;
    for node in 0..2 {
        cluster.proxy(node).refuse();
    }
    let url = format!("redis-cluster://127.0.0.1:{}", cluster.node(0).port());
    let builder = LockManager::builder().connect_timeout(Duration::from_secs(4));
    let error = soon(builder.connect(&url))
        .await
        .expect_err("nobody is there");
    let text = shown(&error);
    let one = |node| text.contains(&format!("redis://127.0.0.1:{}", cluster.port(node)));
    assert!(one(0) || one(1), "{text}");
    assert!(text.contains("connection refused"), "{text}");

    let manager = LockManager::builder().connect_lazy(&url).unwrap();
    for node in 0..2 {
        cluster.proxy(node).accept();
    }
    let lock = manager.lock("order:42").wait(crate::cluster::LIMIT);
    soon(soon(lock.acquire()).await.unwrap().release())
        .await
        .unwrap();
}
