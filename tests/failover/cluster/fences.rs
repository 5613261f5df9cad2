//! Fences of a cluster: a counter for each slot, however many locks there were.

use dlock::Wait;
use dlock_testkit::{Cluster, eventually};
use futures_util::{StreamExt, stream};

use crate::cluster::{LIMIT, env, process};
use crate::common::{assert_idle, soon};

#[tokio::test]
async fn twenty_thousand_locks_leave_a_counter_for_each_slot() {
    // More than there are slots, each of which has room for several.
    const LOCKS: usize = 20_000;
    const HELD: usize = 50;
    const SLOTS: usize = 16_384;
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
        let lock = manager.lock(format!("order:{number}")).wait(2 * LIMIT);
        let guard = lock.acquire().await.unwrap();
        guard.release().await.unwrap();
    });
    sections.await;
    // A release that is late on a busy machine is repeated in the background.
    eventually(LIMIT, "no lock is left", async || {
        cluster.keys("dlock:{order:*").await.is_empty()
    })
    .await;
    let keys = cluster.keys("*").await;
    // A lock that is waited for has two queues besides.
    assert!(keys.len() <= SLOTS + 3 * HELD, "{} keys", keys.len());
    let fences = keys.iter().filter(|key| key.starts_with("dlock:fence:"));
    let fences = fences.count();
    // Most slots were hit.
    assert!(fences > SLOTS / 2 && fences <= SLOTS, "{fences} fences");
    println!(
        "{} keys after {LOCKS} locks, {fences} of them fences",
        keys.len()
    );
    for guard in held {
        soon(guard.release()).await.unwrap();
    }
    for waiting in waiting {
        soon(soon(waiting).await.unwrap().release()).await.unwrap();
    }
    assert_idle(&[&manager, &other]).await;
    assert_eq!(cluster.keys("dlock:{*").await, Vec::<String>::new());
}
