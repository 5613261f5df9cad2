//! Data that is lost, restored or deleted.

use std::time::Duration;

use dlock_faults::{grew, is_released, names};
use dlock_testkit::{EtcdServer, eventually};

use crate::world::{DEADLINE, TTL, connect};

#[tokio::test]
async fn tokens_grow_although_a_snapshot_was_restored() {
    let server = EtcdServer::start().await;
    let manager = connect(&server.url()).await;
    manager.works("order:42").await;
    let backup = server.save();
    server.restart().await;
    // Revisions that the snapshot does not know.
    for number in 0..200 {
        server.put("elsewhere", &number.to_string()).await;
    }
    let before = server.revision().await;
    // A third of it passes before the holder is notified.
    let guard = manager.holds("order:42", TTL / 4).await;
    let token = guard.fencing_token();

    server.restore(&backup);
    server.restart().await;
    assert!(server.revision().await < before, "revisions were set back");
    // The restored ensemble does not know the lease: another process gets the key, and the first one is notified.
    let other = connect(&server.url()).await;
    let next = other.holds("order:42", TTL).await;
    grew(token, next.fencing_token());
    eventually(DEADLINE, "the holder is notified", async || guard.is_lost()).await;
    next.release().await.unwrap();
    // A manager that was there before has read the new base as well.
    is_released(manager.acquires_after(token, "order:42").await).await;
}

/// The snapshot has a key of a claim that is over, with a lease that later claims have used.
#[tokio::test]
async fn a_lease_of_before_a_restore_keeps_no_restored_key_alive() {
    const BRIEF: Duration = Duration::from_secs(16);
    let server = EtcdServer::start().await;
    let manager = connect(&server.url()).await;
    let cycle = async |key: &str| match manager.lock(key).ttl(BRIEF).acquire().await {
        Ok(guard) => guard.release().await.is_ok(),
        Err(_) => false,
    };
    let guard = manager.holds("order:42", BRIEF).await;
    let backup = server.save();
    server.restart().await;
    guard.release().await.ok();
    eventually(
        DEADLINE,
        "it is released, and its lease is used",
        async || cycle("order:43").await && server.keys("dlock/order:42/").await.is_empty(),
    )
    .await;

    server.restore(&backup);
    server.restart().await;
    assert_eq!(server.keys("dlock/order:42/").await.len(), 1);
    // Requests that name another lease find out that the connection is lost.
    manager.works("order:44").await;
    eventually(DEADLINE, "the restored key has ended", async || {
        cycle("order:43").await;
        server.keys("dlock/order:42/").await.is_empty()
    })
    .await;
}

/// The snapshot has the place of a waiter that is over, with a lease that other waiters of its process have.
#[tokio::test]
async fn waiters_of_before_a_restore_keep_no_restored_place_alive() {
    const BRIEF: Duration = Duration::from_secs(10);
    let server = EtcdServer::start().await;
    let (holder, waiters) = (connect(&server.url()).await, connect(&server.url()).await);
    let first = holder.holds("order:42", BRIEF).await;
    let other = holder.holds("order:43", TTL).await;
    let wait = |key: &str| tokio::spawn(waiters.lock(key).ttl(BRIEF).wait(2 * DEADLINE).acquire());
    let (leaves, stays) = (wait("order:42"), wait("order:43"));
    eventually(DEADLINE, "both wait", async || {
        server.keys("dlock/order:").await.len() == 4
    })
    .await;
    let backup = server.save();
    server.restart().await;
    first.release().await.ok();
    leaves.await.unwrap().unwrap().release().await.ok();
    eventually(DEADLINE, "one waits", async || {
        let claims = async |key| server.keys(key).await.len();
        claims("dlock/order:42/").await == 0 && claims("dlock/order:43/").await == 2
    })
    .await;

    server.restore(&backup);
    server.restart().await;
    assert_eq!(server.keys("dlock/order:42/").await.len(), 2);
    let next = connect(&server.url()).await;
    next.works("order:42").await;
    assert!(!stays.is_finished());
    other.release().await.unwrap();
    stays.await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test]
async fn a_key_that_is_deleted_by_hand_is_a_lost_lease() {
    let server = EtcdServer::start().await;
    let manager = connect(&server.url()).await;
    let guard = manager.holds("order:42", Duration::from_secs(3)).await;
    server.delete("dlock/order:42/").await;
    eventually(DEADLINE, "the holder is notified", async || guard.is_lost()).await;
    let lost = guard.release().await.unwrap_err();
    assert!(lost.is_lost(), "{lost}");
    manager.works("order:42").await;
}

#[tokio::test]
async fn a_server_that_is_killed_and_comes_back_loses_no_lease() {
    let server = EtcdServer::start().await;
    let (one, other) = (connect(&server.url()).await, connect(&server.url()).await);
    let guard = one.holds("order:42", TTL).await;
    server.restart().await;
    other.finds_held("order:42").await;
    one.works("order:43").await;
    is_released(guard).await;
}

#[tokio::test]
async fn a_key_of_another_program_blocks_the_lock_and_is_not_deleted() {
    let server = EtcdServer::start().await;
    let manager = connect(&server.url()).await;
    server.put("dlock/order:42/by-hand", "mine").await;
    let found = manager.lock("order:42").try_acquire().await.unwrap();
    assert!(found.is_none());
    let lock = manager.lock("order:42").wait(Duration::ZERO);
    names(&lock.acquire().await.unwrap_err(), &["delete the key"]);
    let value = server.get("dlock/order:42/by-hand").await;
    assert_eq!(value.as_deref(), Some("mine"));
    server.delete("dlock/order:42/by-hand").await;
    manager.works("order:42").await;
}
