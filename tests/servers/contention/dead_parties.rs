//! Waiters that die, or stand still, when it is their turn: the next one is kept waiting for a
//! bounded time, and the dead one, should it come back, holds nothing.

use std::time::Duration;

use dlock::{LockGuard, LockManager, Wait, store::GRANT_TTL};
use dlock_testkit::{Worker, eventually};
use tokio::{task::JoinHandle, time::Instant};

use crate::common::{Env, LIMIT, OneKey, Redis, soon};
use crate::contention::{
    lost_hints::fence,
    worker::{Role, spawn},
};

const TTL: Duration = Duration::from_secs(30);

/// A waiter looks again after a second and a quarter of one at the latest.
const LOOK: Duration = Duration::from_millis(1250);

/// After the time of the grant, which is 3 s, and one look.
pub(crate) async fn a_granted_waiter_that_died_is_passed_over<E: Env>() {
    let env = E::start().await;
    let manager = env.manager().await;
    let key = OneKey::new(env.store().await, "order:42");
    let [holder, dead] = [(); 2].map(|()| OneKey::<E::Store>::owner());
    key.granted(holder, TTL).await;
    key.busy(dead).await;
    let waiting = tokio::spawn(manager.lock("order:42").wait(Wait::Forever).acquire());
    key.until_waiting(2).await;
    key.release(holder).await;
    let since = Instant::now();
    let guard = soon(waiting).await.unwrap().unwrap();
    let waited = since.elapsed();
    assert!(waited <= GRANT_TTL + LOOK + E::PROMPT, "{waited:?}");
    soon(guard.release()).await.unwrap();
    env.assert_clean(1, &[&manager]).await;
}

/// When it has not asked for 3 s: it gets nothing then, and nobody waits for it.
pub(crate) async fn a_dead_head_of_the_queue_is_skipped<E: Env>() {
    let env = E::start().await;
    let manager = env.manager().await;
    let key = OneKey::new(env.store().await, "order:42");
    let [holder, dead] = [(); 2].map(|()| OneKey::<E::Store>::owner());
    let fence = key.granted(holder, TTL).await;
    key.busy(dead).await;
    let waiting = tokio::spawn(manager.lock("order:42").wait(Wait::Forever).acquire());
    key.until_waiting(2).await;
    // It does not ask again, the other one does.
    key.until_waiting(1).await;
    key.release(holder).await;
    let since = Instant::now();
    let guard = soon(waiting).await.unwrap().unwrap();
    assert!(since.elapsed() <= E::PROMPT, "{:?}", since.elapsed());
    assert!(
        guard.fencing_token().fence() > fence,
        "broken promise: the token did not grow"
    );
    soon(guard.release()).await.unwrap();
    env.assert_clean(1, &[&manager]).await;
}

/// A process that waits first, one of the test's own that waits behind it, and the lock just
/// given to the first, which stands still.
struct Stopped {
    env: Redis,
    managers: [LockManager; 2],
    key: OneKey<<Redis as Env>::Store>,
    worker: Worker,
    waiting: JoinHandle<Result<LockGuard, dlock::LockError>>,
    /// Of the grant.
    fence: u64,
}

impl Stopped {
    async fn just_granted() -> Self {
        let env = Redis::start().await;
        let managers = [env.manager().await, env.manager().await];
        let key = OneKey::new(env.store().await, "order:42");
        let guard = soon(managers[0].lock("order:42").acquire()).await.unwrap();
        let url = env.server.url();
        let worker = spawn(&Role::Waiter { url });
        key.until_waiting(1).await;
        let waiting = tokio::spawn(managers[1].lock("order:42").wait(Wait::Forever).acquire());
        key.until_waiting(2).await;
        worker.pause();
        soon(guard.release()).await.unwrap();
        let fence = fence(&env).await;
        let ttl: i64 = {
            let mut connection = env.server.connection().await;
            let mut ask = redis::cmd("PTTL");
            ask.arg("dlock:{order:42}");
            ask.query_async(&mut connection).await.unwrap()
        };
        assert!(Duration::from_millis(ttl.try_into().unwrap()) <= GRANT_TTL);
        Self {
            env,
            managers,
            key,
            worker,
            waiting,
            fence,
        }
    }
}

#[tokio::test]
async fn a_process_killed_when_it_was_granted_the_lock_is_passed_over() {
    let stopped = Stopped::just_granted().await;
    stopped.worker.kill();
    let guard = soon(stopped.waiting).await.unwrap().unwrap();
    assert!(
        guard.fencing_token().fence() > stopped.fence,
        "broken promise: the token did not grow"
    );
    soon(guard.release()).await.unwrap();
    let [one, two] = &stopped.managers;
    stopped.env.assert_clean(1, &[one, two]).await;
}

/// The hint is the first thing that it finds when it goes on, and is too old by then.
#[tokio::test]
async fn a_process_stopped_when_it_was_granted_the_lock_does_not_hold_it_when_it_goes_on() {
    let stopped = Stopped::just_granted().await;
    let guard = soon(stopped.waiting).await.unwrap().unwrap();
    let next = guard.fencing_token().fence();
    assert!(
        next > stopped.fence,
        "broken promise: the token did not grow"
    );
    stopped.worker.resume();
    stopped.key.until_waiting(1).await;
    let said = stopped.worker.stdout();
    assert!(
        !said.contains("holding"),
        "broken promise: two at once: {said}"
    );
    guard.ensure_held().unwrap();
    soon(guard.release()).await.unwrap();
    let line = stopped.worker.line("holding ", LIMIT).await;
    let (_, fence) = line.split_once("holding ").unwrap();
    assert!(
        fence.parse::<u64>().unwrap() > next,
        "broken promise: the token did not grow"
    );
    stopped.worker.line("outcome: released", LIMIT).await;
    assert!(stopped.worker.wait(LIMIT).await.success());
    let [one, two] = &stopped.managers;
    stopped.env.assert_clean(1, &[one, two]).await;
}

/// A process in whose channel so much piles up that the server closes its connection.
#[tokio::test]
async fn a_process_that_was_too_slow_for_its_hints_gets_on_again() {
    let env = Redis::start().await;
    let managers = [env.manager().await, env.manager().await];
    let key = OneKey::new(env.store().await, "order:42");
    let mut connection = env.server.connection().await;
    redis::cmd("CONFIG")
        .arg(&["SET", "client-output-buffer-limit", "pubsub 65536 0 0"])
        .exec_async(&mut connection)
        .await
        .unwrap();
    let guard = soon(managers[0].lock("order:42").acquire()).await.unwrap();
    let worker = spawn(&Role::Waiter {
        url: env.server.url(),
    });
    key.until_waiting(1).await;
    let owners: Vec<String> = redis::cmd("ZRANGE")
        .arg(&["dlock:{order:42}:q", "0", "0"])
        .query_async(&mut connection)
        .await
        .unwrap();
    let (client, _) = owners[0].split_once('.').unwrap();
    worker.pause();
    let waiting = tokio::spawn(managers[1].lock("order:42").wait(Wait::Forever).acquire());
    let noise = "x".repeat(100_000);
    eventually(LIMIT, "the server has closed the connection", async || {
        let heard: u32 = redis::cmd("PUBLISH")
            .arg(format!("dlock:wake:{client}"))
            .arg(&noise)
            .query_async(&mut connection.clone())
            .await
            .unwrap();
        heard == 0
    })
    .await;
    soon(guard.release()).await.unwrap();
    worker.resume();
    let guard = soon(waiting).await.unwrap().unwrap();
    soon(guard.release()).await.unwrap();
    worker.line("outcome: released", LIMIT).await;
    assert!(worker.wait(LIMIT).await.success());
    env.assert_clean(1, &[&managers[0], &managers[1]]).await;
}
