//! Servers whose disks are slow.

use std::time::Duration;

use dlock::{FencingToken, LockGuard, LockManager};
use dlock_testkit::{Disk, ZooKeepers, eventually};
use tokio::time::Instant;
use zookeeper_client::Client;

use crate::world::{LIMIT, SESSION, TTL, client, is_held, manager, url};

/// Longer than a write takes otherwise, and shorter than the time for an answer.
const DELAY: Duration = Duration::from_millis(300);

/// So short that renewals are necessary while the test runs, and long enough for a busy machine.
const HELD: Duration = Duration::from_secs(12);

/// Acquires a free lock, which takes at least the delay.
async fn acquires_late(manager: &LockManager, key: &str) -> LockGuard {
    let asked = Instant::now();
    let guard = manager.lock(key).acquire().await.unwrap();
    let took = asked.elapsed();
    assert!(took >= DELAY, "the disks are not slow: {took:?}");
    guard
}

/// Lets one process hold a key while the other one waits for it, and returns both tokens.
async fn hands_over(
    [one, other]: [&LockManager; 2],
    key: &'static str,
    client: &Client,
) -> [FencingToken; 2] {
    let first = acquires_late(one, key).await;
    let waiting = tokio::spawn(other.lock(key).acquire());
    eventually(LIMIT, "the other process waits", async || {
        let children = client.list_children(&format!("/slow/lock:{key}")).await;
        children.is_ok_and(|children| children.len() == 2)
    })
    .await;
    assert!(!waiting.is_finished(), "broken promise: two hold `{key}`");
    let token = first.fencing_token();
    let released = Instant::now();
    first.release().await.unwrap();
    let second = waiting.await.unwrap().unwrap();
    let took = released.elapsed();
    assert!(took >= DELAY, "the release was not written: {took:?}");
    let tokens = [token, second.fencing_token()];
    second.release().await.unwrap();
    tokens
}

#[tokio::test]
async fn locks_go_on_while_the_disks_of_all_servers_are_slow() {
    let disk = Disk::new();
    let servers = ZooKeepers::start_on(&disk).await;
    let url = url(&servers, SESSION, "slow");
    let (one, other) = tokio::join!(manager(&url, TTL), manager(&url, TTL));
    let client = client(&servers).await;
    disk.slow_down(DELAY);
    let asked = Instant::now();
    let held = one.lock("order:42").ttl(HELD).acquire().await.unwrap();
    assert!(asked.elapsed() >= DELAY, "the disks are not slow");

    let mut last = None;
    while asked.elapsed() < HELD * 3 / 2 {
        for managers in [[&one, &other], [&other, &one]] {
            for token in hands_over(managers, "order:43", &client).await {
                assert!(
                    last.is_none_or(|last| last < token),
                    "broken promise: the token did not grow: {last:?} {token:?}"
                );
                last = Some(token);
            }
        }
        held.ensure_held().unwrap();
    }
    // Renewals have kept it beyond its first deadline.
    is_held(&other, "order:42").await;
    let token = held.fencing_token();
    held.release().await.unwrap();
    let next = acquires_late(&other, "order:42").await;
    assert!(
        next.fencing_token() > token,
        "broken promise: the token did not grow"
    );
    next.release().await.unwrap();
}
