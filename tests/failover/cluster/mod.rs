//! Locks in a Redis Cluster whose nodes die, whose slots move, and whose messages get lost.
#![cfg(feature = "redis")]

mod chaos;
mod connections;
mod failover;
mod fences;
mod hints;
mod migration;
mod modes;
mod nodes;
mod raw_keys;
mod refusals;
#[cfg(feature = "tls")]
mod tls;

use std::time::Duration;

use dlock::{
    LockGuard, LockManager, StoreError, Wait,
    store::redis::{RedisConfig, RedisStore},
};
use dlock_testkit::{Cluster, eventually};
use tokio::task::JoinHandle;

use crate::common::{LIMIT, OneKey, RedisCluster, soon, stored};

/// Longer than a fail-over takes on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn env(cluster: Cluster) -> RedisCluster {
    RedisCluster {
        cluster: cluster.into(),
    }
}

/// A process over the cluster.
async fn process(cluster: &Cluster) -> LockManager {
    let builder = LockManager::builder().handover(false);
    builder.connect(&cluster.url()).await.unwrap()
}

async fn store(cluster: &Cluster) -> RedisStore {
    let config = RedisConfig::new(cluster.url());
    RedisStore::connect(config).await.unwrap()
}

/// The slot of a lock.
async fn slot(cluster: &Cluster, key: &str) -> u16 {
    cluster.slot_of(&stored(key)).await
}

/// Which node has a lock.
async fn home(cluster: &Cluster, key: &str) -> usize {
    cluster.master_of(&stored(key)).await
}

/// A lock that lies on this node.
async fn lock_on(cluster: &Cluster, node: usize) -> String {
    for number in 0.. {
        let key = format!("order:{number}");
        if home(cluster, &key).await == node {
            return key;
        }
    }
    unreachable!("every node has slots");
}

/// What a node calls a command and has refused, be it because the slot is elsewhere.
async fn rejected(cluster: &Cluster, node: usize, command: &str) -> u64 {
    let report: String = redis::cmd("INFO")
        .arg("commandstats")
        .query_async(&mut cluster.node(node).connection().await)
        .await
        .unwrap();
    let line = report
        .lines()
        .find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:")));
    line.and_then(|line| {
        let field = line
            .split(',')
            .find_map(|it| it.strip_prefix("rejected_calls="));
        field.map(|number| number.parse().unwrap())
    })
    .unwrap_or(0)
}

/// Somebody of another process who waits for as long as it takes.
fn waiting(manager: &LockManager, key: &str) -> JoinHandle<LockGuard> {
    let lock = manager.lock(key).wait(Wait::Forever);
    tokio::spawn(async move { lock.acquire().await.unwrap() })
}

/// Whether a lock that is given back goes to the other process by a hint: it begins with the grant
/// alone, and without a question.
async fn goes_by_hint(cluster: &Cluster, from: &LockManager, to: &LockManager, key: &str) -> bool {
    const GRANT: Duration = Duration::from_secs(3);
    let probe = OneKey::new(store(cluster).await, key);
    let guard = soon(from.lock(key).acquire()).await.unwrap();
    let waiting = waiting(to, key);
    probe.until_waiting(1).await;
    soon(guard.release()).await.unwrap();
    let guard = soon(waiting).await.unwrap();
    let by_hint = guard.remaining() <= GRANT;
    soon(guard.release()).await.unwrap();
    by_hint
}

/// That hints reach the other process from every node that has slots.
async fn hints_come_from(cluster: &Cluster, managers: &[LockManager; 2], nodes: &[usize]) {
    for &node in nodes {
        let key = lock_on(cluster, node).await;
        eventually(PATIENCE, "a hint reaches the waiter", async || {
            goes_by_hint(cluster, &managers[0], &managers[1], &key).await
        })
        .await;
    }
}

/// The lock, as soon as the cluster gives it. It is free but for the state of the cluster.
async fn as_soon_as_possible(manager: &LockManager, key: &str) -> LockGuard {
    let mut got = None;
    eventually(PATIENCE, "the lock can be taken again", async || {
        got = manager.lock(key).try_acquire().await.unwrap_or_default();
        got.is_some()
    })
    .await;
    got.expect("it was waited for")
}

/// Whether an error tells of a slot on the move.
fn tells_of_move(error: &StoreError, slot: u16) -> bool {
    let text = error.to_string();
    text.contains(&format!("slot {slot} ")) && text.contains("TRYAGAIN")
}
