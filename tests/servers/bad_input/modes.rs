//! Servers that refuse writes while a lock is shared: nobody is told that a lock is held, or has it, because of
//! that, and those inside stay there.

use std::time::Duration;

use dlock::{
    LockError, LockManager, LockRequest,
    store::{ALIVE, StoreErrorKind},
};
use dlock_testkit::{RedisServer, eventually};
use tokio::time::{Instant, timeout};

use crate::bad_input::{WAIT, assert_says, refused, run, unavailable};
use crate::common::{Env, LIMIT, OneKey, Redis, assert_idle, soon};

const KEY: &str = "order:42";

/// Each way to share the lock.
fn sharing(manager: &LockManager) -> [LockRequest; 2] {
    let lock = || manager.lock(KEY);
    [lock().shared(), lock().permits(2)]
}

/// What those are told who would share a free lock, whether they wait or not.
async fn refusals(manager: &LockManager) -> Vec<LockError> {
    let mut errors = Vec::new();
    for lock in sharing(manager) {
        let tried = soon(lock.clone().try_acquire()).await;
        errors.push(tried.expect_err("nobody can tell whether it is free"));
        let waited = soon(lock.wait(WAIT).acquire()).await;
        errors.push(waited.expect_err("it cannot be acquired"));
    }
    errors
}

async fn set(server: &RedisServer, option: &str, value: &str) {
    let mut connection = server.connection().await;
    run(&mut connection, &["CONFIG", "SET", option, value]).await;
}

#[tokio::test]
async fn a_full_server_refuses_to_share_a_free_lock() {
    let env = Redis::start().await;
    let manager = env.manager().await;
    set(&env.server, "maxmemory", "1").await;
    for error in refusals(&manager).await {
        assert_eq!(unavailable(&error).kind(), StoreErrorKind::OutOfMemory);
        assert_says(&error, &["maxmemory"]);
    }
    assert_eq!(env.locks().await, Vec::<String>::new());
    set(&env.server, "maxmemory", "0").await;
    for lock in sharing(&manager) {
        soon(lock.run(async |_| ())).await.unwrap();
    }
    env.assert_clean(1, &[&manager]).await;
}

#[tokio::test]
async fn a_server_that_refuses_writes_shares_no_lock() {
    let env = Redis::start().await;
    let manager = env.manager().await;
    set(&env.server, "min-replicas-to-write", "1").await;
    for error in refusals(&manager).await {
        assert_eq!(unavailable(&error).kind(), StoreErrorKind::Refused);
        assert_says(&error, &["NOREPLICAS"]);
    }
    let waiting = sharing(&manager).map(|lock| tokio::spawn(lock.wait(LIMIT).acquire()));
    set(&env.server, "min-replicas-to-write", "0").await;
    for waiting in waiting {
        let guard = soon(waiting).await.unwrap().unwrap();
        soon(guard.release()).await.unwrap();
    }
    env.assert_clean(1, &[&manager]).await;
}

/// What a replica says of a lock counts neither for those who come nor for those inside.
#[tokio::test]
async fn a_replica_shares_no_lock_and_takes_no_shared_lease_away() {
    let env = Redis::start().await;
    let (manager, other) = (env.manager().await, env.manager().await);
    let ttl = Duration::from_secs(60);
    let reader = soon(manager.lock("order:7").shared().ttl(ttl).acquire())
        .await
        .unwrap();
    let permit = soon(manager.lock("order:8").permits(2).ttl(ttl).acquire())
        .await
        .unwrap();
    let (_proxy, nobody) = refused();
    let port = nobody.rsplit(':').next().unwrap();
    let mut connection = env.server.connection().await;
    run(&mut connection, &["REPLICAOF", "127.0.0.1", port]).await;
    for error in refusals(&other).await {
        assert!(matches!(error, LockError::Unavailable { .. }), "{error}");
    }
    reader.ensure_held().unwrap();
    permit.ensure_held().unwrap();
    run(&mut connection, &["REPLICAOF", "NO", "ONE"]).await;
    soon(reader.release()).await.unwrap();
    soon(permit.release()).await.unwrap();
    soon(other.lock(KEY).shared().wait(LIMIT).run(async |_| ()))
        .await
        .unwrap();
    env.assert_clean(3, &[&manager, &other]).await;
}

/// A replica that has missed the last writes cannot tell whether a lease was lost.
#[tokio::test]
async fn a_replica_without_a_shared_lease_does_not_make_its_release_a_loss() {
    let env = Redis::start().await;
    let manager = env.manager().await;
    let mut connection = env.server.connection().await;
    let (_proxy, nobody) = refused();
    let port = nobody.rsplit(':').next().unwrap();
    let exclusive = manager.lock(KEY);
    for lock in sharing(&manager).into_iter().chain([exclusive]) {
        let guard = soon(lock.acquire()).await.unwrap();
        run(&mut connection, &["FLUSHALL"]).await;
        run(&mut connection, &["REPLICAOF", "127.0.0.1", port]).await;
        soon(guard.release()).await.unwrap();
        run(&mut connection, &["REPLICAOF", "NO", "ONE"]).await;
        assert_idle(&[&manager]).await;
    }
}

/// Those inside are renewed and leave, and the lock goes to the writer that waits, and from it to the readers.
#[tokio::test]
async fn a_full_server_keeps_those_inside_and_lets_in_who_waits() {
    const TURNS: u32 = 20;

    let env = Redis::start().await;
    // Renewed while those who wait are alive, and not lost on a machine that stands still for a second.
    let brief = |it: dlock::LockManagerBuilder| it.ttl(ALIVE).wait(LIMIT);
    let inside = env.manager_with(brief).await;
    let third = env.manager_with(brief).await;
    let reads = env.manager_with(brief).await;
    for lock in sharing(&inside) {
        let mut turns = 0;
        loop {
            let guard = soon(lock.clone().acquire()).await.unwrap();
            let probe = OneKey::new(env.store().await, KEY);
            // A full server refuses what waiters ask, so their places last until their time is up.
            let begun = Instant::now();
            let writer = tokio::spawn(third.lock(KEY).acquire());
            probe.until_waiting(1).await;
            let reader = tokio::spawn(reads.lock(KEY).shared().acquire());
            probe.until_waiting(2).await;
            set(&env.server, "maxmemory", "1").await;
            let first = guard.remaining();
            eventually(LIMIT, "it is renewed", async || guard.remaining() > first).await;
            soon(guard.release()).await.unwrap();
            let waiters = [writer.abort_handle(), reader.abort_handle()];
            let passed = timeout(ALIVE, async move {
                let guard = writer.await.unwrap().unwrap();
                let token = guard.fencing_token();
                soon(guard.release()).await.unwrap();
                let guard = reader.await.unwrap().unwrap();
                assert!(
                    guard.fencing_token() > token,
                    "broken promise: the token did not grow"
                );
                soon(guard.release()).await.unwrap();
            });
            let passed = passed.await.is_ok();
            set(&env.server, "maxmemory", "0").await;
            if passed {
                break;
            }
            // A machine that stood still.
            turns += 1;
            assert!(
                begun.elapsed() > ALIVE && turns < TURNS,
                "no waiter is let in"
            );
            for waiter in waiters {
                waiter.abort();
            }
            assert_idle(&[&inside, &third, &reads]).await;
        }
    }
    env.assert_clean(1, &[&inside, &third, &reads]).await;
}
