//! Five real servers, some of which are killed, stopped or late.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use dlock::{
    LockError, LockGuard, LockManager, Wait,
    store::{
        AcquireOutcome, AcquireRequest, LockStore, ReleaseRequest, Released, Renewal,
        quorum::Quorum,
        redis::{RedisConfig, RedisStore},
    },
};
use dlock_testkit::{Proxy, RedisServer, eventually};
use futures_util::future::join_all;
use tokio::{task::JoinSet, time::sleep};

use crate::common::{Env, LIMIT, NODES, OneKey, QuorumOfRedis, soon};
use crate::quorum::{TTL, owner};

/// Who waits for a node waits for longer than any test.
const FOR_EVER: Duration = Duration::from_secs(120);

/// A quorum that gives nodes all the time there is, so that waiting for one is seen.
async fn patient(urls: &[String]) -> Quorum {
    let connect =
        |url: &String| RedisStore::connect(RedisConfig::new(url).response_timeout(FOR_EVER));
    let stores = join_all(urls.iter().map(connect)).await;
    let quorum = Quorum::of(stores.into_iter().map(Result::unwrap)).unwrap();
    quorum.node_timeout(FOR_EVER)
}

fn urls(servers: &[RedisServer]) -> Vec<String> {
    servers.iter().map(RedisServer::url).collect()
}

/// The numbers of the servers that have the lock.
async fn holding(servers: &[RedisServer]) -> Vec<usize> {
    let mut holding = Vec::new();
    for (number, server) in servers.iter().enumerate() {
        if server.keys("dlock:{order:42}").await.len() == 1 {
            holding.push(number);
        }
    }
    holding
}

#[tokio::test]
async fn two_that_hang_are_not_waited_for() {
    let env = QuorumOfRedis::new().await;
    let key = OneKey::new(patient(&urls(&env.servers)).await, "order:42");
    for hung in [1, 4] {
        env.servers[hung].pause();
    }
    let holder = owner();
    let ttl = 8 * FOR_EVER;
    let fence = soon(key.granted(holder, ttl)).await;
    assert_eq!(soon(key.renew(holder)).await, Renewal::Renewed);
    assert_eq!(soon(key.release(holder)).await, Released::WasHeld);
    let next = owner();
    assert!(
        soon(key.granted(next, ttl)).await > fence,
        "broken promise: the token did not grow"
    );
    assert_eq!(soon(key.release(next)).await, Released::WasHeld);
    for hung in [1, 4] {
        env.servers[hung].resume();
    }
    // They work through what was sent to them, in order.
    env.assert_clean(1, &[]).await;
}

#[tokio::test]
async fn two_that_are_killed_hinder_nobody_and_take_part_again_later() {
    let env = QuorumOfRedis::new().await;
    let managers = [env.manager().await, env.manager().await];
    let mut last = None;
    let mut section = async |manager: &LockManager| {
        let guard = soon(manager.lock("order:42").acquire()).await.unwrap();
        assert!(
            last < Some(guard.fencing_token()),
            "broken promise: the token did not grow"
        );
        last = Some(guard.fencing_token());
        guard
    };
    soon(section(&managers[0]).await.release()).await.unwrap();
    env.servers[0].kill();
    env.servers[3].kill();
    for manager in [&managers[0], &managers[1], &managers[0]] {
        let guard = section(manager).await;
        let other = &managers[usize::from(std::ptr::eq(manager, &raw const managers[0]))];
        assert!(
            soon(other.lock("order:42").try_acquire())
                .await
                .unwrap()
                .is_none(),
            "broken promise: two hold the key"
        );
        soon(guard.release()).await.unwrap();
    }
    env.servers[0].restart().await;
    env.servers[3].restart().await;
    eventually(LIMIT, "all five take part", async || {
        let guard = section(&managers[1]).await;
        let all = holding(&env.servers).await.len() == NODES;
        soon(guard.release()).await.unwrap();
        all
    })
    .await;
    env.assert_clean(1, &[&managers[0], &managers[1]]).await;
}

#[tokio::test]
async fn two_that_answer_late_keep_nothing() {
    let env = QuorumOfRedis::new().await;
    let proxies = [1, 2].map(|late: usize| Proxy::start(env.servers[late].port()));
    let mut urls = urls(&env.servers);
    urls[1] = proxies[0].url();
    urls[2] = proxies[1].url();
    let key = OneKey::new(patient(&urls).await, "order:42");
    for proxy in &proxies {
        proxy.hold_replies();
    }
    let holder = owner();
    soon(key.granted(holder, 8 * FOR_EVER)).await;
    eventually(LIMIT, "they have granted it, too", async || {
        holding(&env.servers).await.len() == NODES
    })
    .await;
    assert_eq!(soon(key.release(holder)).await, Released::WasHeld);
    env.assert_clean(1, &[]).await;
    for proxy in &proxies {
        proxy.thaw();
    }
    env.assert_clean(1, &[]).await;
}

#[tokio::test]
async fn a_majority_that_is_late_grants_nothing_and_keeps_nothing() {
    let env = QuorumOfRedis::new().await;
    let proxies: Vec<_> = env.servers[..3]
        .iter()
        .map(|server| Proxy::start(server.port()))
        .collect();
    let mut urls = urls(&env.servers);
    for (url, proxy) in urls.iter_mut().zip(&proxies) {
        *url = proxy.url();
    }
    let quorum = QuorumOfRedis::over(&urls).await;
    let quorum = quorum.node_timeout(Duration::from_secs(3));
    let key = OneKey::new(quorum, "order:42");
    for proxy in &proxies {
        proxy.hold_replies();
    }
    let holder = owner();
    let request = AcquireRequest::new(&key.key, holder, 8 * FOR_EVER);
    let error = soon(key.store.acquire(request)).await.unwrap_err();
    assert!(error.message().contains("only 2 of 5"), "{error}");
    assert!(!error.is_final());
    // The manager's part, and what goes on after that.
    soon(key.store.release(ReleaseRequest::new(&key.key, holder)))
        .await
        .ok();
    for proxy in &proxies {
        proxy.thaw();
    }
    env.assert_clean(1, &[]).await;
    let next = owner();
    eventually(LIMIT, "the majority is back", async || {
        let request = AcquireRequest::new(&key.key, next, TTL);
        matches!(
            key.store.acquire(request).await,
            Ok(AcquireOutcome::Granted { .. })
        )
    })
    .await;
    key.release(next).await;
    env.assert_clean(1, &[]).await;
}

#[tokio::test]
async fn without_a_majority_a_call_ends_within_its_wait() {
    for kill in [true, false] {
        let env = QuorumOfRedis::new().await;
        let quorum = env.quorum().await;
        let quorum = quorum.node_timeout(Duration::from_millis(300));
        let manager = LockManager::builder().build_with_store(quorum).unwrap();
        let guard = soon(manager.lock("order:1").wait(LIMIT).acquire())
            .await
            .unwrap();
        soon(guard.release()).await.unwrap();
        for server in &env.servers[1..4] {
            if kill {
                server.kill();
            } else {
                server.pause();
            }
        }
        let lock = manager.lock("order:42").wait(Duration::from_secs(2));
        let error = soon(lock.acquire()).await.unwrap_err();
        assert!(matches!(error, LockError::Unavailable { .. }), "{error}");
        assert!(error.to_string().contains("of 5 stores"), "{error}");
        for server in &env.servers[1..4] {
            if kill {
                server.restart().await;
            } else {
                server.resume();
            }
        }
        env.assert_clean(2, &[&manager]).await;
        let lock = manager.lock("order:42").wait(Wait::Forever);
        soon(soon(lock.acquire()).await.unwrap().release())
            .await
            .unwrap();
        env.assert_clean(2, &[&manager]).await;
    }
}

/// Held on three of five, of which one restarts empty.
#[tokio::test]
async fn a_server_that_restarts_empty_gets_the_lock_again_by_a_renewal() {
    let env = QuorumOfRedis::new().await;
    env.servers[3].kill();
    env.servers[4].kill();
    let managers = [env.manager_of_majority(), env.manager_of_majority()];
    // Renewed soon, and kept by a machine that stands still for a second.
    let ttl = Duration::from_secs(6);
    let guard = soon(managers[0].lock("order:42").ttl(ttl).acquire())
        .await
        .unwrap();
    env.servers[3].restart().await;
    env.servers[4].restart().await;
    eventually(LIMIT, "the two that are back have it", async || {
        holding(&env.servers).await.len() == NODES
    })
    .await;
    env.servers[0].restart().await;
    eventually(LIMIT, "the one that has lost it has it again", async || {
        let other = managers[1].lock("order:42").try_acquire().await;
        assert!(!matches!(other, Ok(Some(_))), "another majority");
        holding(&env.servers).await.len() == NODES
    })
    .await;
    soon(guard.release()).await.unwrap();
    env.assert_clean(1, &[&managers[0], &managers[1]]).await;
}

/// What was counted by the servers is gone; the process remembers, and so does its clock.
#[tokio::test]
async fn tokens_grow_although_the_servers_forget_their_counts() {
    let env = QuorumOfRedis::new().await;
    let manager = env.manager().await;
    let mut tokens = Vec::new();
    for _ in 0..3 {
        let guard = soon(manager.lock("order:42").acquire()).await.unwrap();
        tokens.push(guard.fencing_token());
        soon(guard.release()).await.unwrap();
        env.assert_clean(1, &[&manager]).await;
        join_all(env.servers.iter().map(RedisServer::flush)).await;
    }
    assert!(
        tokens.is_sorted_by(|one, two| one < two),
        "broken promise: the token did not grow: {tokens:?}"
    );
}

/// A greater fence on some servers is written to the others with the real script.
#[tokio::test]
async fn servers_that_have_counted_differently_agree_on_the_greatest() {
    let env = QuorumOfRedis::new().await;
    let key = OneKey::new(env.quorum().await, "order:42");
    let first = owner();
    let fence = soon(key.granted(first, TTL)).await;
    soon(key.release(first)).await;
    env.assert_clean(1, &[]).await;
    for (number, server) in (1..).zip(env.servers.iter()) {
        let [fences] = server.keys("dlock:fence:*").await.try_into().unwrap();
        let ahead: u64 = fence + number * 1_000_000_000;
        let mut connection = server.connection().await;
        redis::cmd("SET")
            .arg(&fences)
            .arg(ahead)
            .exec_async(&mut connection)
            .await
            .unwrap();
    }
    let second = owner();
    let raised = soon(key.granted(second, TTL)).await;
    assert!(raised >= fence + 3_000_000_000, "the greatest of three");
    assert!(soon(key.granted(second, TTL)).await >= raised);
    assert_eq!(soon(key.release(second)).await, Released::WasHeld);
    let (third, stranger) = (owner(), OneKey::new(env.quorum().await, "order:42"));
    assert!(soon(stranger.granted(third, TTL)).await > raised);
    soon(stranger.release(third)).await;
    env.assert_clean(1, &[]).await;
}

/// Servers are killed one after the other, and come back empty when all leases of that time have
/// ended; another one hangs now and then. There is a majority all the time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sections_never_overlap_while_servers_die_and_hang() {
    const CYCLES: usize = 5;
    const BRIEF: Duration = Duration::from_secs(1);

    let env = QuorumOfRedis::new().await;
    let mut managers = Vec::new();
    for _ in 0..3 {
        managers.push(env.manager_with(|builder| builder.ttl(BRIEF)).await);
    }
    let inside = Arc::new(Mutex::new(None::<Arc<LockGuard>>));
    let tokens = Arc::new(Mutex::new(Vec::new()));
    let (is_over, sections) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicUsize::new(0)),
    );
    let mut tasks = JoinSet::new();
    for manager in &managers {
        let lock = manager.lock("order:42").wait(Wait::Forever);
        let (inside, tokens) = (inside.clone(), tokens.clone());
        let (is_over, sections) = (is_over.clone(), sections.clone());
        tasks.spawn(async move {
            while !is_over.load(Ordering::Relaxed) {
                let guard = match lock.clone().acquire().await {
                    Ok(guard) => guard,
                    Err(error) => panic!("{error}"),
                };
                let guard = Arc::new(guard);
                let before = inside.lock().unwrap().replace(guard.clone());
                // A process that was stopped may be in here with a lease that it knows to be lost.
                if let Some(before) = before {
                    assert!(before.is_lost(), "broken promise: two are inside");
                }
                // Nobody pushes between the look at the lease and the push of its token.
                let is_lost = {
                    let mut tokens = tokens.lock().unwrap();
                    let is_lost = guard.is_lost();
                    if !is_lost {
                        tokens.push(guard.fencing_token());
                    }
                    is_lost
                };
                if is_lost {
                    continue;
                }
                sleep(Duration::from_millis(3)).await;
                inside
                    .lock()
                    .unwrap()
                    .take_if(|now| Arc::ptr_eq(now, &guard));
                sections.fetch_add(1, Ordering::Relaxed);
                let guard = Arc::into_inner(guard);
                if let Some(guard) = guard {
                    guard.release().await.ok();
                }
            }
        });
    }
    for cycle in 0..CYCLES {
        let (killed, hung) = (cycle % NODES, (cycle + 2) % NODES);
        let before = sections.load(Ordering::Relaxed);
        env.servers[killed].kill();
        env.servers[hung].pause();
        // No lease that it knew of is left when it comes back.
        sleep(BRIEF + BRIEF / 2).await;
        env.servers[hung].resume();
        env.servers[killed].restart().await;
        eventually(LIMIT, "sections go on", async || {
            sections.load(Ordering::Relaxed) > before + 3
        })
        .await;
    }
    is_over.store(true, Ordering::Relaxed);
    while let Some(task) = soon(tasks.join_next()).await {
        task.unwrap();
    }
    drop(inside.lock().unwrap().take());
    let tokens = tokens.lock().unwrap().clone();
    assert!(
        tokens.is_sorted_by(|one, two| one < two),
        "broken promise: the token did not grow: {tokens:?}"
    );
    env.assert_clean(1, &managers.iter().collect::<Vec<_>>())
        .await;
}
