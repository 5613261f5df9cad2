//! A cluster of the test's own agrees, fails over and moves its slots.

use dlock_testkit::{Cluster, eventually};
use redis::AsyncCommands;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(40);

#[tokio::test]
async fn a_replica_takes_the_place_of_its_killed_master() {
    let cluster = Cluster::start(3, 1).await;
    let master = cluster.master_of("{foo}").await;
    assert_eq!(cluster.slot_of("{foo}").await, 12_182);
    assert_eq!(master, 2);
    let replica = cluster.replica_of(master).await;
    assert_eq!(replica, 5);
    let mut connection = cluster.node(master).connection().await;
    let _: () = connection.set("{foo}", 1).await.unwrap();
    assert_eq!(cluster.keys("*").await, ["{foo}"]);

    cluster.fail_over_to(replica).await;
    cluster.until_ok().await;
    assert_eq!(cluster.keys("*").await, ["{foo}"]);
    cluster.kill(replica);
    cluster.until_ok().await;
    assert_eq!(cluster.master_of("{foo}").await, master);
    assert_eq!(cluster.keys("*").await, ["{foo}"]);
    cluster.restart(replica).await;
    cluster.until_ok().await;
    assert_eq!(cluster.replica_of(master).await, replica);
}

#[tokio::test]
async fn a_slot_moves_to_a_node_that_was_added() {
    let mut cluster = Cluster::start(2, 0).await;
    let new = cluster.add().await;
    let old = cluster.master_of("{foo}").await;
    let mut connection = cluster.node(old).connection().await;
    let _: () = connection.set("{foo}", 1).await.unwrap();
    cluster.migrate(12_182, new).await;
    assert_eq!(cluster.node(new).keys("*").await, ["{foo}"]);
    assert_eq!(cluster.master_of("{foo}").await, new);

    cluster.migrate(12_182, old).await;
    cluster.remove(new).await;
    cluster.until_ok().await;
    assert_eq!(cluster.up(), [0, 1]);
    assert_eq!(cluster.keys("*").await, ["{foo}"]);
}

#[tokio::test]
async fn a_stopped_node_comes_back() {
    let cluster = Cluster::start(3, 0).await;
    cluster.pause(1);
    eventually(LIMIT, "the others miss it", async || {
        let info: String = redis::cmd("CLUSTER")
            .arg("INFO")
            .query_async(&mut cluster.node(0).connection().await)
            .await
            .unwrap();
        info.contains("cluster_state:fail")
    })
    .await;
    cluster.resume(1);
    cluster.until_ok().await;
}

#[tokio::test]
async fn clients_are_told_the_proxies() {
    let cluster = Cluster::behind_proxies(2).await;
    let wrong = 1 - cluster.master_of("{foo}").await;
    let mut connection = cluster.node(wrong).connection().await;
    let answer: redis::RedisResult<()> = connection.set("{foo}", 1).await;
    let told = answer.expect_err("it is another's").to_string();
    let port = cluster.port(1 - wrong);
    assert!(told.contains(&format!("127.0.0.1:{port}")), "{told}");
    assert_ne!(port, cluster.node(1 - wrong).port());
}
