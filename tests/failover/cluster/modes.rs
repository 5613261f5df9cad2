//! Slots that move while several hold a lock in them together.

use std::time::Duration;

use dlock::{
    LockError, LockManager, LockMode, LockRequest,
    store::{LockStore, ReleaseRequest, Released, redis::RedisStore},
};
use dlock_testkit::{Cluster, eventually};

use crate::cluster::{
    LIMIT, OneKey, env, home, process, slot, store, stored, tells_of_move, waiting,
};
use crate::common::{Env, soon};

const KEY: &str = "order:42";
/// A machine that stands still for a second keeps its leases.
const BRIEF: Duration = Duration::from_secs(3);

/// Three processes over a cluster: two that share the lock, and one that writes.
async fn processes(cluster: &Cluster) -> [LockManager; 3] {
    [
        process(cluster).await,
        process(cluster).await,
        process(cluster).await,
    ]
}

fn reader(manager: &LockManager) -> LockRequest {
    manager.lock(KEY).shared().ttl(BRIEF)
}

fn permit(manager: &LockManager) -> LockRequest {
    manager.lock(KEY).permits(2).ttl(BRIEF)
}

/// Waits until both leases have been renewed at least twice.
async fn until_renewed(cluster: &Cluster) {
    let before = cluster.command_count("hset").await;
    eventually(LIMIT, "both leases are renewed", async || {
        cluster.command_count("hset").await >= before + 4
    })
    .await;
}

#[tokio::test]
async fn a_slot_moves_with_those_who_share_a_lock_and_the_writer_that_waits() {
    for share in [reader, permit] {
        let env = env(Cluster::start(2, 0).await);
        let cluster = &env.cluster;
        let managers = processes(cluster).await;
        let first = soon(share(&managers[0]).acquire()).await.unwrap();
        let second = soon(share(&managers[1]).acquire()).await.unwrap();
        let token = first.fencing_token();
        assert_eq!(
            token,
            second.fencing_token(),
            "broken promise: two tokens together"
        );
        let waiting = waiting(&managers[2], KEY);
        OneKey::new(store(cluster).await, KEY)
            .until_waiting(1)
            .await;
        let (slot, to) = (slot(cluster, KEY).await, 1 - home(cluster, KEY).await);
        cluster.begin_migration(slot, to).await;
        cluster.move_keys(slot, to).await;
        until_renewed(cluster).await;
        cluster.end_migration(slot, to).await;
        until_renewed(cluster).await;
        first.ensure_held().unwrap();
        assert!(!waiting.is_finished(), "broken promise: two are inside");
        let late = soon(share(&managers[1]).try_acquire()).await.unwrap();
        assert!(late.is_none(), "the writer is first: {late:?}");
        soon(first.release()).await.unwrap();
        second.ensure_held().unwrap();
        assert!(
            !waiting.is_finished(),
            "broken promise: a writer is beside a reader"
        );
        soon(second.release()).await.unwrap();
        let writer = soon(waiting).await.unwrap();
        assert!(
            writer.fencing_token() > token,
            "broken promise: the token did not grow"
        );
        soon(writer.release()).await.unwrap();
        env.assert_clean(1, &managers.iter().collect::<Vec<_>>())
            .await;
    }
}

/// Each renews and leaves although the lock is at one node and its fence at the other; nobody joins.
#[tokio::test]
async fn those_who_share_a_lock_leave_a_half_moved_slot_one_by_one() {
    for share in [reader, permit] {
        let env = env(Cluster::start(2, 0).await);
        let cluster = &env.cluster;
        let managers = processes(cluster).await;
        let first = soon(share(&managers[0]).acquire()).await.unwrap();
        let second = soon(share(&managers[1]).acquire()).await.unwrap();
        let (slot, to) = (slot(cluster, KEY).await, 1 - home(cluster, KEY).await);
        cluster.begin_migration(slot, to).await;
        cluster.move_key(&stored(KEY), to).await;
        until_renewed(cluster).await;
        let refused = soon(share(&managers[2]).wait(BRIEF).acquire()).await;
        match refused.expect_err("nobody can tell") {
            LockError::Unavailable { reason, .. } => {
                assert!(tells_of_move(&reason, slot), "{reason}");
            }
            error => panic!("{error}"),
        }
        soon(first.release()).await.unwrap();
        assert_eq!(env.locks().await, [stored(KEY)], "one is inside");
        until_renewed_alone(cluster).await;
        second.ensure_held().unwrap();
        soon(second.release()).await.unwrap();
        assert_eq!(env.locks().await, Vec::<String>::new());
        cluster.move_keys(slot, to).await;
        cluster.end_migration(slot, to).await;
        let writer = soon(managers[2].lock(KEY).acquire()).await.unwrap();
        soon(writer.release()).await.unwrap();
        env.assert_clean(1, &managers.iter().collect::<Vec<_>>())
            .await;
    }
}

async fn until_renewed_alone(cluster: &Cluster) {
    let before = cluster.command_count("hset").await;
    eventually(LIMIT, "the lease is renewed", async || {
        cluster.command_count("hset").await >= before + 2
    })
    .await;
}

/// Whoever leaves a lock in such a slot, where somebody's hash lies by now.
#[tokio::test]
async fn a_release_in_a_half_moved_slot_deletes_no_foreign_hash() {
    let env = env(Cluster::start(2, 0).await);
    let cluster = &env.cluster;
    let key = OneKey::new(store(cluster).await, KEY);
    let owner = OneKey::<RedisStore>::owner();
    key.granted(owner, LIMIT).await;
    key.release(owner).await;
    let (slot, from) = (slot(cluster, KEY).await, home(cluster, KEY).await);
    redis::cmd("HSET")
        .arg(&[&stored(KEY), "a", "1"])
        .exec_async(&mut cluster.node(from).connection().await)
        .await
        .unwrap();
    cluster.begin_migration(slot, 1 - from).await;
    cluster.move_key(&stored(KEY), 1 - from).await;
    let release = ReleaseRequest::new(&key.key, owner).mode(LockMode::Shared);
    assert_eq!(key.store.release(release).await, Ok(Released::WasGone));
    assert_eq!(env.locks().await, [stored(KEY)]);
}
