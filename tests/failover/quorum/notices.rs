//! Notices: waiters learn that the lock is free, and send their request.

use std::time::Duration;

use dlock::{LockManager, store::Released};
use tokio::{task::JoinHandle, time::Instant};

use crate::common::{Env, Kind, Mood, NODES, QuorumOfMemory, soon};
use crate::quorum::{TTL, key_of, owner};

/// A manager's task that waits for the lock.
async fn waiting(
    env: &QuorumOfMemory,
    manager: &LockManager,
    place: u64,
) -> JoinHandle<dlock::LockGuard> {
    let lock = manager.lock("order:42").wait(TTL);
    let task = tokio::spawn(async move { lock.acquire().await.unwrap() });
    key_of(env).until_waiting(place).await;
    task
}

fn asked(env: &QuorumOfMemory) -> [usize; NODES] {
    env.nodes.each_ref().map(|node| node.count(Kind::Acquire))
}

#[tokio::test(start_paused = true)]
async fn a_release_makes_the_first_waiter_ask_at_once_and_nobody_else() {
    let env = QuorumOfMemory::new();
    let managers = [
        env.manager().await,
        env.manager().await,
        env.manager().await,
    ];
    let guard = soon(managers[0].lock("order:42").acquire()).await.unwrap();
    let first = waiting(&env, &managers[1], 1).await;
    let second = waiting(&env, &managers[2], 2).await;
    let (begin, before) = (Instant::now(), asked(&env));
    soon(guard.release()).await.unwrap();
    let guard = soon(first).await.unwrap();
    assert!(begin.elapsed().is_zero(), "after {:?}", begin.elapsed());
    assert_eq!(asked(&env), before.map(|count| count + 1), "one question");
    assert!(!second.is_finished());
    soon(guard.release()).await.unwrap();
    let guard = soon(second).await.unwrap();
    assert!(begin.elapsed().is_zero(), "after {:?}", begin.elapsed());
    soon(guard.release()).await.unwrap();
    env.assert_clean(1, &managers.iter().collect::<Vec<_>>())
        .await;
}

/// Then the notices of the others are no majority: it takes a moment, but no second.
#[tokio::test(start_paused = true)]
async fn a_waiter_is_woken_although_nodes_say_nothing() {
    let env = QuorumOfMemory::new();
    let managers = [env.manager().await, env.manager().await];
    let guard = soon(managers[0].lock("order:42").acquire()).await.unwrap();
    let next = waiting(&env, &managers[1], 1).await;
    // Three nodes have lost their queues, and the lock.
    for node in &env.nodes[..3] {
        node.store.forget();
    }
    let begin = Instant::now();
    // That is for the holder to find out.
    assert!(soon(guard.release()).await.is_err());
    let guard = soon(next).await.unwrap();
    assert!(
        begin.elapsed() < Duration::from_millis(50),
        "{:?}",
        begin.elapsed()
    );
    soon(guard.release()).await.unwrap();
    env.assert_clean(1, &[&managers[0], &managers[1]]).await;
}

/// A waiter is told of nothing that would let it in without asking.
#[tokio::test(start_paused = true)]
async fn a_release_makes_nobody_the_holder() {
    let env = QuorumOfMemory::new();
    let key = key_of(&env);
    let [holder, waiter, passer_by] = [owner(), owner(), owner()];
    key.granted(holder, TTL).await;
    key.busy(waiter).await;
    assert_eq!(key.release(holder).await, Released::WasHeld);
    // No node has given it to the waiter.
    key.granted(passer_by, TTL).await;
    key.busy(waiter).await;
    key.release(waiter).await;
    key.release(passer_by).await;
    env.assert_clean(1, &[]).await;
}

/// The lease of a holder that died ends on all nodes, and nobody tells: waiters look by themselves.
#[tokio::test(start_paused = true)]
async fn a_waiter_looks_when_the_lease_of_a_dead_holder_ends() {
    let env = QuorumOfMemory::new();
    let manager = env.manager().await;
    let brief = Duration::from_secs(6);
    key_of(&env).granted(owner(), brief).await;
    env.nodes[1].is(Mood::Hung);
    let begin = Instant::now();
    let guard = soon(manager.lock("order:42").wait(TTL).acquire())
        .await
        .unwrap();
    assert!(begin.elapsed() >= brief && begin.elapsed() < brief + Duration::from_secs(1));
    soon(guard.release()).await.unwrap();
    env.nodes[1].is(Mood::Well);
    env.assert_clean(1, &[&manager]).await;
}
