//! Servers that accept connections and answer nothing.

use std::time::Duration;

use dlock::{ConnectError, LockError, LockManager, LostCause, Wait, store::StoreErrorKind};
use dlock_testkit::{Proxy, eventually};

use crate::bad_input::{WAIT, assert_says, lazy, refusal, unavailable};
use crate::common::{Env, LIMIT, Redis, is_lost, soon};

/// It is refused a lock in time, and told that nobody answers.
async fn assert_silent(manager: &LockManager) {
    let error = refusal(manager).await;
    let reason = unavailable(&error);
    let kinds = [StoreErrorKind::TimedOut, StoreErrorKind::Unreachable];
    assert!(kinds.contains(&reason.kind()), "{error}");
}

async fn assert_healed(env: &Redis, manager: &LockManager) {
    let guard = soon(manager.lock("order:42").wait(LIMIT).acquire())
        .await
        .unwrap();
    soon(guard.release()).await.unwrap();
    env.assert_clean(1, &[manager]).await;
}

#[tokio::test]
async fn of_a_stopped_process_is_unavailable_in_time_and_heals() {
    let env = Redis::start().await;
    let manager = env
        .manager_with(|it| it.response_timeout(Duration::from_millis(300)).wait(WAIT))
        .await;
    env.server.pause();
    assert_silent(&manager).await;
    env.server.resume();
    assert_healed(&env, &manager).await;
}

/// What a readiness probe asks.
#[tokio::test]
async fn is_seen_by_the_check_of_a_manager() {
    let env = Redis::start().await;
    let limited = async || {
        env.manager_with(|it| it.response_timeout(Duration::from_millis(300)))
            .await
    };
    let (manager, other) = (limited().await, limited().await);
    soon(manager.health()).await.unwrap();
    // One that another process has acquired at this moment is an answer, too.
    let held = soon(other.lock("dlock-health").acquire()).await.unwrap();
    soon(manager.health()).await.unwrap();
    soon(held.release()).await.unwrap();
    env.server.pause();
    let error = soon(manager.health()).await.unwrap_err();
    assert!(matches!(error, LockError::Unavailable { .. }), "{error}");
    env.server.resume();
    eventually(LIMIT, "it is healthy again", async || {
        soon(manager.health()).await.is_ok()
    })
    .await;
    env.assert_clean(1, &[&manager, &other]).await;
}

#[tokio::test]
async fn of_a_network_is_unavailable_in_time_and_heals() {
    let env = Redis::start().await;
    let proxy = Proxy::start(env.server.port());
    let manager = lazy(&proxy.url());
    let first = manager.lock("order:42").wait(LIMIT);
    soon(first.run(async |_| ())).await.unwrap();
    proxy.freeze();
    assert_silent(&manager).await;
    proxy.thaw();
    assert_healed(&env, &manager).await;
}

#[tokio::test]
async fn at_connecting_ends_in_time() {
    let env = Redis::start().await;
    let proxy = Proxy::start(env.server.port());
    proxy.freeze();
    let builder = LockManager::builder().connect_timeout(Duration::from_millis(500));
    let error = soon(builder.connect(&proxy.url())).await.unwrap_err();
    assert_says(&error, &[&proxy.url(), "within"]);
    assert!(matches!(error, ConnectError::Unavailable { .. }));
}

/// It does not outlive what was confirmed, although nothing says that the server is gone.
#[tokio::test]
async fn during_a_body_ends_it_at_its_deadline() {
    let env = Redis::start().await;
    let manager = env
        .manager_with(|it| it.response_timeout(Duration::from_millis(300)))
        .await;
    // A renewal has failed before the deadline, also on a machine that stands still for a second.
    let ttl = Duration::from_secs(4);
    let body = manager.lock("order:42").ttl(ttl).run(async |_| {
        env.server.pause();
        std::future::pending::<()>().await;
    });
    let outcome = soon(body).await;
    let not_renewed = |cause: &LostCause| matches!(cause, LostCause::NotRenewed { .. });
    assert!(is_lost(&outcome, not_renewed), "{outcome:?}");
    env.server.resume();
    env.assert_clean(1, &[&manager]).await;
}

#[tokio::test]
async fn at_a_release_is_not_the_callers_error() {
    let env = Redis::start().await;
    let proxy = Proxy::start(env.server.port());
    let manager = lazy(&proxy.url());
    let body = manager.lock("order:42").wait(LIMIT).run(async |_| {
        proxy.freeze();
        "done"
    });
    assert_eq!(soon(body).await, Ok("done"));
    proxy.thaw();
    env.assert_clean(1, &[&manager]).await;
}

/// The address is right: a server that accepts connections and does not answer is told from one that is not
/// there, by whoever had a connection and by whoever has none.
#[tokio::test]
async fn of_a_server_that_is_paused_is_not_put_down_to_its_address() {
    const PAUSED: &str = "`CLIENT PAUSE`";
    let env = Redis::start().await;
    let limit = Duration::from_millis(300);
    let builder = || {
        let builder = LockManager::builder().response_timeout(limit);
        builder.connect_timeout(20 * limit).wait(Wait::Never)
    };
    let manager = builder().connect(&env.server.url()).await.unwrap();
    redis::cmd("CLIENT")
        .arg(&["PAUSE", "600000", "ALL"])
        .exec_async(&mut env.server.connection().await)
        .await
        .unwrap();
    let mut seen = [false; 2];
    eventually(LIMIT, "both texts are seen", async || {
        let lock = manager.lock("order:42");
        let text = soon(lock.acquire()).await.unwrap_err().to_string();
        assert!(!text.contains("address is correct"), "{text}");
        for (seen, part) in seen
            .iter_mut()
            .zip(["stopped answering", "accepts connections"])
        {
            *seen |= text.contains(part) && text.contains(PAUSED);
        }
        seen == [true; 2]
    })
    .await;
    let error = soon(builder().connect(&env.server.url()))
        .await
        .unwrap_err();
    assert_says(&error, &["accepts connections", PAUSED, "no answer within"]);
    assert!(!error.to_string().contains("address is correct"), "{error}");
}
