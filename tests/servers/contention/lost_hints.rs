//! Lost hints: the waiter finds its grant when it polls.

use std::time::Duration;

use dlock::Wait;
use tokio::time::Instant;

use crate::common::{Env, Kind, OneKey, Redis, soon};
use crate::contention::victim::{Hushed, Victim};

/// A waiter looks again after a second and a quarter of one at the latest.
const LOOK: Duration = Duration::from_millis(1250);

#[tokio::test(start_paused = true)]
async fn without_a_hint_a_waiter_finds_its_grant_within_a_second_and_a_quarter() {
    for round in 0..20 {
        let victim = Victim::new();
        let holder = OneKey::<Hushed>::owner();
        victim.key.granted(holder, Duration::from_secs(30)).await;
        let (waiting, _) = victim.wait().await;
        // At some moment between two looks.
        tokio::time::sleep(Duration::from_millis(round * 97)).await;
        victim.key.release(holder).await;
        let (since, fence) = (Instant::now(), victim.last_fence().await);
        let guard = soon(waiting).await.unwrap().unwrap();
        assert!(since.elapsed() <= LOOK, "{:?}", since.elapsed());
        assert_eq!(guard.fencing_token().fence(), fence, "the same grant");
        // It has asked, and so it has its whole TTL.
        assert!(guard.remaining() > Duration::from_secs(20));
        soon(guard.release()).await.unwrap();
        victim.assert_clean().await;
    }
}

/// Publishing fails for the releaser, and its release does not.
#[tokio::test]
async fn a_server_that_refuses_to_publish_costs_time_only() {
    let env = Redis::start().await;
    let managers = [env.manager().await, env.manager().await];
    let key = OneKey::new(env.store().await, "order:42");
    let mut guard = soon(managers[0].lock("order:42").acquire()).await.unwrap();
    let mut connection = env.server.connection().await;
    redis::cmd("ACL")
        .arg(&["SETUSER", "default", "-publish"])
        .exec_async(&mut connection)
        .await
        .unwrap();
    for manager in [&managers[1], &managers[0]] {
        let waiting = tokio::spawn(manager.lock("order:42").wait(Wait::Forever).acquire());
        key.until_waiting(1).await;
        soon(guard.release()).await.unwrap();
        let granted = fence(&env).await;
        guard = soon(waiting).await.unwrap().unwrap();
        // Not a later one: it was found before the grant ended.
        assert_eq!(guard.fencing_token().fence(), granted);
        assert!(guard.remaining() > Duration::from_secs(20));
    }
    soon(guard.release()).await.unwrap();
    env.assert_clean(1, &[&managers[0], &managers[1]]).await;
}

/// The last fence that the server has given.
pub(crate) async fn fence(env: &Redis) -> u64 {
    let keys = env.server.keys("dlock:fence:*").await;
    let mut connection = env.server.connection().await;
    redis::cmd("GET")
        .arg(&keys)
        .query_async(&mut connection)
        .await
        .unwrap()
}

/// The hint alone is enough, where it comes.
#[tokio::test(start_paused = true)]
async fn with_a_hint_a_waiter_neither_waits_nor_asks() {
    let victim = Victim::new();
    let holder = OneKey::<Hushed>::owner();
    victim.key.granted(holder, Duration::from_secs(30)).await;
    let (waiting, owner) = victim.wait().await;
    let asked = victim.wire.count(Kind::Acquire);
    victim.key.release(holder).await;
    let since = Instant::now();
    victim.store.hint(owner, victim.last_fence().await);
    let guard = soon(waiting).await.unwrap().unwrap();
    assert!(since.elapsed().is_zero());
    assert_eq!(victim.wire.count(Kind::Acquire), asked);
    soon(guard.release()).await.unwrap();
    victim.assert_clean().await;
}
