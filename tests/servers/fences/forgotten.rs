//! A server that has forgotten everything: the tokens of a key grow all the same.

use std::time::Duration;

use dlock::{FencingToken, LockManager, LostCause};
use dlock_testkit::eventually;
use tokio::{sync::watch, time::Instant};

use crate::common::{
    ANSWER, Env, Fate, HasServer, Kind, LIMIT, OldRedis, OneKey, RawKeys, Redis, Valkey, Wire,
    begin, is_lost, soon,
};

async fn section(manager: &LockManager) -> FencingToken {
    let lock = manager.lock("order:42").wait(LIMIT);
    let guard = soon(lock.acquire()).await.unwrap();
    let token = guard.fencing_token();
    soon(guard.release()).await.unwrap();
    token
}

async fn tokens_grow<E: Env + HasServer>() {
    let env = E::start().await;
    let managers = [env.manager().await, env.manager().await];
    let server = env.server();
    let mut tokens = Vec::new();
    for round in 0..2 {
        for what in ["nothing", "FLUSHALL", "SCRIPT FLUSH", "restart"] {
            match what {
                "nothing" => {}
                "restart" => server.restart().await,
                command => {
                    let mut words = command.split(' ');
                    let mut command = redis::cmd(words.next().unwrap());
                    command.arg(words.collect::<Vec<_>>());
                    let mut connection = server.connection().await;
                    command.exec_async(&mut connection).await.unwrap();
                }
            }
            if what == "FLUSHALL" || what == "restart" {
                assert_eq!(server.keys("*").await, Vec::<String>::new());
            }
            // Also from one process to the other.
            let first = &managers[round % 2];
            for manager in [first, first, &managers[(round + 1) % 2]] {
                tokens.push((what, section(manager).await));
            }
        }
    }
    let grow = tokens.is_sorted_by(|(_, one), (_, next)| one < next);
    assert!(grow, "broken promise: the token did not grow: {tokens:?}");
    env.assert_clean(1, &[&managers[0], &managers[1]]).await;
}

#[tokio::test]
async fn tokens_grow_although_redis_forgets() {
    tokens_grow::<Redis>().await;
}

#[tokio::test]
async fn tokens_of_raw_keys_grow_although_redis_forgets() {
    tokens_grow::<RawKeys>().await;
}

#[tokio::test]
async fn tokens_grow_although_valkey_forgets() {
    tokens_grow::<Valkey>().await;
}

#[tokio::test]
async fn tokens_grow_although_an_old_server_forgets() {
    tokens_grow::<OldRedis>().await;
}

/// What a holder had is gone with the server's data: nobody may have a smaller token after it.
#[tokio::test]
async fn a_token_grows_when_the_server_forgets_its_holder() {
    let env = Redis::start().await;
    let managers = [env.manager().await, env.manager().await];
    let held = soon(managers[0].lock("order:42").acquire()).await.unwrap();
    env.server().flush().await;
    let next = soon(managers[1].lock("order:42").acquire()).await.unwrap();
    assert!(
        next.fencing_token() > held.fencing_token(),
        "broken promise: the token did not grow"
    );
    soon(held.release()).await.expect_err("it is lost");
    soon(next.release()).await.unwrap();
    env.assert_clean(1, &[&managers[0], &managers[1]]).await;
}

/// The answer to the first reader is late. When it comes, the server has forgotten that lease, and another process has
/// the key. By its own clock the reader still has it, but no call that came since begins with it.
#[tokio::test]
async fn a_reader_that_comes_after_the_server_forgot_has_a_greater_token() {
    let env = Redis::start().await;
    let (other, wire) = (env.manager().await, Wire::new(env.store().await));
    let builder = LockManager::builder().response_timeout(ANSWER);
    let one = builder.build_with_store(wire.clone()).unwrap();
    let reads = || one.lock("order:42").shared().wait(LIMIT).acquire();
    let (gate, opened) = watch::channel(false);
    wire.next(Kind::Acquire, Fate::ReplyHeld(opened));
    let first = tokio::spawn(reads());
    eventually(LIMIT, "it is granted", async || {
        !env.server().keys("dlock:{*").await.is_empty()
    })
    .await;
    let granted = Instant::now();
    env.server().flush().await;
    let held = soon(other.lock("order:42").acquire()).await.unwrap();
    eventually(LIMIT, "a turn is over", async || {
        granted.elapsed() > Duration::from_millis(10)
    })
    .await;
    let mut second = Box::pin(reads());
    begin(&mut second).await;
    gate.send_replace(true);
    let first = soon(first).await.unwrap().unwrap();
    let second = tokio::spawn(second);
    let key = OneKey::new(env.store().await, "order:42");
    key.until_waiting(1).await;
    let token = held.fencing_token();
    soon(held.release()).await.unwrap();
    let second = soon(second).await.unwrap().unwrap();
    assert!(
        second.fencing_token() > token,
        "broken promise: the token did not grow"
    );
    soon(first.release()).await.expect_err("it is lost");
    soon(second.release()).await.unwrap();
    env.assert_clean(1, &[&one, &other]).await;
}

// D13
/// By hand, say. Nobody tells the waiter: it finds that when it looks.
#[tokio::test]
async fn a_lock_that_was_deleted_goes_to_who_waits_and_its_holder_is_told() {
    let env = Redis::start().await;
    let managers = [env.manager().await, env.manager().await];
    let key = OneKey::new(env.store().await, "order:42");
    let ttl = Duration::from_secs(4);
    let held = soon(managers[0].lock("order:42").ttl(ttl).acquire())
        .await
        .unwrap();
    let waiting = tokio::spawn(managers[1].lock("order:42").wait(LIMIT).acquire());
    key.until_waiting(1).await;
    env.delete("order:42").await;
    let next = soon(waiting).await.unwrap().unwrap();
    assert!(
        next.fencing_token() > held.fencing_token(),
        "broken promise: the token did not grow"
    );
    soon(held.lost()).await;
    let outcome = soon(held.release()).await;
    assert!(
        is_lost(&outcome, |cause| *cause == LostCause::Revoked),
        "{outcome:?}"
    );
    next.ensure_held().unwrap();
    soon(next.release()).await.unwrap();
    env.assert_clean(1, &[&managers[0], &managers[1]]).await;
}
