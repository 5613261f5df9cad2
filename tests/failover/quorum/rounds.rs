//! Votes that are split, and what a failed round leaves to later ones.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use dlock::{
    LockManager, Wait,
    store::{
        AcquireOutcome, AcquireRequest, LockStore, OwnerId, Released, Renewal, quorum::Quorum,
    },
};
use dlock_testkit::eventually;
use tokio::{task::JoinSet, time::Instant};

use crate::common::{Env, Kind, LIMIT, Mood, NODES, Node, OneKey, QuorumOfMemory, soon};
use crate::quorum::{TTL, key_of, owner};

/// A process for which some nodes are near and the others are far.
fn near(env: &QuorumOfMemory, nodes: &[usize]) -> Quorum {
    let seen = env.nodes.each_ref().map(Node::seen_by_another);
    for (number, node) in seen.iter().enumerate() {
        if !nodes.contains(&number) {
            node.is(Mood::Slow(Duration::from_millis(4)));
        }
    }
    Quorum::of(seen).unwrap()
}

#[tokio::test(start_paused = true)]
async fn three_that_split_the_vote_all_get_their_turn_within_a_second() {
    for _ in 0..20 {
        let env = QuorumOfMemory::new();
        let order = Arc::new(Mutex::new(Vec::new()));
        let begin = Instant::now();
        let mut tasks = JoinSet::new();
        let mut managers = Vec::new();
        for nodes in [&[0, 1][..], &[2, 3], &[4]] {
            let manager = LockManager::builder()
                .build_with_store(near(&env, nodes))
                .unwrap();
            let (lock, order) = (manager.lock("order:42").wait(Wait::Forever), order.clone());
            managers.push(manager);
            tasks.spawn(async move {
                let guard = lock.acquire().await.unwrap();
                order.lock().unwrap().push(guard.fencing_token());
                guard.release().await.unwrap();
            });
        }
        while let Some(task) = soon(tasks.join_next()).await {
            task.unwrap();
        }
        assert!(
            begin.elapsed() < Duration::from_secs(1),
            "{:?}",
            begin.elapsed()
        );
        let order = order.lock().unwrap().clone();
        assert!(order.is_sorted_by(|one, two| one < two), "{order:?}");
        env.assert_clean(1, &managers.iter().collect::<Vec<_>>())
            .await;
    }
}

/// Without waiting, one of them gets it, or all are told that it is taken.
#[tokio::test(start_paused = true)]
async fn a_split_vote_ends_for_those_who_do_not_wait() {
    let env = QuorumOfMemory::new();
    let mut tasks = JoinSet::new();
    for nodes in [&[0, 1][..], &[2, 3], &[4]] {
        let key = OneKey::new(near(&env, nodes), "order:42");
        tasks.spawn(async move {
            let owner = owner();
            let answer = key.ask_once(owner, TTL).await;
            if matches!(answer, AcquireOutcome::Granted { .. }) {
                assert_eq!(key.release(owner).await, Released::WasHeld);
            }
            answer
        });
    }
    let mut granted = 0;
    while let Some(answer) = soon(tasks.join_next()).await {
        granted += usize::from(matches!(answer.unwrap(), AcquireOutcome::Granted { .. }));
    }
    assert!(granted >= 1, "somebody is the last to give up");
    env.assert_clean(1, &[]).await;
}

/// A release that was sent for a round which failed comes through when the next one has been
/// granted. Under the same id it would take a node from the grant, and nobody would know.
#[tokio::test(start_paused = true)]
async fn a_late_release_of_an_old_round_does_not_harm_the_new_one() {
    let env = QuorumOfMemory::new();
    let (holding, asking) = (key_of(&env), key_of(&env));
    let (holder, asker) = (owner(), owner());
    // The holder has just a majority, so the asker gets the other two and gives them back.
    for node in &env.nodes[3..] {
        node.is(Mood::Down);
    }
    holding.granted(holder, TTL).await;
    for node in &env.nodes[3..] {
        node.is(Mood::DefersReleases);
    }
    asking.busy(asker).await;
    let old: Vec<_> = env.nodes[3].asked().into_iter().map(|(_, id)| id).collect();
    assert!(env.nodes[3].count(Kind::Release) > 0, "{old:?}");
    holding.release(holder).await;
    // What is repeated comes through, and frees the nodes for the next round.
    for node in &env.nodes[3..] {
        node.is(Mood::Well);
    }
    eventually(LIMIT, "they are free", async || env.left()[3..] == [0, 0]).await;

    // Two of the other three are away: the grant needs the two that are about to be told.
    for node in &env.nodes[..2] {
        node.is(Mood::Down);
    }
    let fence = asking.granted(asker, TTL).await;
    assert_eq!(env.left()[2..], [1, 1, 1]);
    assert!(env.nodes[3].carry_out_deferred().await > 0);
    assert!(env.nodes[4].carry_out_deferred().await > 0);
    assert_eq!(
        env.left()[2..],
        [1, 1, 1],
        "a release of another round took the lock"
    );
    assert_eq!(asking.renew(asker).await, Renewal::Renewed);
    assert_eq!(asking.granted(asker, TTL).await, fence);
    assert_eq!(asking.release(asker).await, Released::WasHeld);
    for node in &env.nodes {
        node.is(Mood::Well);
    }
    env.assert_clean(1, &[]).await;
}

/// Who is refused by a majority gives back the rest, and keeps its place with the majority.
#[tokio::test(start_paused = true)]
async fn a_waiter_keeps_its_places_while_it_gives_back_what_it_got() {
    let env = QuorumOfMemory::new();
    let (holding, asking) = (key_of(&env), key_of(&env));
    let (holder, waiter) = (owner(), owner());
    holding.granted(holder, TTL).await;
    for _ in 0..5 {
        // A node that has restarted lets the waiter in.
        env.nodes[2].store.forget();
        let seen = asking.busy(waiter).await;
        assert_eq!(seen.position, Some(0));
        assert_eq!(env.left()[2], 0, "given back at once");
        let ids: Vec<_> = env.nodes[0].asked().into_iter().map(|(_, id)| id).collect();
        assert!(ids[1..].iter().all(|id| *id == ids[1]), "one id: {ids:?}");
    }
    let ids: Vec<_> = env.nodes[2].asked().into_iter().collect();
    let mut asks: Vec<_> = ids
        .iter()
        .filter(|(kind, _)| *kind == Kind::Acquire)
        .collect();
    let count = asks.len();
    asks.dedup();
    assert_eq!(asks.len(), count, "another id for each round");
    asking.release(waiter).await;
    holding.release(holder).await;
    env.assert_clean(1, &[]).await;
}

/// An attempt whose number fills the bits that rounds need is refused, and leaves nothing.
#[tokio::test(start_paused = true)]
async fn an_attempt_without_room_for_rounds_is_refused() {
    let env = QuorumOfMemory::new();
    let key = OneKey::new(env.quorum(), "order:42");
    let owner = OwnerId::new(owner().client(), u64::MAX);
    let request = AcquireRequest::new(&key.key, owner, TTL);
    let error = key.store.acquire(request).await.unwrap_err();
    assert!(error.is_final(), "{error}");
    assert_eq!(env.left(), [0; NODES]);
}

#[test]
fn fewer_than_three_stores_are_no_quorum() {
    for count in [0, 1, 2, 32] {
        let error = Quorum::of((0..count).map(|_| Node::new())).unwrap_err();
        assert!(error.to_string().contains("3 to 31"), "{error}");
    }
    assert!(Quorum::of((0..4).map(|_| Node::new())).is_ok());
}
