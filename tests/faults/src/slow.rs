//! Servers whose disks are slow.

use std::time::Duration;

use dlock_runtime::{FencingToken, LockGuard, LockRequest};
use dlock_testkit::eventually;
use tokio::time::Instant;

use crate::{Process, World, grew, is_released};

/// So short that renewals are necessary while the test runs, and long enough for a busy machine.
pub const HELD: Duration = Duration::from_secs(12);

/// Two processes lock while each write takes longer by `delay`, beyond the first deadline of a lease.
pub async fn locks_go_on<W: World>(world: &W, [one, other]: [Process; 2], delay: Duration) {
    let held = acquires_late(one.lock("order:42").ttl(HELD), delay).await;
    let acquired = Instant::now();
    let mut last = None;
    while acquired.elapsed() < HELD * 3 / 2 {
        for processes in [[&one, &other], [&other, &one]] {
            for token in hands_over(world, processes, delay).await {
                grew(last, token);
                last = Some(token);
            }
        }
        held.ensure_held().unwrap();
    }
    // Renewals have kept it.
    other.finds_held("order:42").await;
    let token = held.fencing_token();
    is_released(held).await;
    let next = acquires_late(other.lock("order:42"), delay).await;
    grew(token, next.fencing_token());
    is_released(next).await;
}

/// Lets one process hold a key while the other one waits for it, and returns both tokens.
async fn hands_over<W: World>(
    world: &W,
    [one, other]: [&Process; 2],
    delay: Duration,
) -> [FencingToken; 2] {
    const KEY: &str = "order:43";
    let first = acquires_late(one.lock(KEY), delay).await;
    let waiting = tokio::spawn(other.lock(KEY).acquire());
    let waits = async || world.claims(KEY).await == 2;
    eventually(W::DEADLINE, "the other process waits", waits).await;
    assert!(!waiting.is_finished(), "broken promise: two hold `{KEY}`");
    let token = first.fencing_token();
    let released = Instant::now();
    first.release().await.unwrap();
    let second = waiting.await.unwrap().unwrap();
    let took = released.elapsed();
    assert!(took >= delay, "the release was not written: {took:?}");
    let tokens = [token, second.fencing_token()];
    second.release().await.unwrap();
    tokens
}

/// Acquires a free lock, which takes at least the delay.
async fn acquires_late(lock: LockRequest, delay: Duration) -> LockGuard {
    let asked = Instant::now();
    let guard = lock.acquire().await.unwrap();
    let took = asked.elapsed();
    assert!(took >= delay, "the disks are not slow: {took:?}");
    guard
}
