//! A renewal gives the lock again to nodes that have lost it.

use std::{future::poll_fn, pin::pin, task::Poll, time::Duration};

use dlock::store::{AcquireOutcome, LockStore, Released, Renewal};
use dlock_testkit::eventually;
use tokio::{task::yield_now, time::sleep};

use crate::common::{Env, Kind, LIMIT, Mood, NODES, QuorumOfMemory};
use crate::quorum::{TTL, key_of, owner};

/// Held on three of five, and one of those restarts empty: without a refill the two that it was not
/// held on and that one would be a majority for somebody else.
#[tokio::test(start_paused = true)]
async fn a_node_that_restarted_empty_is_given_the_lock_again() {
    let env = QuorumOfMemory::new();
    let (holding, asking) = (key_of(&env), key_of(&env));
    let holder = owner();
    for node in &env.nodes[3..] {
        node.is(Mood::Down);
    }
    let fence = holding.granted(holder, TTL).await;
    assert_eq!(env.left(), [1, 1, 1, 0, 0]);
    for node in &env.nodes[3..] {
        node.is(Mood::Well);
    }
    // They are back, and learn of it by the next renewal.
    assert_eq!(holding.renew(holder).await, Renewal::Renewed);
    eventually(LIMIT, "all nodes have it", async || {
        env.left() == [1; NODES]
    })
    .await;
    env.nodes[0].store.forget();
    env.nodes[1].store.forget();
    let answer = asking.ask_once(owner(), TTL).await;
    assert!(
        matches!(answer, AcquireOutcome::Busy(_)),
        "broken promise: two hold the key: {answer:?}"
    );
    assert_eq!(holding.renew(holder).await, Renewal::Renewed);
    eventually(LIMIT, "all nodes have it", async || {
        env.left() == [1; NODES]
    })
    .await;
    // It may have counted others meanwhile, and then so is the fence of who asks again.
    assert!(
        holding.granted(holder, TTL).await >= fence,
        "broken promise: the token became less"
    );
    assert_eq!(holding.release(holder).await, Released::WasHeld);
    env.assert_clean(1, &[]).await;
}

/// A manager does the same by itself, before others could get a majority.
#[tokio::test(start_paused = true)]
async fn a_body_outlasts_the_restart_of_one_node_after_the_other() {
    let env = QuorumOfMemory::new();
    let managers = [env.manager().await, env.manager().await];
    let body = managers[0].lock("order:42").ttl(TTL).run(async |lease| {
        for restarted in 0..3 * NODES {
            env.nodes[restarted % NODES].store.forget();
            sleep(TTL / 2).await;
            assert_eq!(env.left(), [1; NODES], "after {restarted}");
            let other = managers[1].lock("order:42").try_acquire().await.unwrap();
            assert!(other.is_none(), "broken promise: two hold the key");
            lease.ensure_held().unwrap();
        }
    });
    body.await.unwrap();
    env.assert_clean(1, &[&managers[0], &managers[1]]).await;
}

/// The release comes while the refill is under way, which is carried out later than that.
#[tokio::test(start_paused = true)]
async fn a_refill_does_not_outlive_the_release() {
    let late = Duration::from_millis(40);
    for mood in [Mood::Late(late), Mood::Slow(late), Mood::Mute] {
        let env = QuorumOfMemory::new();
        let key = key_of(&env);
        let holder = owner();
        key.granted(holder, TTL).await;
        env.nodes[4].store.forget();
        // It says that it has lost the lock, and is then slow.
        assert_eq!(key.renew(holder).await, Renewal::Renewed);
        env.nodes[4].store.forget();
        let asked = env.nodes[4].count(Kind::Acquire);
        let mut renewal = pin!(key.store.renew_one(key.renewal(holder)));
        let renewed = poll_fn(|context| Poll::Ready(renewal.as_mut().poll(context))).await;
        assert!(renewed.is_ready());
        eventually(LIMIT, "it is asked for the lock", async || {
            env.nodes[4].count(Kind::Acquire) > asked
        })
        .await;
        env.nodes[4].store.forget();
        env.nodes[4].is(mood);
        assert_eq!(key.renew(holder).await, Renewal::Renewed);
        assert_eq!(key.release(holder).await, Released::WasHeld);
        env.nodes[4].is(Mood::Well);
        env.assert_clean(1, &[]).await;
        sleep(2 * late).await;
        env.assert_clean(1, &[]).await;
    }
}

/// Somebody else's lock on a node is left alone.
#[tokio::test(start_paused = true)]
async fn a_refill_takes_nothing_from_others() {
    let env = QuorumOfMemory::new();
    let (holding, asking) = (key_of(&env), key_of(&env));
    let (holder, other) = (owner(), owner());
    holding.granted(holder, TTL).await;
    env.nodes[4].store.forget();
    let lone = crate::common::OneKey::new(env.nodes[4].store.clone(), "order:42");
    lone.granted(other, TTL).await;
    assert_eq!(holding.renew(holder).await, Renewal::Renewed);
    yield_now().await;
    assert!(matches!(
        lone.ask_once(other, TTL).await,
        AcquireOutcome::Granted { .. }
    ));
    let answer = asking.ask_once(owner(), TTL).await;
    assert!(
        matches!(answer, AcquireOutcome::Busy(_)),
        "broken promise: two hold the key: {answer:?}"
    );
    assert_eq!(holding.release(holder).await, Released::WasHeld);
    lone.release(other).await;
    env.assert_clean(1, &[]).await;
}
