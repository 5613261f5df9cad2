//! Members whose disks are slow.

use std::time::Duration;

use dlock::{FencingToken, LockGuard, LockManager};
use dlock_testkit::{EtcdEnsemble, EtcdOptions, eventually};
use tokio::time::Instant;

use crate::world::{DEADLINE, TTL, builder, is_held};

/// Longer than a write takes otherwise. A request makes several, one after the other.
const DELAY: Duration = Duration::from_millis(200);

/// So short that renewals are necessary while the test runs, and long enough for a busy machine.
const HELD: Duration = Duration::from_secs(12);

async fn manager(ensemble: &EtcdEnsemble) -> LockManager {
    let builder = builder().ttl(TTL).wait(DEADLINE).response_timeout(HELD / 3);
    builder.connect(ensemble.url()).await.unwrap()
}

/// Acquires a free lock, which takes at least the delay.
async fn acquires_late(manager: &LockManager, key: &str) -> LockGuard {
    let asked = Instant::now();
    let guard = manager.lock(key).acquire().await.unwrap();
    let took = asked.elapsed();
    assert!(took >= DELAY, "the disks are not slow: {took:?}");
    guard
}

/// Lets one process hold a key while the other one waits for it, and returns both tokens.
async fn hands_over([one, other]: [&LockManager; 2], ensemble: &EtcdEnsemble) -> [FencingToken; 2] {
    let first = acquires_late(one, "order:43").await;
    let waiting = tokio::spawn(other.lock("order:43").acquire());
    eventually(DEADLINE, "the other process waits", async || {
        let claims = ensemble.members()[0].keys("dlock/order:43/").await;
        claims.len() == 2
    })
    .await;
    assert!(!waiting.is_finished(), "broken promise: two hold the key");
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
async fn locks_go_on_while_the_disks_of_all_members_are_slow() {
    let ensemble = EtcdEnsemble::start_with(EtcdOptions::new().slow_disk(DELAY)).await;
    let (one, other) = tokio::join!(manager(&ensemble), manager(&ensemble));
    let held = one.lock("order:42").ttl(HELD).acquire().await.unwrap();
    let acquired = Instant::now();
    let mut last = None;
    while acquired.elapsed() < HELD * 3 / 2 {
        for managers in [[&one, &other], [&other, &one]] {
            for token in hands_over(managers, &ensemble).await {
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
