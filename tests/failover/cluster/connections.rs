//! Connections that break, nodes that say nothing, and answers that never come.

use std::time::Duration;

use dlock::{
    LockManager, StoreErrorKind,
    store::{
        AcquireOutcome, AcquireRequest, LockStore, Queue,
        redis::{RedisConfig, RedisStore},
    },
};
use dlock_testkit::{Cluster, eventually};
use tokio::time::{Instant, sleep, sleep_until};

use crate::cluster::{
    LIMIT, OneKey, as_soon_as_possible, env, hints_come_from, home, lock_on, process, stored,
};
use crate::common::{Env, LABEL, soon};

const TTL: Duration = Duration::from_secs(30);

fn question(key: &OneKey<RedisStore>, owner: dlock::store::OwnerId) -> AcquireRequest<'_> {
    AcquireRequest::new(&key.key, owner, TTL)
        .queue(Queue::ForLease)
        .label(LABEL)
}

/// The script has run, and runs again only when the store is asked again.
#[tokio::test]
async fn a_lost_reply_is_told_and_nothing_is_sent_twice() {
    let cluster = Cluster::behind_proxies(3).await;
    let config = RedisConfig::new(cluster.url());
    let key = OneKey::new(RedisStore::connect(config).await.unwrap(), "order:42");
    let node = home(&cluster, "order:42").await;
    let me = OneKey::<RedisStore>::owner();
    cluster.proxy(node).cut_before_reply_to(&stored("order:42"));
    let unknown = soon(key.store.acquire(question(&key, me))).await;
    let error = unknown.expect_err("the reply was lost");
    assert_eq!(error.kind(), StoreErrorKind::Disconnected, "{error}");
    let text = error.to_string();
    assert!(
        text.contains(&format!("127.0.0.1:{}", cluster.port(node))),
        "{text}"
    );

    let server = cluster.node(node);
    let fence: u64 = redis::cmd("GET")
        .arg(&server.keys("dlock:fence:*").await)
        .query_async(&mut server.connection().await)
        .await
        .unwrap();
    eventually(LIMIT, "the connection is back", async || {
        cluster.proxy(node).open_connections() > 0
    })
    .await;
    assert_eq!(cluster.success_count("evalsha").await, 1);
    let mut again = None;
    eventually(LIMIT, "it can be asked again", async || {
        again = key.store.acquire(question(&key, me)).await.ok();
        again.is_some()
    })
    .await;
    assert_eq!(
        again,
        Some(AcquireOutcome::granted(fence)),
        "broken promise: the owner has another lease"
    );
    assert_eq!(cluster.success_count("evalsha").await, 2);
    key.release(me).await;
}

/// However far a request got, it ends in time, and other nodes go on serving.
#[tokio::test]
async fn a_node_that_says_nothing_holds_up_its_own_locks_only() {
    let env = env(Cluster::start_with(3, 0, &["--cluster-require-full-coverage", "no"]).await);
    let cluster = &env.cluster;
    let config = RedisConfig::new(cluster.url()).response_timeout(Duration::from_secs(2));
    let store = RedisStore::connect(config).await.unwrap();
    let silent = OneKey::new(store, &lock_on(cluster, 0).await);
    let manager = process(cluster).await;
    let keys = [lock_on(cluster, 1).await, lock_on(cluster, 2).await];
    let me = OneKey::<RedisStore>::owner();
    silent.granted(me, TTL).await;

    cluster.pause(0);
    let error = soon(silent.store.acquire(question(&silent, me))).await;
    let error = error.expect_err("it says nothing");
    assert_eq!(error.kind(), StoreErrorKind::TimedOut, "{error}");
    assert!(error.to_string().contains("2s"), "{error}");
    for key in &keys {
        let guard = soon(manager.lock(&**key).acquire()).await.unwrap();
        soon(guard.release()).await.unwrap();
    }
    // Who comes now finds its way past the silent one.
    let late = soon(process(cluster)).await;
    let guard = soon(late.lock(&*keys[0]).acquire()).await.unwrap();
    soon(guard.release()).await.unwrap();

    cluster.resume(0);
    cluster.until_ok().await;
    let mut answer = None;
    eventually(LIMIT, "it answers again", async || {
        answer = silent.store.acquire(question(&silent, me)).await.ok();
        answer.is_some()
    })
    .await;
    assert!(
        matches!(answer, Some(AcquireOutcome::Granted { .. })),
        "{answer:?}"
    );
    silent.release(me).await;
    env.assert_clean(3, &[&manager, &late]).await;
}

#[tokio::test]
async fn all_connections_may_be_killed_at_once() {
    let env = env(Cluster::start(3, 0).await);
    let cluster = &env.cluster;
    let managers: [LockManager; 2] = [process(cluster).await, process(cluster).await];
    // A machine that stands still for a second keeps its leases.
    let brief = Duration::from_secs(4);
    let mut guards = Vec::new();
    for node in 0..3 {
        let lock = managers[0].lock(format!("held:{}", lock_on(cluster, node).await));
        guards.push(soon(lock.ttl(brief).acquire()).await.unwrap());
    }
    let since = Instant::now();
    hints_come_from(cluster, &managers, &[0, 1, 2]).await;
    for _ in 0..2 {
        for sort in ["normal", "pubsub"] {
            cluster
                .everywhere(&format!("CLIENT KILL TYPE {sort}"))
                .await;
        }
        for node in 0..3 {
            let key = lock_on(cluster, node).await;
            let guard = as_soon_as_possible(&managers[1], &key).await;
            soon(guard.release()).await.unwrap();
        }
        // Subscriptions are there again as well, on every node.
        hints_come_from(cluster, &managers, &[0, 1, 2]).await;
    }
    sleep_until(since + brief * 4 / 3).await;
    for guard in guards {
        guard.ensure_held().unwrap();
        soon(guard.release()).await.unwrap();
    }
    env.assert_clean(6, &[&managers[0], &managers[1]]).await;
}

#[tokio::test]
async fn a_node_may_forget_the_scripts() {
    let env = env(Cluster::start(3, 1).await);
    let cluster = &env.cluster;
    let manager = process(cluster).await;
    let keys = [lock_on(cluster, 0).await, lock_on(cluster, 1).await];
    let brief = Duration::from_secs(4);
    let mut connection = cluster.node(1).connection().await;
    for flushed in [true, false] {
        let guards = [
            soon(manager.lock(&*keys[0]).ttl(brief).acquire())
                .await
                .unwrap(),
            soon(manager.lock(&*keys[1]).ttl(brief).acquire())
                .await
                .unwrap(),
        ];
        if flushed {
            redis::cmd("SCRIPT")
                .arg("FLUSH")
                .exec_async(&mut connection)
                .await
                .unwrap();
        } else {
            // A replica that has never been asked anything.
            cluster.fail_over_to(cluster.replica_of(1).await).await;
        }
        sleep(brief * 4 / 3).await;
        for guard in guards {
            guard.ensure_held().unwrap();
            soon(guard.release()).await.unwrap();
        }
    }
    env.assert_clean(2, &[&manager]).await;
}

#[tokio::test]
async fn several_keys_lie_on_several_nodes() {
    let env = env(Cluster::start(3, 0).await);
    let cluster = &env.cluster;
    let managers = [process(cluster).await, process(cluster).await];
    let mut keys = Vec::new();
    for node in 0..3 {
        keys.push(lock_on(cluster, node).await);
    }
    let mut tasks = tokio::task::JoinSet::new();
    for (number, manager) in managers.iter().chain(&managers).enumerate() {
        let (manager, mut keys) = (manager.clone(), keys.clone());
        keys.rotate_left(number % 3);
        if number >= 2 {
            keys.reverse();
        }
        tasks.spawn(async move {
            let mut last = Vec::new();
            for _ in 0..10 {
                let call = manager.lock_all(keys.clone()).wait(dlock::Wait::Forever);
                let tokens = call.run(async |lease| {
                    let tokens = keys.iter().map(|key| lease.fencing_token_for(&**key));
                    tokens.collect::<Option<Vec<_>>>()
                });
                let tokens = tokens.await.unwrap().expect("all are held");
                assert!(
                    last.iter().zip(&tokens).all(|(before, now)| before < now),
                    "broken promise: the token did not grow"
                );
                last = tokens;
            }
        });
    }
    let all = async {
        while let Some(task) = tasks.join_next().await {
            task.unwrap();
        }
    };
    soon(all).await;
    env.assert_clean(3, &[&managers[0], &managers[1]]).await;
}
