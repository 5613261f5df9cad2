//! Fences are unique and grow, whatever the nodes have counted.

use std::time::Duration;

use dlock::{
    LockKey,
    store::{
        AcquireOutcome, AcquireRequest, LockStore, QuorumNode, RaiseRequest, Raised,
        ReleaseRequest, Released, memory::MemoryStore,
    },
};
use tokio::time::sleep;

use crate::common::{Env, Kind, Mood, NODES, Node, OneKey, QuorumOfMemory};
use crate::quorum::{TTL, key_of, owner};

fn raises(env: &QuorumOfMemory) -> usize {
    env.nodes.iter().map(|node| node.count(Kind::Raise)).sum()
}

/// Lets the nodes count further than others, each by itself.
async fn diverge(nodes: &[Node], by: [u64; NODES]) {
    let key = LockKey::new("elsewhere").unwrap();
    for (node, by) in nodes.iter().zip(by) {
        let holder = owner();
        let request = AcquireRequest::new(&key, holder, TTL);
        let AcquireOutcome::Granted { fence, .. } = node.store.acquire(request).await.unwrap()
        else {
            panic!("it is free");
        };
        let far = fence + 1_000_000_000_000 + by;
        let raised = node
            .store
            .raise(RaiseRequest::new(&key, holder, fence, far))
            .await;
        assert_eq!(raised, Ok(Raised::Raised));
        node.store
            .release(ReleaseRequest::new(&key, holder))
            .await
            .unwrap();
    }
}

/// The fence that a node has stored for the lock of its holder.
async fn stored(store: &MemoryStore) -> u64 {
    let key = OneKey::new(store.clone(), "order:42");
    let asker = owner();
    match key.ask_once(asker, TTL).await {
        AcquireOutcome::Busy(holder) => holder.last_fence,
        other => panic!("nobody holds it: {other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn nodes_that_agree_are_asked_once() {
    let env = QuorumOfMemory::new();
    let key = key_of(&env);
    for round in 1..=10 {
        let holder = owner();
        key.granted(holder, TTL).await;
        key.release(holder).await;
        let asked = env.nodes.each_ref().map(|node| node.count(Kind::Acquire));
        assert_eq!((asked, raises(&env)), ([round; NODES], 0));
    }
    env.assert_clean(1, &[]).await;
}

#[tokio::test(start_paused = true)]
async fn a_minority_that_has_counted_further_costs_no_second_round() {
    let env = QuorumOfMemory::new();
    let key = key_of(&env);
    diverge(&env.nodes[4..], [0; NODES]).await;
    let holder = owner();
    // The first three agree on what was proposed.
    key.granted(holder, TTL).await;
    assert_eq!(raises(&env), 0);
    key.release(holder).await;
    env.assert_clean(1, &[]).await;
}

#[tokio::test(start_paused = true)]
async fn the_greatest_of_a_majority_is_written_back() {
    let env = QuorumOfMemory::new();
    diverge(&env.nodes, [10, 20, 30, 40, 50]).await;
    let (key, stranger) = (key_of(&env), key_of(&env));
    let holder = owner();
    let fence = key.granted(holder, TTL).await;
    assert!(raises(&env) > 0);
    let mut confirmed = 0;
    for node in &env.nodes {
        confirmed += usize::from(stored(&node.store).await >= fence);
    }
    assert!(confirmed >= 3, "only {confirmed} nodes know it");
    assert_eq!(
        key.granted(holder, TTL).await,
        fence,
        "broken promise: the owner has another lease: asked again"
    );
    assert_eq!(key.release(holder).await, Released::WasHeld);
    // Also for a process that has not seen any of it.
    let next = owner();
    assert!(
        stranger.granted(next, TTL).await > fence,
        "broken promise: the token did not grow"
    );
    stranger.release(next).await;
    env.assert_clean(1, &[]).await;
}

/// The node that has counted furthest is the one whose answer comes: others are raised to it.
#[tokio::test(start_paused = true)]
async fn a_node_whose_lock_has_gone_before_the_raise_is_not_counted() {
    let env = QuorumOfMemory::new();
    // The majority that grants is 0, 1 and 2; two of them have to be raised.
    diverge(&env.nodes, [10, 20, 30, 0, 0]).await;
    env.nodes[3].is(Mood::Down);
    env.nodes[4].is(Mood::Down);
    let answers = Duration::from_millis(20);
    for node in &env.nodes[..3] {
        node.is(Mood::Late(answers));
    }
    let key = key_of(&env);
    let holder = owner();
    let request = AcquireRequest::new(&key.key, holder, TTL);
    let asking = key.store.acquire(request);
    let vanishing = async {
        // Between its answer and the raise that follows.
        sleep(answers / 2).await;
        env.nodes[0].store.forget();
    };
    let (answer, ()) = tokio::join!(asking, vanishing);
    let error = answer.expect_err("two confirm, which is no majority");
    assert!(!error.is_final(), "{error}");
    assert_eq!(raises(&env), 2);
    for node in &env.nodes {
        node.is(Mood::Well);
    }
    env.assert_clean(1, &[]).await;
    let next = owner();
    key.granted(next, TTL).await;
    key.release(next).await;
    env.assert_clean(1, &[]).await;
}

/// With the same fence counted by different nodes at different times, tokens would be given twice.
#[tokio::test(start_paused = true)]
async fn tokens_grow_whichever_nodes_take_part() {
    let env = QuorumOfMemory::new();
    diverge(&env.nodes, [5, 0, 3, 9, 1]).await;
    let processes = [key_of(&env), key_of(&env), key_of(&env)];
    let mut fences = Vec::new();
    for round in 0..60 {
        let away = [round % NODES, (round * 3 + 1) % NODES];
        for node in away {
            env.nodes[node].is(if round % 2 == 0 {
                Mood::Down
            } else {
                Mood::Mute
            });
        }
        let key = &processes[round % processes.len()];
        let holder = owner();
        fences.push(key.granted(holder, TTL).await);
        key.release(holder).await;
        for node in away {
            env.nodes[node].is(Mood::Well);
        }
        env.assert_clean(1, &[]).await;
        if round % 7 == 0 {
            diverge(&env.nodes[round % 3..], [round as u64; NODES]).await;
        }
    }
    assert!(
        fences.is_sorted_by(|one, two| one < two),
        "broken promise: the token did not grow: {fences:?}"
    );
}
