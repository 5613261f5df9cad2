//! Hints reach a waiter from whichever node has its lock.

use dlock_testkit::Cluster;

use crate::cluster::{env, hints_come_from, lock_on, process, slot};
use crate::common::{Env, soon};

#[tokio::test]
async fn every_node_reaches_every_waiter_also_after_a_death() {
    let env = env(Cluster::start_with(3, 0, &["--cluster-require-full-coverage", "no"]).await);
    let cluster = &env.cluster;
    let managers = [process(cluster).await, process(cluster).await];
    hints_come_from(cluster, &managers, &[0, 1, 2]).await;
    let mut keys = Vec::new();
    for node in [1, 2] {
        keys.push(lock_on(cluster, node).await);
    }
    cluster.kill(0);
    for key in &keys {
        dlock_testkit::eventually(
            crate::cluster::PATIENCE,
            "a hint reaches the waiter",
            async || crate::cluster::goes_by_hint(cluster, &managers[0], &managers[1], key).await,
        )
        .await;
    }
    cluster.restart(0).await;
    cluster.until_ok().await;
    hints_come_from(cluster, &managers, &[0, 1, 2]).await;
    env.assert_clean(3, &[&managers[0], &managers[1]]).await;
}

/// A hint is passed on by every node that its waiter is connected to. One section comes of it.
#[tokio::test]
async fn a_hint_that_comes_several_times_begins_one_section() {
    let env = env(Cluster::start(3, 0).await);
    let cluster = &env.cluster;
    let managers = [process(cluster).await, process(cluster).await];
    hints_come_from(cluster, &managers, &[0]).await;
    let key = lock_on(cluster, 0).await;
    let before = cluster.command_count("publish").await;
    let (mut messages, mut by_hint) = (0, 0);
    // A machine that stands still may make the waiter ask before it sees its hint.
    dlock_testkit::eventually(
        crate::cluster::PATIENCE,
        "hints reach the waiter",
        async || {
            messages += 1;
            let goes = crate::cluster::goes_by_hint(cluster, &managers[0], &managers[1], &key);
            by_hint += u32::from(goes.await);
            by_hint == 5
        },
    )
    .await;
    // Only the node that granted has published, and nobody has asked because of a repetition.
    assert_eq!(cluster.command_count("publish").await, before + messages);
    let guard = soon(managers[0].lock(&*key).acquire()).await.unwrap();
    soon(guard.release()).await.unwrap();
    env.assert_clean(1, &[&managers[0], &managers[1]]).await;
}

/// The channel is no key: a slot that moves takes nothing of it along.
#[tokio::test]
async fn hints_come_from_a_node_that_got_its_first_slot() {
    let mut env = env(Cluster::start(2, 0).await);
    let new = env.cluster.add().await;
    let cluster = &env.cluster;
    let managers = [process(cluster).await, process(cluster).await];
    let key = lock_on(cluster, 0).await;
    hints_come_from(cluster, &managers, &[0]).await;
    cluster.migrate(slot(cluster, &key).await, new).await;
    assert_eq!(crate::cluster::home(cluster, &key).await, new);
    dlock_testkit::eventually(
        crate::cluster::PATIENCE,
        "a hint reaches the waiter",
        async || crate::cluster::goes_by_hint(cluster, &managers[0], &managers[1], &key).await,
    )
    .await;
    env.assert_clean(1, &[&managers[0], &managers[1]]).await;
}

/// Over RESP2, hints come over a second connection to each node.
#[tokio::test]
async fn hints_come_over_resp2_as_well() {
    let env = env(Cluster::start(3, 0).await);
    let url = format!("{}/?protocol=resp2", env.cluster.url());
    let builder = dlock::LockManager::builder().handover(false);
    let managers = [
        builder.clone().connect(&url).await.unwrap(),
        builder.connect(&url).await.unwrap(),
    ];
    hints_come_from(&env.cluster, &managers, &[0, 1, 2]).await;
    for sort in ["normal", "pubsub"] {
        let kill = format!("CLIENT KILL TYPE {sort}");
        env.cluster.everywhere(&kill).await;
    }
    hints_come_from(&env.cluster, &managers, &[0, 1, 2]).await;
    env.assert_clean(3, &[&managers[0], &managers[1]]).await;
}
