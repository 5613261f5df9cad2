//! A master dies, or gives its place to a replica, while locks are held and waited for.

use std::time::{Duration, Instant};

use dlock::{LockError, LostCause};
use dlock_testkit::{Cluster, eventually};

use crate::cluster::{
    LIMIT, OneKey, PATIENCE, as_soon_as_possible, env, home, lock_on, process, store, stored,
    waiting,
};
use crate::common::{Env, is_lost, soon};

/// Several times as long as a fail-over.
const TTL: Duration = Duration::from_secs(12);

#[tokio::test]
async fn a_lease_outlives_its_master_when_a_replica_has_it() {
    let env = env(Cluster::start(3, 1).await);
    let cluster = &env.cluster;
    let (holder, waiter) = (process(cluster).await, process(cluster).await);
    let guard = holder.lock("order:42").ttl(TTL).acquire().await.unwrap();
    let token = guard.fencing_token();
    let waiting = waiting(&waiter, "order:42");
    OneKey::new(store(cluster).await, "order:42")
        .until_waiting(1)
        .await;
    let master = home(cluster, "order:42").await;
    let replica = cluster.replica_of(master).await;
    eventually(LIMIT, "the replica has the lock", async || {
        let keys = cluster.node(replica).keys("dlock:*").await;
        keys.contains(&stored("order:42"))
    })
    .await;

    let other = lock_on(cluster, master).await;
    cluster.kill(master);
    let killed = Instant::now();
    // Another lock on the node that was killed: its successor gives it as soon as it is one.
    let probe = as_soon_as_possible(&waiter, &other).await;
    println!("locks worked again {:?} after the kill", killed.elapsed());
    soon(probe.release()).await.unwrap();

    eventually(
        PATIENCE,
        "the lease was renewed by the new master",
        async || killed.elapsed() > TTL + TTL / 4,
    )
    .await;
    guard.ensure_held().unwrap();
    assert!(!waiting.is_finished(), "broken promise: two held the lock");
    soon(guard.release()).await.unwrap();
    let next = soon(waiting).await.unwrap();
    assert!(
        next.fencing_token() > token,
        "broken promise: the token did not grow"
    );
    soon(next.release()).await.unwrap();
    env.assert_clean(3, &[&holder, &waiter]).await;
}

/// What a replica had not been told when its master died is gone. The holder is told, and whoever
/// comes next has a greater token.
#[tokio::test]
async fn a_lease_that_no_replica_has_is_lost_and_tokens_grow() {
    let env = env(Cluster::start(3, 1).await);
    let cluster = &env.cluster;
    let (holder, other) = (process(cluster).await, process(cluster).await);
    let key = lock_on(cluster, 1).await;
    let replica = cluster.replica_of(1).await;
    // The replica hears no more of its master, and cannot come back before it is its successor.
    cluster.pause(replica);
    let mut connection = cluster.node(1).connection().await;
    redis::cmd("CLIENT")
        .arg(&["KILL", "TYPE", "replica"])
        .exec_async(&mut connection)
        .await
        .unwrap();

    let guard = holder.lock(&*key).ttl(TTL).acquire().await.unwrap();
    let token = guard.fencing_token();
    cluster.kill(1);
    cluster.resume(replica);
    let next = as_soon_as_possible(&other, &key).await;
    assert!(
        next.fencing_token() > token,
        "broken promise: the token did not grow"
    );
    let told = soon(guard.lost()).await;
    assert!(matches!(told, LockError::Lost { .. }), "{told}");
    let outcome = soon(guard.release()).await;
    let by_store = |cause: &LostCause| *cause == LostCause::Revoked;
    assert!(is_lost(&outcome, by_store), "{outcome:?}");
    // That has not touched what is another's.
    next.ensure_held().unwrap();
    soon(next.release()).await.unwrap();
    env.assert_clean(1, &[&holder, &other]).await;
}

/// Without losing anything: nobody notices but by the time that it takes.
#[tokio::test]
async fn masters_that_give_their_place_away_cost_nobody_a_lock() {
    let env = env(Cluster::start(3, 1).await);
    let cluster = &env.cluster;
    let (holder, waiter) = (process(cluster).await, process(cluster).await);
    let key = lock_on(cluster, 0).await;
    let mut guard = soon(holder.lock(&*key).acquire()).await.unwrap();
    for to in [3, 0] {
        let waiting = waiting(&waiter, &key);
        OneKey::new(store(cluster).await, &key)
            .until_waiting(1)
            .await;
        cluster.fail_over_to(to).await;
        assert!(!waiting.is_finished());
        let token = guard.fencing_token();
        soon(guard.release()).await.unwrap();
        let next = soon(waiting).await.unwrap();
        assert!(
            next.fencing_token() > token,
            "broken promise: the token did not grow"
        );
        soon(next.release()).await.unwrap();
        guard = as_soon_as_possible(&holder, &key).await;
    }
    soon(guard.release()).await.unwrap();
    env.assert_clean(1, &[&holder, &waiter]).await;
}
