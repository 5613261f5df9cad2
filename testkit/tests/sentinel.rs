//! Sentinels replace a master that is killed, and know the one that comes back.

use std::{pin::pin, time::Duration};

use dlock_testkit::{SentinelShape, Sentinels, eventually};
use redis::AsyncCommands;
use tokio::time::timeout;

const SOON: Duration = Duration::from_secs(30);

#[tokio::test]
async fn a_killed_master_is_replaced_and_comes_back_as_a_replica() {
    let all = Sentinels::start_with(SentinelShape {
        password: Some("secret"),
        sentinel_password: Some("other"),
        ..SentinelShape::default()
    })
    .await;
    let first = all.master().await;
    assert_eq!(first.port(), all.servers()[0].port());
    let _: () = first.connection().await.set("a", 1).await.unwrap();
    let replicas: Vec<_> = all.others(first).collect();
    eventually(SOON, "the replicas have it", async || {
        replicas[0].keys("a").await == ["a"] && replicas[1].keys("a").await == ["a"]
    })
    .await;

    all.kill_sentinel(0);
    first.kill();
    let second = all.master_after(first).await;
    let _: () = second.connection().await.set("b", 2).await.unwrap();
    assert_eq!(second.keys("*").await, ["a", "b"]);

    all.restart_sentinel(0).await;
    first.restart().await;
    all.until_in_sync(&[first]).await;
    assert_eq!(first.keys("*").await, ["a", "b"]);
}

#[tokio::test]
async fn a_sentinel_that_stands_still_is_waited_for() {
    let all = Sentinels::start_small().await;
    all.pause_sentinel(0);
    let mut master = pin!(all.master());
    // Longer than one question has.
    let unanswered = timeout(Duration::from_secs(2), &mut master).await;
    assert!(unanswered.is_err());
    all.resume_sentinel(0);
    let master = timeout(SOON, master).await.unwrap();
    assert_eq!(master.port(), all.servers()[0].port());
}

#[tokio::test]
async fn a_replica_that_is_cut_off_misses_what_comes_then() {
    let all = Sentinels::start_with(SentinelShape {
        replicas: 1,
        sentinels: 1,
        failover_timeout: Duration::from_secs(60),
        ..SentinelShape::default()
    })
    .await;
    let [master, replica] = all.servers() else {
        panic!("there are two");
    };
    let _: () = master.connection().await.set("a", 1).await.unwrap();
    eventually(SOON, "the replica has it", async || {
        replica.keys("a").await == ["a"]
    })
    .await;
    all.cut_off(replica).await;
    let _: () = master.connection().await.set("b", 2).await.unwrap();
    master.kill();
    let second = all.master_after(master).await;
    assert_eq!(second.port(), replica.port());
    assert_eq!(second.keys("*").await, ["a"]);
}
