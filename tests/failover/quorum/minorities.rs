//! A minority that fails hinders nobody, and a majority that fails leaves nothing.

use std::time::Duration;

use dlock::{
    LockError, LockManager, StoreErrorKind,
    store::{AcquireOutcome, AcquireRequest, LockStore, ReleaseRequest, Released, Renewal},
};
use dlock_testkit::eventually;
use tokio::time::Instant;

use crate::common::{Env, Kind, LIMIT, Mood, NODES, QuorumOfMemory, soon};
use crate::quorum::{TTL, key_of, owner};

const MOODS: [Mood; 4] = [
    Mood::Down,
    Mood::Hung,
    Mood::Mute,
    Mood::Late(Duration::from_millis(300)),
];

#[tokio::test(start_paused = true)]
async fn two_of_five_that_fail_cost_neither_the_lock_nor_time() {
    for first in MOODS {
        for second in MOODS {
            let env = QuorumOfMemory::new();
            env.nodes[1].is(first);
            env.nodes[4].is(second);
            let key = key_of(&env);
            let holder = owner();
            let begin = Instant::now();
            let fence = key.granted(holder, TTL).await;
            assert_eq!(key.renew(holder).await, Renewal::Renewed);
            assert_eq!(key.release(holder).await, Released::WasHeld);
            assert!(begin.elapsed().is_zero(), "{:?}", begin.elapsed());
            let next = owner();
            assert!(
                key.granted(next, TTL).await > fence,
                "broken promise: the token did not grow"
            );
            assert_eq!(key.release(next).await, Released::WasHeld);
            // What they have got late, or without a word, is given back as soon as they listen.
            env.nodes[1].is(Mood::Well);
            env.nodes[4].is(Mood::Well);
            env.assert_clean(1, &[]).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiter_is_told_busy_although_two_fail() {
    for mood in MOODS {
        let env = QuorumOfMemory::new();
        let (holding, asking) = (key_of(&env), key_of(&env));
        let holder = owner();
        let fence = holding.granted(holder, TTL).await;
        env.nodes[0].is(mood);
        env.nodes[3].is(mood);
        let begin = Instant::now();
        let waiter = owner();
        let seen = asking.busy(waiter).await;
        assert_eq!((seen.last_fence, seen.position), (fence, Some(0)));
        assert!(begin.elapsed() <= Duration::from_millis(2), "{mood:?}");
        assert_eq!(asking.release(waiter).await, Released::WasGone);
        holding.release(holder).await;
        env.nodes[0].is(Mood::Well);
        env.nodes[3].is(Mood::Well);
        env.assert_clean(1, &[]).await;
    }
}

/// With two that fail at once, one that is busy makes the refusal certain, but not its reason.
#[tokio::test(start_paused = true)]
async fn busy_is_told_although_the_majority_takes_longer_than_the_failures() {
    let env = QuorumOfMemory::new();
    let (holding, asking) = (key_of(&env), key_of(&env));
    let holder = owner();
    holding.granted(holder, TTL).await;
    env.nodes[0].is(Mood::Down);
    env.nodes[3].is(Mood::Down);
    for (node, late) in [(1, 1), (2, 30), (4, 60)] {
        env.nodes[node].is(Mood::Late(Duration::from_millis(late)));
    }
    let answer = asking.ask_once(owner(), TTL).await;
    assert!(
        matches!(answer, AcquireOutcome::Busy(_)),
        "broken promise: two hold the key: {answer:?}"
    );
    for node in &env.nodes {
        node.is(Mood::Well);
    }
    assert_eq!(holding.release(holder).await, Released::WasHeld);
    env.assert_clean(1, &[]).await;
}

#[tokio::test(start_paused = true)]
async fn without_a_majority_there_is_an_error_in_time_and_nothing_is_left() {
    for mood in MOODS {
        let env = QuorumOfMemory::new();
        // Late enough for nobody to wait for it.
        let mood = match mood {
            Mood::Late(_) => Mood::Late(Duration::from_secs(3)),
            mood => mood,
        };
        for node in &env.nodes[..3] {
            node.is(mood);
        }
        let key = key_of(&env);
        let begin = Instant::now();
        let request = AcquireRequest::new(&key.key, owner(), TTL);
        let error = key.store.acquire(request).await.unwrap_err();
        let limit = key.store.properties().gives_up_after.unwrap();
        assert!(begin.elapsed() <= limit, "{:?}", begin.elapsed());
        let expected = match mood {
            Mood::Down => StoreErrorKind::Unreachable,
            _ => StoreErrorKind::TimedOut,
        };
        assert_eq!(error.kind(), expected, "{error}");
        assert!(error.message().contains("only 2 of 5"), "{error}");
        eventually(LIMIT, "the minority is free again", async || {
            env.left()[3..] == [0, 0]
        })
        .await;
        for node in &env.nodes {
            node.is(Mood::Well);
        }
        env.assert_clean(1, &[]).await;
    }
}

/// What a manager says of it, and that it gives back what it may have got.
#[tokio::test(start_paused = true)]
async fn a_manager_without_a_majority_is_unavailable_within_its_wait() {
    let env = QuorumOfMemory::new();
    for node in &env.nodes[1..4] {
        node.is(Mood::Mute);
    }
    let manager = env.manager().await;
    let wait = Duration::from_secs(3);
    let begin = Instant::now();
    let error = soon(manager.lock("order:42").wait(wait).acquire())
        .await
        .unwrap_err();
    assert!(matches!(error, LockError::Unavailable { .. }), "{error}");
    assert!(error.to_string().contains("of 5"), "{error}");
    assert!(begin.elapsed() <= wait + Duration::from_secs(1));
    for node in &env.nodes {
        node.is(Mood::Well);
    }
    env.assert_clean(1, &[&manager]).await;
    let guard = soon(manager.lock("order:42").acquire()).await.unwrap();
    soon(guard.release()).await.unwrap();
    env.assert_clean(1, &[&manager]).await;
}

/// A node that is back has its part in the next lock.
#[tokio::test(start_paused = true)]
async fn nodes_that_come_back_take_part_again() {
    let env = QuorumOfMemory::new();
    let key = key_of(&env);
    let mut last = 0;
    for away in 0..NODES {
        let others = [away, (away + 1) % NODES];
        for node in others {
            env.nodes[node].is(Mood::Down);
        }
        let holder = owner();
        let fence = key.granted(holder, TTL).await;
        assert!(fence > last, "broken promise: the token did not grow");
        last = fence;
        assert_eq!(env.left().iter().sum::<usize>(), NODES - 2);
        assert_eq!(key.release(holder).await, Released::WasHeld);
        for node in others {
            env.nodes[node].is(Mood::Well);
        }
    }
    env.assert_clean(1, &[]).await;
}

/// Three of five say so, or the lease is not lost.
#[tokio::test(start_paused = true)]
async fn not_mine_from_some_is_no_loss_and_from_a_majority_is_one() {
    for gone in 0..=NODES {
        let env = QuorumOfMemory::new();
        let key = key_of(&env);
        let holder = owner();
        key.granted(holder, TTL).await;
        for node in &env.nodes[..gone] {
            node.store.forget();
        }
        let (renewal, release) = if gone < 3 {
            (Renewal::Renewed, Released::WasHeld)
        } else {
            (Renewal::NotOwner, Released::WasGone)
        };
        assert_eq!(key.renew(holder).await, renewal, "{gone}");
        assert_eq!(key.release(holder).await, release, "{gone}");
        env.assert_clean(1, &[]).await;
    }
}

/// Two have lost it, two do not answer, one has it: nobody knows.
#[tokio::test(start_paused = true)]
async fn what_no_majority_says_is_not_known() {
    let env = QuorumOfMemory::new();
    let key = key_of(&env);
    let holder = owner();
    key.granted(holder, TTL).await;
    for node in &env.nodes[..2] {
        node.store.forget();
    }
    for node in &env.nodes[2..4] {
        node.is(Mood::Hung);
    }
    let begin = Instant::now();
    let error = key.store.renew_one(key.renewal(holder)).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::TimedOut);
    let error = key
        .store
        .release(ReleaseRequest::new(&key.key, holder))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::TimedOut);
    assert!(begin.elapsed() <= 2 * key.store.properties().gives_up_after.unwrap());
    for node in &env.nodes {
        node.is(Mood::Well);
    }
    // Asked again: one node had it, four have not any more.
    assert_eq!(key.release(holder).await, Released::WasGone);
    env.assert_clean(1, &[]).await;
}

/// One request to each node, for however many leases.
#[tokio::test(start_paused = true)]
async fn a_renewal_of_many_leases_waits_for_nobody() {
    let env = QuorumOfMemory::new();
    env.nodes[2].is(Mood::Hung);
    env.nodes[3].is(Mood::Down);
    let manager: LockManager = env.manager().await;
    let mut guards = Vec::new();
    for number in 0..20 {
        let lock = manager.lock(format!("order:{number}"));
        guards.push(soon(lock.ttl(TTL).acquire()).await.unwrap());
    }
    tokio::time::sleep(3 * TTL).await;
    for guard in guards {
        assert!(!guard.is_lost());
        soon(guard.release()).await.unwrap();
    }
    assert!(env.nodes[0].count(Kind::Renew) > 0);
    env.nodes[2].is(Mood::Well);
    env.assert_clean(20, &[&manager]).await;
}

/// Whoever is refused has nothing to give back, as long as all nodes say so.
#[tokio::test(start_paused = true)]
async fn who_does_not_wait_leaves_nothing_on_any_node() {
    let env = QuorumOfMemory::new();
    let (holding, asking) = (key_of(&env), key_of(&env));
    let holder = owner();
    holding.granted(holder, TTL).await;
    let answer = asking.ask_once(owner(), TTL).await;
    assert!(
        matches!(answer, AcquireOutcome::Busy(_)),
        "broken promise: two hold the key"
    );
    let releases = env.nodes.each_ref().map(|node| node.count(Kind::Release));
    assert_eq!(releases, [0; NODES]);
    holding.release(holder).await;
    env.assert_clean(1, &[]).await;
}

// F11
/// The section has ended well, and its release is repeated until each node is free.
#[tokio::test(start_paused = true)]
async fn a_release_without_a_majority_is_repeated_and_no_error() {
    for mood in [Mood::Down, Mood::Hung, Mood::Mute] {
        let env = QuorumOfMemory::new();
        let managers = [env.manager().await, env.manager().await];
        let guard = soon(managers[0].lock("order:42").acquire()).await.unwrap();
        eventually(LIMIT, "all nodes have it", async || {
            env.left() == [1; NODES]
        })
        .await;
        for node in &env.nodes[..3] {
            node.is(mood);
        }
        let token = guard.fencing_token();
        assert_eq!(soon(guard.release()).await, Ok(()), "{mood:?}");
        assert_eq!(managers[0].active_keys(), 1, "it is still at it");
        for node in &env.nodes {
            node.is(Mood::Well);
        }
        env.assert_clean(1, &[&managers[0]]).await;
        let next = soon(managers[1].lock("order:42").acquire()).await.unwrap();
        assert!(
            next.fencing_token() > token,
            "broken promise: the token did not grow"
        );
        soon(next.release()).await.unwrap();
        env.assert_clean(1, &[&managers[0], &managers[1]]).await;
    }
}
