//! Servers whose wall clock somebody sets while locks are held. TTLs and fences go by it.
#![cfg(feature = "redis")]

use std::time::Duration;

use dlock::{LockManager, LostCause, Wait};
use dlock_testkit::RedisServer;

use crate::common::{Env, LIMIT, OneKey, Redis, is_lost, soon};

/// Longer than a lease lasts, and longer than a test may take.
const JUMP: Duration = Duration::from_secs(40);

async fn start() -> (Redis, [LockManager; 2]) {
    let env = Redis::over(RedisServer::start_with_clock(&[]).await);
    let managers = [env.manager().await, env.manager().await];
    (env, managers)
}

/// C6. The lease has ended for the server at once. Its holder is told when it renews the next time,
/// and until then a greater token is the only thing that tells the two apart.
#[tokio::test]
async fn a_clock_that_is_put_forward_ends_leases_and_tokens_grow() {
    let (env, [one, other]) = start().await;
    let ttl = Duration::from_secs(3);
    let body = one.lock("order:42").ttl(ttl).run(async |lease| {
        env.server.put_clock_forward(JUMP);
        let next = soon(other.lock("order:42").wait(Wait::Never).acquire()).await;
        let next = next.expect("it is free for the server");
        assert!(
            next.fencing_token() > lease.fencing_token(),
            "broken promise: the token did not grow"
        );
        // Its own release tells that it is not its own any more.
        let lost = soon(lease.lost()).await;
        next.ensure_held().expect("it is the next one's");
        soon(next.release()).await.unwrap();
        lost
    });
    let outcome = soon(body).await;
    assert!(
        is_lost(&outcome, |cause| *cause == LostCause::Revoked),
        "{outcome:?}"
    );
    env.assert_clean(1, &[&one, &other]).await;
}

/// C6. Who waits counts as dead at first, and comes into the queue again.
#[tokio::test]
async fn whoever_waits_while_a_clock_is_put_forward_gets_the_lock() {
    let (env, [one, other]) = start().await;
    let holder = soon(one.lock("order:42").acquire()).await.unwrap();
    let token = holder.fencing_token();
    let waiter = tokio::spawn(other.lock("order:42").wait(Wait::Forever).acquire());
    OneKey::new(env.store().await, "order:42")
        .until_waiting(1)
        .await;
    env.server.put_clock_forward(JUMP);
    let guard = soon(waiter).await.unwrap().unwrap();
    assert!(
        guard.fencing_token() > token,
        "broken promise: the token did not grow"
    );
    soon(guard.release()).await.unwrap();
    drop(holder);
    env.assert_clean(1, &[&one, &other]).await;
}

/// C7. A lease lasts longer than it should for the server; that keeps nobody waiting who is told, nor
/// who looks.
#[tokio::test]
async fn a_clock_that_is_put_back_holds_up_no_release_and_no_waiter() {
    let (env, [one, other]) = start().await;
    let ttl = Duration::from_secs(30);
    let holder = soon(one.lock("order:42").ttl(ttl).acquire()).await.unwrap();
    let mut token = holder.fencing_token();
    let waiter = tokio::spawn(other.lock("order:42").wait(Wait::Forever).acquire());
    let key = OneKey::new(env.store().await, "order:42");
    key.until_waiting(1).await;
    env.server.put_clock_back(JUMP);
    let guard = {
        let mut connection = env.server.connection().await;
        let mut ask = redis::cmd("PTTL");
        let left: u64 = ask
            .arg("dlock:{order:42}")
            .query_async(&mut connection)
            .await
            .unwrap();
        assert!(Duration::from_millis(left) > ttl + LIMIT / 4, "{left}");
        soon(holder.release()).await.unwrap();
        soon(waiter).await.unwrap().unwrap()
    };
    assert!(
        guard.fencing_token() > token,
        "broken promise: the token did not grow: the last one counts, not the clock"
    );
    token = guard.fencing_token();

    // Deleted by hand, which tells nobody: who waits looks as often as ever.
    let waiter = tokio::spawn(one.lock("order:42").wait(Wait::Forever).acquire());
    key.until_waiting(1).await;
    env.server.put_clock_back(JUMP);
    env.delete("order:42").await;
    let next = soon(waiter).await.unwrap().unwrap();
    assert!(
        next.fencing_token() > token,
        "broken promise: the token did not grow"
    );
    drop(guard);
    soon(next.release()).await.unwrap();
    env.assert_clean(1, &[&one, &other]).await;
}
