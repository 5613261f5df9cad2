//! Slots that move from node to node while locks in them are held, waited for and given back.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use dlock::{
    FencingToken, LockError, StoreErrorKind,
    store::{
        AcquireRequest, LockStore, Queue, ReleaseRequest, Released, Renewal,
        redis::{RedisConfig, RedisStore},
    },
};
use dlock_testkit::{Cluster, eventually, within};
use tokio::{task::JoinSet, time::sleep};

use crate::cluster::{
    LIMIT, OneKey, PATIENCE, env, home, lock_on, process, rejected, slot, store, stored,
    tells_of_move, waiting,
};
use crate::common::{Env, soon};

#[tokio::test]
async fn a_slot_moves_to_and_fro_under_load_and_nobody_loses_a_lock() {
    const KEY: &str = "order:42";
    // A machine that stands still for a second keeps its leases.
    const BRIEF: Duration = Duration::from_secs(4);
    let env = env(Cluster::start(3, 0).await);
    let cluster = &env.cluster;
    let slot = slot(cluster, KEY).await;
    let managers = [process(cluster).await, process(cluster).await];
    let (inside, last) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(Mutex::new(None::<FencingToken>)),
    );
    let (over, mut tasks) = (Arc::new(AtomicBool::new(false)), JoinSet::new());
    for (number, manager) in managers.iter().chain(&managers).enumerate() {
        let lock = manager.lock(KEY).ttl(BRIEF).wait(4 * LIMIT);
        let (inside, last, over) = (inside.clone(), last.clone(), over.clone());
        tasks.spawn(async move {
            let mut sections = 0_u32;
            while !over.load(Ordering::Relaxed) {
                // Some sections are short, and some outlast their TTL.
                let length = if number == 0 {
                    BRIEF * 3 / 2
                } else {
                    Duration::from_millis(3)
                };
                let section = lock.clone().run(async |lease| {
                    assert!(
                        !inside.swap(true, Ordering::SeqCst),
                        "broken promise: two hold the lock"
                    );
                    let before = last.lock().unwrap().replace(lease.fencing_token());
                    assert!(
                        before < Some(lease.fencing_token()),
                        "broken promise: the token did not grow: {before:?}"
                    );
                    sleep(length).await;
                    inside.store(false, Ordering::SeqCst);
                });
                section.await.unwrap();
                sections += 1;
            }
            sections
        });
    }
    let moves = async {
        for to in [1, 2, 0, 1, 2] {
            if home(cluster, KEY).await != to {
                cluster.begin_migration(slot, to).await;
                // Requests meet a slot that is nowhere as a whole.
                cluster.move_keys(slot, to).await;
                sleep(BRIEF / 5).await;
                cluster.end_migration(slot, to).await;
            }
            sleep(BRIEF / 2).await;
        }
    };
    within(PATIENCE, Box::pin(moves)).await.expect("it hangs");
    over.store(true, Ordering::Relaxed);
    let all = async {
        let mut sections = 0;
        while let Some(done) = tasks.join_next().await {
            let done = done.unwrap();
            assert!(done > 0, "somebody never got the lock");
            sections += done;
        }
        sections
    };
    println!("{} sections while the slot moved", soon(all).await);
    env.assert_clean(1, &[&managers[0], &managers[1]]).await;
}

/// The lock may be on either side of a slot that is half moved. What touches the lock alone works;
/// what needs its fence too says which slot is the trouble.
#[tokio::test]
async fn a_slot_left_half_moved_is_named_and_keeps_no_lock() {
    const KEY: &str = "order:42";
    let env = env(Cluster::start(2, 0).await);
    let cluster = &env.cluster;
    let slot = slot(cluster, KEY).await;
    let from = home(cluster, KEY).await;
    let (holder, other) = (process(cluster).await, process(cluster).await);
    for moves_lock in [false, true] {
        let ttl = Duration::from_secs(4);
        let guard = soon(holder.lock(KEY).ttl(ttl).acquire()).await.unwrap();
        cluster.begin_migration(slot, 1 - from).await;
        if moves_lock {
            cluster.move_key(&stored(KEY), 1 - from).await;
        }
        // Renewals go on.
        sleep(ttl * 4 / 3).await;
        guard.ensure_held().unwrap();
        // Others are told why there is no answer, and how long it was waited for.
        let wait = Duration::from_secs(3);
        let refused = soon(other.lock(KEY).wait(wait).acquire()).await;
        match refused.expect_err("nobody can tell") {
            LockError::Unavailable { waited, reason, .. } => {
                assert!(waited >= wait, "{waited:?}");
                assert!(tells_of_move(&reason, slot), "{reason}");
            }
            error => panic!("{error}"),
        }
        soon(guard.release()).await.unwrap();
        assert_eq!(env.locks().await, Vec::<String>::new());
        // It is moved back, or on.
        if moves_lock {
            cluster.move_keys(slot, 1 - from).await;
            cluster.end_migration(slot, 1 - from).await;
        } else {
            cluster
                .everywhere(&format!("CLUSTER SETSLOT {slot} STABLE"))
                .await;
        }
        let guard = soon(other.lock(KEY).acquire()).await.unwrap();
        soon(guard.release()).await.unwrap();
    }
    env.assert_clean(1, &[&holder, &other]).await;
}

#[tokio::test]
async fn a_release_in_a_half_moved_slot_tells_who_held_the_lock() {
    let env = env(Cluster::start(2, 0).await);
    let cluster = &env.cluster;
    let key = OneKey::new(store(cluster).await, "order:42");
    let (holder, stranger) = (OneKey::<RedisStore>::owner(), OneKey::<RedisStore>::owner());
    let ttl = Duration::from_secs(30);
    key.granted(holder, ttl).await;
    let slot = slot(cluster, "order:42").await;
    let from = home(cluster, "order:42").await;
    cluster.begin_migration(slot, 1 - from).await;
    cluster.move_key(&stored("order:42"), 1 - from).await;
    assert_eq!(
        key.store
            .release(ReleaseRequest::new(&key.key, stranger))
            .await,
        Ok(Released::WasGone)
    );
    assert_eq!(env.locks().await.len(), 1, "a stranger's release");
    assert_eq!(
        key.store
            .release(ReleaseRequest::new(&key.key, holder))
            .await,
        Ok(Released::WasHeld)
    );
    assert_eq!(
        key.store
            .release(ReleaseRequest::new(&key.key, holder))
            .await,
        Ok(Released::WasGone)
    );
    assert_eq!(env.locks().await, Vec::<String>::new());
}

#[tokio::test]
async fn who_waits_for_a_lock_in_a_moving_slot_gets_it_when_the_slot_has_arrived() {
    let env = env(Cluster::start(2, 0).await);
    let cluster = &env.cluster;
    let (holder, waiter) = (process(cluster).await, process(cluster).await);
    let guard = soon(holder.lock("order:42").acquire()).await.unwrap();
    let token = guard.fencing_token();
    let waiting = waiting(&waiter, "order:42");
    OneKey::new(store(cluster).await, "order:42")
        .until_waiting(1)
        .await;
    let slot = slot(cluster, "order:42").await;
    let to = 1 - home(cluster, "order:42").await;
    cluster.begin_migration(slot, to).await;
    cluster.move_key(&stored("order:42"), to).await;
    soon(guard.release()).await.unwrap();
    assert!(!waiting.is_finished());
    cluster.move_keys(slot, to).await;
    cluster.end_migration(slot, to).await;
    let next = soon(waiting).await.unwrap();
    assert!(
        next.fencing_token() > token,
        "broken promise: the token did not grow: the counter has moved"
    );
    soon(next.release()).await.unwrap();
    env.assert_clean(1, &[&holder, &waiter]).await;
}

/// One more question, once; after that the new way is known.
#[tokio::test]
async fn a_slot_that_has_moved_costs_one_question_more() {
    let env = env(Cluster::start(3, 0).await);
    let cluster = &env.cluster;
    let key = lock_on(cluster, 0).await;
    let manager = process(cluster).await;
    let guard = soon(manager.lock(&*key).acquire()).await.unwrap();
    let token = guard.fencing_token();
    soon(guard.release()).await.unwrap();
    cluster.migrate(slot(cluster, &key).await, 2).await;

    let refused = rejected(cluster, 0, "evalsha").await;
    let run = cluster.command_count("evalsha").await;
    let guard = soon(manager.lock(&*key).acquire()).await.unwrap();
    assert!(
        guard.fencing_token() > token,
        "broken promise: the token did not grow"
    );
    assert_eq!(rejected(cluster, 0, "evalsha").await, refused + 1);
    soon(guard.release()).await.unwrap();
    for _ in 0..5 {
        let guard = soon(manager.lock(&*key).acquire()).await.unwrap();
        soon(guard.release()).await.unwrap();
    }
    assert_eq!(rejected(cluster, 0, "evalsha").await, refused + 1);
    assert_eq!(rejected(cluster, 1, "evalsha").await, 0);
    assert_eq!(cluster.command_count("evalsha").await, run + 12);
    env.assert_clean(1, &[&manager]).await;
}

/// Many leases whose renewals go in one request to each node, of which some are sent elsewhere.
#[tokio::test]
async fn renewals_of_many_leases_follow_their_slots() {
    const NUMBER: usize = 60;
    let env = env(Cluster::start(3, 0).await);
    let cluster = &env.cluster;
    let manager = process(cluster).await;
    let ttl = Duration::from_secs(4);
    let mut guards = Vec::new();
    for number in 0..NUMBER {
        let lock = manager.lock(format!("order:{number}")).ttl(ttl);
        guards.push(soon(lock.acquire()).await.unwrap());
    }
    let before = cluster.command_count("getex").await;
    // One has moved, one is moving and is at its new place, one at its old.
    for (number, how_far) in [(0, 2), (1, 1), (2, 0)] {
        let key = format!("order:{number}");
        let slot = slot(cluster, &key).await;
        let to = (home(cluster, &key).await + 1) % 3;
        cluster.begin_migration(slot, to).await;
        if how_far > 0 {
            cluster.move_keys(slot, to).await;
        }
        if how_far > 1 {
            cluster.end_migration(slot, to).await;
        }
    }
    eventually(LIMIT, "all were renewed several times", async || {
        cluster.command_count("getex").await > before + 4 * NUMBER as u64
    })
    .await;
    for guard in guards {
        guard.ensure_held().unwrap();
        soon(guard.release()).await.unwrap();
    }
    env.assert_clean(NUMBER, &[&manager]).await;
}

/// The time for a request counts from its beginning, wherever it is sent on the way.
#[tokio::test]
async fn a_request_that_is_sent_on_ends_in_time() {
    const KEY: &str = "order:42";
    let cluster = Cluster::start_with(2, 0, &["--cluster-require-full-coverage", "no"]).await;
    let config = RedisConfig::new(cluster.url()).response_timeout(Duration::from_secs(3));
    let key = OneKey::new(RedisStore::connect(config).await.unwrap(), KEY);
    let (holder, other) = (OneKey::<RedisStore>::owner(), OneKey::<RedisStore>::owner());
    key.granted(holder, Duration::from_secs(60)).await;
    let (slot, from) = (slot(&cluster, KEY).await, home(&cluster, KEY).await);
    cluster.begin_migration(slot, 1 - from).await;
    cluster.move_key(&stored(KEY), 1 - from).await;
    assert_eq!(key.renew(holder).await, Renewal::Renewed);

    // Put off again and again, and refused in the end by whoever was asked.
    eventually(
        LIMIT,
        "a stranger is told that it has nothing",
        async || {
            key.store
                .release(ReleaseRequest::new(&key.key, other))
                .await
                == Ok(Released::WasGone)
        },
    )
    .await;
    let renewal = key.renewal(holder);
    let request = AcquireRequest::new(renewal.key, other, renewal.ttl)
        .queue(Queue::ForLease)
        .label(renewal.label)
        .function(renewal.function);
    let error = soon(key.store.acquire(request)).await;
    let error = error.expect_err("the lock and its fence are at two nodes");
    assert!(tells_of_move(&error, slot), "{error}");
    assert!(error.to_string().contains("3s"), "{error}");

    // Sent on to a node that says nothing.
    cluster.pause(1 - from);
    let error = soon(key.store.renew_one(renewal)).await;
    let error = error.expect_err("the node stands still");
    assert_eq!(error.kind(), StoreErrorKind::TimedOut, "{error}");
    let node = format!("127.0.0.1:{}", cluster.port(1 - from));
    assert!(error.to_string().contains(&node), "{error}");
    cluster.resume(1 - from);
    eventually(LIMIT, "the lease is renewed again", async || {
        key.store.renew_one(renewal).await == Ok(Renewal::Renewed)
    })
    .await;
    key.release(holder).await;
}
