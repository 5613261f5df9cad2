//! Inspection is the same for every layout of servers.

use std::time::{Duration, SystemTime};

use dlock::{
    LockError, LockGuard, LockRequest, Wait,
    admin::{Inspect as _, Unlocked},
    distributed_lock,
    store::OwnerId,
    with_manager,
};
use dlock_testkit::{Cluster, Make, RedisServer, Sentinels};
use futures_util::future::join_all;
use tokio::sync::Notify;

use crate::admin::{TTL, inspector, look, manager, with_waiters};
use crate::common::{ANSWER, builder, soon};

#[distributed_lock(key = "order:42")]
async fn settle(held: &Notify, done: &Notify) -> Result<(), LockError> {
    held.notify_one();
    done.notified().await;
    Ok(())
}

/// All that an inspector tells of a holder and a waiter, wherever they are; `servers` have the lock.
async fn tells_all(url: &str, servers: usize) {
    let (one, other) = (manager(url).await, manager(url).await);
    let inspector = inspector(url).await;
    assert_eq!(look(&inspector, "order:42").await, None);
    let (held, done) = (Notify::new(), Notify::new());
    let looks = async {
        held.notified().await;
        let waits = tokio::spawn(other.lock("order:42").wait(Wait::Forever).acquire());
        let seen = with_waiters(&inspector, "order:42", 1).await;
        let holder = seen.holder.as_ref().expect("it is held");
        let label = holder.label.as_deref().expect("it says who it is");
        assert!(label.starts_with("billing@"), "{label}");
        let function = holder.function.as_deref().unwrap();
        assert!(function.ends_with("layouts::settle"), "{function}");
        assert!(holder.fence > 0 && seen.last_fence >= holder.fence);
        assert!(
            seen.held_at > servers / 2 && seen.servers == servers,
            "{seen:?}"
        );
        let age = SystemTime::now().duration_since(holder.since.unwrap());
        let age = age.unwrap_or_default();
        assert!(age < TTL, "{age:?}");
        assert!(holder.ttl.is_some_and(|ttl| ttl <= Duration::from_secs(30)));
        let [waiter] = seen.waiters.as_slice() else {
            panic!("{seen:?}")
        };
        assert!(waiter.is_alive && waiter.waiting < TTL, "{waiter:?}");
        assert_ne!(
            Some(waiter.owner.client()),
            holder.owner.map(OwnerId::client)
        );
        let listed = soon(inspector.locks(Some("order:*"))).await.unwrap();
        let [listed] = listed.as_slice() else {
            panic!("{listed:?}")
        };
        assert_eq!(
            (&listed.key, &listed.waiters[0].owner),
            (&seen.key, &waiter.owner)
        );
        assert_eq!(soon(inspector.locks(Some("other:*"))).await.unwrap(), []);
        for report in soon(inspector.servers()).await {
            assert_eq!(report.failure, None, "{}", report.server);
            assert_eq!(report.denied, [], "{}", report.server);
            assert!(report.info.contains_key("maxmemory_policy"), "{report:?}");
            assert_eq!(report.round_trips.len(), 20);
            let clock = report.clock.expect("it tells the time");
            // The same clock; but the machine may be busy.
            assert!(clock.ahead_us.unsigned_abs() < 20_000_000, "{clock:?}");
        }

        let mut grants = soon(inspector.grants()).await.unwrap();
        done.notify_one();
        let told = soon(grants.next()).await.expect("it is connected");
        assert_eq!((&*told.key, told.owner), ("order:42", waiter.owner));
        let guard = soon(waits).await.unwrap().unwrap();
        let token = guard.fencing_token();
        if servers == 1 {
            assert_eq!(told.fence, token.fence());
        }
        let seen = look(&inspector, "order:42").await.expect("it is held");
        let outcome = soon(inspector.unlock(&seen, None)).await.unwrap();
        assert_eq!(outcome, Unlocked::Freed);
        soon(guard.lost()).await;
        drop(guard);
        let next = soon(one.lock("order:42").acquire()).await.unwrap();
        assert!(
            next.fencing_token() > token,
            "broken promise: the token did not grow"
        );
        soon(next.release()).await.unwrap();
    };
    let settled = soon(with_manager(one.clone(), settle(&held, &done)));
    let (settled, ()) = tokio::join!(settled, looks);
    settled.unwrap();
}

#[tokio::test]
async fn one_server() {
    for make in [Make::Usual, Make::OldRedis, Make::Valkey] {
        let server = RedisServer::start_make(make).await;
        tells_all(&server.url(), 1).await;
    }
}

#[tokio::test]
async fn one_server_by_resp2() {
    let server = RedisServer::start().await;
    tells_all(&format!("{}?protocol=resp2", server.url()), 1).await;
}

#[tokio::test]
async fn the_master_that_sentinels_name() {
    let all = Sentinels::pooled().await;
    tells_all(&all.url(), 1).await;
}

#[tokio::test]
async fn a_cluster() {
    let cluster = Cluster::pooled().await;
    tells_all(&cluster.url(), 1).await;
}

/// Three independent servers, and the URL of all of them.
async fn quorum() -> (Vec<RedisServer>, String) {
    let servers = join_all((0..3).map(|_| RedisServer::start())).await;
    let hosts: Vec<_> = servers
        .iter()
        .map(|it| format!("127.0.0.1:{}", it.port()))
        .collect();
    let url = format!("redlock://{}", hosts.join(","));
    (servers, url)
}

#[tokio::test]
async fn a_quorum() {
    let (servers, url) = quorum().await;
    tells_all(&url, 3).await;

    // One that is away is left out.
    let holder = manager(&url).await;
    let guard = soon(holder.lock("order:7").acquire()).await.unwrap();
    servers[0].kill();
    let inspector = inspector(&url).await;
    let seen = look(&inspector, "order:7").await.expect("it is held");
    assert_eq!((seen.held_at, seen.servers), (2, 2));
    let reports = soon(inspector.servers()).await;
    let failures = reports.iter().filter(|it| it.failure.is_some());
    assert_eq!(failures.count(), 1);
    assert_eq!(
        soon(inspector.unlock(&seen, None)).await,
        Ok(Unlocked::Freed)
    );
    soon(guard.lost()).await;
}

#[tokio::test]
async fn a_lock_that_most_servers_may_still_hold_is_not_said_to_be_free() {
    let (servers, url) = quorum().await;
    let holder = manager(&url).await;
    let guard = soon(holder.lock("order:7").ttl(TTL).acquire())
        .await
        .unwrap();
    let inspector = inspector(&url).await;
    for server in &servers[1..] {
        server.pause();
    }
    let seen = look(&inspector, "order:7").await.expect("one tells");
    assert_eq!((seen.held_at, seen.servers), (1, 1));
    let error = soon(inspector.unlock(&seen, None)).await.unwrap_err();
    assert!(
        error.message().contains("only 1 of 3 servers answered"),
        "{error}"
    );
    for server in &servers[1..] {
        server.resume();
    }
    assert!(!guard.is_lost(), "a majority has it");
    soon(guard.release()).await.unwrap();
}

#[tokio::test]
async fn locks_at_the_keys_own_text() {
    let server = RedisServer::start().await;
    let builder = builder().raw_keys(true);
    let manager = soon(builder.connect(&server.url())).await.unwrap();
    let config = dlock::store::redis::RedisConfig::new(server.url()).raw_keys(true);
    let config = config.response_timeout(ANSWER);
    let inspector = soon(dlock::admin::Inspector::connect(config))
        .await
        .unwrap();
    let mut behind = server.connection().await;
    for [key, value] in [["order:1", "theirs"], ["order:2", "theirs"], ["text", "x"]] {
        let set = redis::cmd("SET").arg(&[key, value]).to_owned();
        set.exec_async(&mut behind).await.unwrap();
    }
    let held = soon(manager.lock("order:3").acquire()).await.unwrap();
    let waits = tokio::spawn(manager.lock("order:2").wait(Wait::Forever).acquire());
    with_waiters(&inspector, "order:2", 1).await;
    // Another client's counts where somebody waits for it.
    let listed = soon(inspector.locks(Some("order:*"))).await.unwrap();
    let keys: Vec<_> = listed.iter().map(|lock| &*lock.key).collect();
    assert_eq!(keys, ["order:2", "order:3"]);

    let seen = look(&inspector, "order:1")
        .await
        .expect("it is another client's");
    let holder = seen.holder.as_ref().unwrap();
    assert_eq!((holder.owner, holder.ttl, holder.fence), (None, None, 0));
    // It has another value by now.
    let set = redis::cmd("SET").arg(&["order:1", "new"]).to_owned();
    set.exec_async(&mut behind).await.unwrap();
    assert_eq!(
        soon(inspector.unlock(&seen, None)).await,
        Ok(Unlocked::Changed)
    );
    let seen = look(&inspector, "order:1").await.unwrap();
    assert_eq!(
        soon(inspector.unlock(&seen, None)).await,
        Ok(Unlocked::Freed)
    );
    let seen = look(&inspector, "order:2").await.unwrap();
    assert_eq!(
        soon(inspector.unlock(&seen, None)).await,
        Ok(Unlocked::Granted)
    );
    drop(soon(waits).await.unwrap().unwrap());
    soon(held.release()).await.unwrap();
}

#[tokio::test]
async fn a_thousand_locks_among_many_other_keys() {
    const LOCKS: usize = 1000;
    let cluster = Cluster::pooled().await;
    let server = RedisServer::start().await;
    // Each command is a short one: a busy machine may take twenty times as long for it.
    let script = "for n = ARGV[1], ARGV[1] + 4999 do redis.call('SET', 'other:' .. n, 'x') end";
    let mut beside = server.connection().await;
    for first in (1..200_000).step_by(5_000) {
        let fill = redis::cmd("EVAL").arg(script).arg(0).arg(first).to_owned();
        fill.exec_async(&mut beside).await.unwrap();
    }
    for url in [server.url(), cluster.url()] {
        let manager = manager(&url).await;
        let locks = (0..LOCKS).map(|number| manager.lock(format!("n:{number:04}")).ttl(TTL));
        let guards = soon(join_all(locks.map(LockRequest::acquire))).await;
        let guards: Vec<_> = guards.into_iter().map(Result::unwrap).collect();
        let inspector = inspector(&url).await.at_full_speed();
        let listed = soon(inspector.locks(None)).await.unwrap();
        let keys: Vec<_> = listed.iter().map(|lock| lock.key.clone()).collect();
        let expected: Vec<_> = (0..LOCKS).map(|number| format!("n:{number:04}")).collect();
        assert_eq!(keys, expected);
        assert!(listed.iter().all(|lock| lock.holder.is_some()));
        let some = soon(inspector.locks(Some("n:000?"))).await.unwrap();
        assert_eq!(some.len(), 10);
        soon(join_all(guards.into_iter().map(LockGuard::release))).await;
        assert_eq!(soon(inspector.locks(None)).await.unwrap(), []);
    }
}
