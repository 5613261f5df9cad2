//! Nodes that come and go, and a cluster that is down as a whole.

use std::time::Duration;

use dlock::{LockError, LockManager, LostCause};
use dlock_testkit::{Cluster, eventually};

use crate::cluster::{LIMIT, PATIENCE, env, home, lock_on, process, slot, waiting};
use crate::common::{Env, builder, soon};

#[tokio::test]
async fn nodes_are_added_and_removed_while_locks_are_held() {
    let mut env = env(Cluster::start(2, 0).await);
    let manager = process(&env.cluster).await;
    let key = lock_on(&env.cluster, 0).await;
    let brief = Duration::from_secs(4);
    let guard = soon(manager.lock(&*key).ttl(brief).acquire())
        .await
        .unwrap();
    let new = env.cluster.add().await;
    let cluster = &env.cluster;
    let slot = slot(cluster, &key).await;
    cluster.migrate(slot, new).await;
    tokio::time::sleep(brief * 4 / 3).await;
    guard.ensure_held().unwrap();
    assert_eq!(home(cluster, &key).await, new);
    let clients = async |node: usize| {
        let list: String = redis::cmd("CLIENT")
            .arg("LIST")
            .query_async(&mut cluster.node(node).connection().await)
            .await
            .unwrap();
        list.matches("name=dlock:").count()
    };
    assert_eq!(clients(new).await, 1);
    soon(guard.release()).await.unwrap();

    cluster.migrate(slot, 0).await;
    let guard = soon(manager.lock(&*key).ttl(brief).acquire())
        .await
        .unwrap();
    eventually(
        LIMIT,
        "nobody is connected to a node without slots",
        async || clients(new).await == 0,
    )
    .await;
    cluster.remove(new).await;
    tokio::time::sleep(brief * 4 / 3).await;
    guard.ensure_held().unwrap();
    soon(guard.release()).await.unwrap();
    env.assert_clean(1, &[&manager]).await;
}

/// Nobody serves any slot while one is not served. Who waits gets the lock when that is over.
#[tokio::test]
async fn a_cluster_that_is_down_is_waited_for() {
    let env = env(Cluster::start(3, 0).await);
    let cluster = &env.cluster;
    let (manager, other) = (process(cluster).await, process(cluster).await);
    let key = lock_on(cluster, 0).await;
    let ttl = Duration::from_secs(6);
    let guard = soon(manager.lock(&*key).ttl(ttl).acquire()).await.unwrap();
    let token = guard.fencing_token();
    cluster.kill(2);

    let mut text = String::new();
    eventually(PATIENCE, "the cluster says that it is down", async || {
        if let Err(error) = other.lock(&*key).try_acquire().await {
            assert!(matches!(error, LockError::Unavailable { .. }), "{error}");
            text = error.to_string();
        }
        text.contains("CLUSTERDOWN")
    })
    .await;
    // It could not be renewed, and its holder knows in time.
    let told = tokio::time::timeout(PATIENCE, guard.lost()).await.unwrap();
    match told {
        LockError::Lost {
            cause: LostCause::NotRenewed { reason },
            ..
        } => {
            assert!(reason.to_string().contains("CLUSTERDOWN"), "{reason}");
        }
        other => panic!("{other}"),
    }
    drop(guard);
    let waiting = waiting(&manager, &key);
    cluster.restart(2).await;
    let guard = tokio::time::timeout(PATIENCE, waiting)
        .await
        .unwrap()
        .unwrap();
    assert!(
        guard.fencing_token() > token,
        "broken promise: the token did not grow"
    );
    soon(guard.release()).await.unwrap();
    eventually(LIMIT, "nothing is left", async || {
        manager.active_keys() + other.active_keys() == 0 && env.locks().await.is_empty()
    })
    .await;
}

#[tokio::test]
async fn one_living_node_of_the_url_is_enough() {
    let env = env(Cluster::start(3, 1).await);
    let cluster = &env.cluster;
    let dead = dlock_testkit::RedisServer::start().await;
    dead.kill();
    // A replica will do, and the others are dead, stopped, or nowhere at all.
    let replica = cluster.replica_of(0).await;
    cluster.pause(5);
    let url = format!(
        "redis-cluster://127.0.0.1:{},127.0.0.1:{},nowhere.invalid,127.0.0.1:{}",
        dead.port(),
        cluster.port(5),
        cluster.port(replica),
    );
    let manager = soon(LockManager::connect(&url)).await.unwrap();
    for node in 0..3 {
        let key = lock_on(cluster, node).await;
        let guard = soon(manager.lock(&*key).acquire()).await.unwrap();
        soon(guard.release()).await.unwrap();
    }
    cluster.resume(5);
    env.assert_clean(3, &[&manager]).await;
}

/// A program that starts before its cluster does.
#[tokio::test]
async fn a_cluster_may_come_later() {
    let env = env(Cluster::start(3, 0).await);
    let cluster = &env.cluster;
    for node in 0..3 {
        cluster.kill(node);
    }
    let manager = builder().connect_lazy(cluster.url()).unwrap();
    let error = soon(manager.lock("order:42").try_acquire()).await;
    let text = error.expect_err("nobody is there").to_string();
    assert!(text.contains("connection refused"), "{text}");
    assert_eq!(manager.active_keys(), 0, "nothing was sent");
    let error = LockManager::builder()
        .connect_timeout(Duration::from_secs(4))
        .connect(&cluster.url())
        .await
        .expect_err("nobody is there");
    let text = error.to_string();
    assert!(
        text.contains(&cluster.url()) && text.contains("connection refused"),
        "{text}"
    );
    for node in 0..3 {
        cluster.restart(node).await;
    }
    let lock = manager.lock("order:42").wait(PATIENCE);
    let guard = tokio::time::timeout(PATIENCE, lock.acquire())
        .await
        .unwrap();
    soon(guard.unwrap().release()).await.unwrap();
    env.assert_clean(1, &[&manager]).await;
}
