//! Each side respects the leases of the other.

use std::time::Duration;

use dlock::{
    LockError, LostCause, Wait,
    store::{Released, Renewal},
};
use dlock_testkit::eventually;

use crate::common::{Env, HasServer, LIMIT, OneKey, RawKeys, is_busy, is_lost, soon};
use crate::interop::{KEY, foreign};

/// Long enough not to end while a test runs.
const TTL: Duration = Duration::from_secs(60);

/// Somebody of this manager is in the queue.
async fn until_one_waits(env: &RawKeys) {
    eventually(LIMIT, "somebody waits", async || {
        let keys = env.server.keys("dlock:{*}:rq").await;
        keys == [format!("dlock:{{{KEY}}}:rq")]
    })
    .await;
}

#[tokio::test]
async fn what_they_hold_is_busy_here_until_they_release_it() {
    let env = RawKeys::start().await;
    let manager = env.manager().await;
    let mut foreign = foreign::start(env.server(), Some(TTL)).await;
    assert_eq!(foreign.ask("try").await, "True");

    let lock = manager.lock(KEY).wait(Wait::Never);
    let error = soon(lock.acquire()).await.unwrap_err();
    let LockError::Busy { holder, .. } = &error else {
        panic!("{error}");
    };
    assert_eq!(holder.label, None);
    let left = holder.ttl.expect("it has a time to live");
    assert!(left <= TTL && left + LIMIT > TTL, "{left:?}");
    let text = error.to_string();
    assert!(text.contains("held by another client, whose"), "{text}");

    let waiting = tokio::spawn(manager.lock(KEY).wait(LIMIT).acquire());
    until_one_waits(&env).await;
    assert_eq!(foreign.ask("owned").await, "True");
    assert_eq!(foreign.ask("release").await, "released");
    let guard = soon(waiting).await.unwrap().unwrap();
    assert_eq!(foreign.ask("try").await, "False");
    soon(guard.release()).await.unwrap();
    env.assert_clean(1, &[&manager]).await;
}

/// Their release tells nobody, and this wait ends before the first poll, which comes after a second at the
/// earliest.
#[tokio::test]
async fn what_they_release_during_a_short_wait_is_got_before_that_is_over() {
    const WAIT: Duration = Duration::from_secs(1);
    let env = RawKeys::start().await;
    let manager = env.manager().await;
    let mut foreign = foreign::start(env.server(), Some(TTL)).await;
    for attempt in 0.. {
        assert_eq!(foreign.ask("try").await, "True");
        let waiting = tokio::spawn(manager.lock(KEY).wait(WAIT).acquire());
        // A machine that stands still for as long sees nobody wait.
        eventually(LIMIT, "somebody waits", async || {
            !env.server.keys("dlock:{*}:rq").await.is_empty() || waiting.is_finished()
        })
        .await;
        assert_eq!(foreign.ask("release").await, "released");
        match soon(waiting).await.unwrap() {
            Ok(guard) => {
                soon(guard.release()).await.unwrap();
                break;
            }
            // A machine that stood still for the last part of the wait.
            Err(error) => assert!(attempt < 4, "{error}"),
        }
        eventually(LIMIT, "nobody waits", async || {
            env.server.keys("dlock:{*}:rq").await.is_empty()
        })
        .await;
    }
    env.assert_clean(1, &[&manager]).await;
}

#[tokio::test]
async fn what_is_held_here_they_get_after_its_release() {
    let env = RawKeys::start().await;
    let manager = env.manager().await;
    let mut foreign = foreign::start(env.server(), Some(TTL)).await;
    let guard = soon(manager.lock(KEY).acquire()).await.unwrap();
    let token = guard.fencing_token();
    assert_eq!(foreign.ask("try").await, "False");

    foreign.tell(&format!("wait {}", LIMIT.as_secs())).await;
    soon(guard.release()).await.unwrap();
    let outcome = foreign.outcome().await;
    assert!(outcome.starts_with("True "), "{outcome}");
    assert!(
        is_busy(&manager, KEY).await,
        "broken promise: two hold the key"
    );
    assert_eq!(foreign.ask("release").await, "released");

    let next = soon(manager.lock(KEY).acquire()).await.unwrap();
    assert!(
        next.fencing_token() > token,
        "broken promise: the token did not grow: whoever had it between the two"
    );
    soon(next.release()).await.unwrap();
    env.assert_clean(1, &[&manager]).await;
}

#[tokio::test]
async fn they_can_neither_prolong_nor_release_what_is_held_here() {
    let env = RawKeys::start().await;
    let manager = env.manager().await;
    let mut foreign = foreign::start(env.server(), Some(TTL)).await;
    assert_eq!(foreign.ask("try").await, "True");
    // It believes that it holds the lock, as after a long pause.
    env.delete(KEY).await;
    let guard = soon(manager.lock(KEY).acquire()).await.unwrap();
    let value = value(&env).await;
    for order in ["extend 3600", "reacquire", "release"] {
        assert_eq!(foreign.ask(order).await, "LockNotOwnedError", "{order}");
    }
    assert_eq!(foreign.ask("owned").await, "False");
    assert_eq!(self::value(&env).await, value);
    assert!(time_to_live(&env).await <= Duration::from_secs(30));
    soon(guard.release()).await.expect("it was not taken away");
    env.assert_clean(1, &[&manager]).await;
}

#[tokio::test]
async fn what_they_hold_is_neither_prolonged_nor_released_here() {
    let env = RawKeys::start().await;
    let manager = env.manager().await;
    let loser = soon(manager.lock(KEY).acquire()).await.unwrap();
    env.delete(KEY).await;
    let mut foreign = foreign::start(env.server(), Some(TTL)).await;
    assert_eq!(foreign.ask("try").await, "True");
    let value = value(&env).await;

    let outcome = soon(loser.release()).await;
    assert!(
        is_lost(&outcome, |cause| *cause == LostCause::Revoked),
        "{outcome:?}"
    );
    let key = OneKey::new(env.store().await, KEY);
    let owner = OneKey::<<RawKeys as Env>::Store>::owner();
    assert_eq!(key.busy(owner).await.position, Some(0));
    assert_eq!(
        key.renew(owner).await,
        Renewal::NotOwner,
        "broken promise: another owner has renewed"
    );
    assert_eq!(key.release(owner).await, Released::WasGone);
    assert_eq!(self::value(&env).await, value);
    // A renewal would have made it half of that.
    assert!(time_to_live(&env).await > TTL / 2);
    assert_eq!(foreign.ask("owned").await, "True");
    assert_eq!(foreign.ask("release").await, "released");
    env.assert_clean(1, &[&manager]).await;
}

async fn value(env: &RawKeys) -> Vec<u8> {
    let mut connection = env.server.connection().await;
    redis::cmd("GET")
        .arg(KEY)
        .query_async(&mut connection)
        .await
        .unwrap()
}

async fn time_to_live(env: &RawKeys) -> Duration {
    let mut connection = env.server.connection().await;
    let left: i64 = redis::cmd("PTTL")
        .arg(KEY)
        .query_async(&mut connection)
        .await
        .unwrap();
    Duration::from_millis(left.try_into().expect("it has a time to live"))
}
