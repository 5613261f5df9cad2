//! Fences of a cluster: a counter for each slot, however many locks there were.

use std::collections::HashSet;

use dlock::Wait;
use dlock_testkit::{Cluster, eventually};
use futures_util::{StreamExt, stream};

use crate::cluster::{LIMIT, env, process};
use crate::common::{assert_idle, soon};

/// Keys of which some have a slot in common, unlike those of numbers in a row.
fn order(number: usize) -> String {
    format!("order:{}", 104_729 * number)
}

#[tokio::test]
async fn two_thousand_locks_leave_a_counter_for_each_slot_that_they_used() {
    // So many share a hundred slots.
    const LOCKS: usize = 2_000;
    const HELD: usize = 50;
    let env = env(Cluster::start(3, 0).await);
    let cluster = &env.cluster;
    let (manager, other) = (process(cluster).await, process(cluster).await);
    let mut held = Vec::new();
    let mut waiting = Vec::new();
    for number in 0..HELD {
        let key = format!("held:{number}");
        held.push(soon(manager.lock(&*key).acquire()).await.unwrap());
        let lock = other.lock(&*key).wait(Wait::Forever);
        waiting.push(tokio::spawn(async move { lock.acquire().await.unwrap() }));
    }
    let sections = stream::iter(0..LOCKS).for_each_concurrent(128, async |number| {
        let lock = manager.lock(order(number)).wait(2 * LIMIT);
        let guard = lock.acquire().await.unwrap();
        guard.release().await.unwrap();
    });
    sections.await;
    // A release that is late on a busy machine is repeated in the background.
    eventually(LIMIT, "no lock is left", async || {
        cluster.keys("dlock:{order:*").await.is_empty()
    })
    .await;
    let names = (0..LOCKS).map(order);
    let names = names.chain((0..HELD).map(|it| format!("held:{it}")));
    let slots = stream::iter(names).then(async |name| cluster.slot_of(&name).await);
    let slots: HashSet<_> = slots.collect().await;
    assert!(slots.len() < LOCKS, "none have a slot in common");
    eventually(LIMIT, "all wait", async || {
        cluster.keys("dlock:{held*}:*q").await.len() == HELD
    })
    .await;
    let keys = cluster.keys("*").await;
    let fences = keys.iter().filter(|key| key.starts_with("dlock:fence:"));
    assert_eq!(fences.count(), slots.len());
    // A lock, a queue and who lives in it for each key that is held and waited for.
    assert_eq!(keys.len(), slots.len() + 3 * HELD);
    for guard in held {
        soon(guard.release()).await.unwrap();
    }
    for waiting in waiting {
        soon(soon(waiting).await.unwrap().release()).await.unwrap();
    }
    assert_idle(&[&manager, &other]).await;
    assert_eq!(cluster.keys("dlock:{*").await, Vec::<String>::new());
}
