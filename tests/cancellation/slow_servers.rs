//! Servers and connections that are slow, stand still or are replaced: requests may be carried out long after
//! their callers have gone.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use dlock::{
    LockError, LockManager, LostCause, Wait,
    store::{
        AcquireOutcome, AcquireRequest, LockStore, Released, StoreErrorKind,
        redis::{RedisConfig, RedisStore},
    },
};
use dlock_testkit::{Proxy, RedisServer, eventually};
use futures_util::future::join_all;
use tokio::time::{Instant, sleep};

use crate::common::{Env, LIMIT, OneKey, Redis, is_lost, soon};
use crate::cut::deadline_of;

/// The time for which an answer is waited for here.
const RESPONSE: Duration = Duration::from_millis(300);

async fn command(server: &RedisServer, command: &str) {
    let mut words = command.split(' ');
    let mut request = ::redis::cmd(words.next().unwrap());
    for word in words {
        request.arg(word);
    }
    let mut connection = server.connection().await;
    request.exec_async(&mut connection).await.unwrap();
}

/// A8. The question is carried out when its caller has long been refused, and then the release, which
/// has come over the same connection.
#[tokio::test]
async fn a_request_that_is_carried_out_long_after_its_time_leaves_nothing() {
    let env = Redis::start().await;
    // So long that the connection is not given up.
    let manager = env.manager_with(|it| it.response_timeout(LIMIT)).await;
    let other = env.manager().await;
    command(&env.server, "CLIENT PAUSE 60000 WRITE").await;
    refused_for_want_of_time(&manager).await;
    command(&env.server, "CLIENT UNPAUSE").await;
    eventually(LIMIT, "it is granted after all", async || {
        env.server.keys("dlock:fence:*").await.len() == 1
    })
    .await;
    // Far sooner than the lease would have run out.
    let guard = soon(other.lock("order:42").wait(LIMIT).acquire())
        .await
        .unwrap();
    soon(guard.release()).await.unwrap();
    env.assert_clean(1, &[&manager, &other]).await;
}

/// A8. It takes so long that the connection is given up, and what was sent over it.
#[tokio::test]
async fn a_request_that_is_held_up_longer_than_its_connection_leaves_nothing() {
    let env = Redis::start().await;
    let proxy = Proxy::start(env.server.port());
    let builder = LockManager::builder().response_timeout(RESPONSE);
    let manager = soon(builder.connect(&proxy.url())).await.unwrap();
    let other = env.manager().await;
    let before = proxy.accepted_connections();
    command(&env.server, "CLIENT PAUSE 60000 WRITE").await;
    refused_for_want_of_time(&manager).await;
    eventually(LIMIT, "another connection is made", async || {
        proxy.accepted_connections() > before
    })
    .await;
    command(&env.server, "CLIENT UNPAUSE").await;
    let guard = soon(other.lock("order:42").wait(LIMIT).acquire())
        .await
        .unwrap();
    soon(guard.release()).await.unwrap();
    env.assert_clean(1, &[&manager, &other]).await;
}

async fn refused_for_want_of_time(manager: &LockManager) {
    let error = soon(manager.lock("order:42").wait(RESPONSE).acquire()).await;
    let error = error.expect_err("the server says nothing meanwhile");
    assert!(
        matches!(&error, LockError::Unavailable { reason, .. } if reason.kind() == StoreErrorKind::TimedOut),
        "{error}"
    );
}

/// A9. A question that was held up on an old connection comes after the release, which took a new
/// one. Its lease is not renewed, and ends with its TTL.
#[tokio::test]
async fn a_question_that_the_release_has_overtaken_lasts_for_its_ttl_only() {
    let env = Redis::start().await;
    let proxy = Proxy::start(env.server.port());
    let manager = env.manager().await;
    let ttl = Duration::from_secs(2);
    let old = RedisConfig::new(proxy.url()).response_timeout(RESPONSE);
    let old = OneKey::new(RedisStore::connect(old).await.unwrap(), "order:42");
    let new = OneKey::new(env.store().await, "order:42");
    let owner = OneKey::<RedisStore>::owner();
    proxy.freeze();
    let question = AcquireRequest::new(&old.key, owner, ttl);
    let unanswered = soon(old.store.acquire(question)).await;
    assert!(unanswered.is_err(), "{unanswered:?}");
    assert_eq!(new.release(owner).await, Released::WasGone);
    let since = Instant::now();
    proxy.thaw();
    // The fence stays when the lease has ended.
    eventually(LIMIT, "it is granted after all", async || {
        env.server.keys("dlock:fence:*").await.len() == 1
    })
    .await;
    let guard = soon(manager.lock("order:42").wait(LIMIT).acquire()).await;
    let guard = guard.unwrap();
    assert!(since.elapsed() >= ttl, "it is held until it has ended");
    soon(guard.release()).await.unwrap();
    env.assert_clean(1, &[&manager]).await;
}

/// A12. A question without an answer may have been carried out; the lease that is held goes on, and
/// so do waiters.
#[tokio::test]
async fn a_server_that_is_busy_for_longer_than_an_answer_may_take_loses_nobody_a_lock() {
    let server = RedisServer::start_with(&["--enable-debug-command", "yes"]).await;
    let env = Redis::over(server);
    let manager = env.manager_with(|it| it.response_timeout(RESPONSE)).await;
    let ttl = Duration::from_secs(12);
    let held = soon(manager.lock("held").ttl(ttl).acquire()).await.unwrap();
    let waits = manager.lock("waited:for").wait(LIMIT);
    let tries = async {
        loop {
            match manager.lock("tried").try_acquire().await {
                Ok(guard) => drop(guard),
                Err(error) => return error,
            }
        }
    };
    let (error, waited, ()) = tokio::join!(
        soon(tries),
        async {
            sleep(RESPONSE).await;
            soon(waits.run(async |_| 7)).await
        },
        command(&env.server, "DEBUG SLEEP 1.2"),
    );
    let LockError::Unavailable { reason, .. } = &error else {
        panic!("{error}");
    };
    let kinds = [StoreErrorKind::TimedOut, StoreErrorKind::Unreachable];
    assert!(kinds.contains(&reason.kind()), "{error}");
    assert_eq!(waited, Ok(7));
    held.ensure_held().unwrap();
    soon(held.release()).await.unwrap();
    env.assert_clean(3, &[&manager]).await;
}

/// A13. No caller notices that the connection is another one.
#[tokio::test]
async fn a_connection_that_is_killed_is_no_error_to_anybody() {
    let env = Redis::start().await;
    let manager = env.manager().await;
    let held = soon(manager.lock("held").acquire()).await.unwrap();
    for _ in 0..5 {
        command(&env.server, "CLIENT KILL TYPE normal SKIPME yes").await;
        assert_eq!(soon(manager.lock("order:42").run(async |_| 7)).await, Ok(7));
    }
    soon(held.release()).await.unwrap();
    env.assert_clean(2, &[&manager]).await;
}

/// A15. Nothing is asked, and the connection is found dead all the same: hints come over it too.
#[tokio::test]
async fn an_idle_connection_that_has_become_a_black_hole_is_replaced() {
    for protocol in ["resp3", "resp2"] {
        let env = Redis::start().await;
        let proxy = Proxy::start(env.server.port());
        let url = format!("{}?protocol={protocol}", proxy.url());
        let builder = LockManager::builder().response_timeout(RESPONSE);
        let manager = soon(builder.connect(&url)).await.unwrap();
        soon(manager.lock("order:42").run(async |_| ()))
            .await
            .unwrap();
        let before = proxy.accepted_connections();
        proxy.freeze();
        eventually(LIMIT, "another connection is made", async || {
            proxy.accepted_connections() > before
        })
        .await;
        proxy.thaw();
        assert_eq!(soon(manager.lock("order:42").run(async |_| 7)).await, Ok(7));
        env.assert_clean(1, &[&manager]).await;
    }
}

/// A16. There is one connection, over which nothing big ever goes: its worst is a crowd of small
/// requests, and the server's worst big requests of other clients. Both go on until two renewals have got through.
#[tokio::test]
async fn renewals_get_through_a_crowd_and_past_big_requests_of_others() {
    let env = Redis::start().await;
    let manager = env.manager().await;
    // A machine that stands still for a second keeps the lease.
    let ttl = Duration::from_secs(6);
    let held = soon(manager.lock("held").ttl(ttl).acquire()).await.unwrap();
    let is_over = &AtomicBool::new(false);
    let renewed = async {
        for _ in 0..2 {
            let deadline = deadline_of(&held);
            eventually(LIMIT, "it is renewed", async || {
                deadline_of(&held) > deadline + ttl / 6
            })
            .await;
        }
        is_over.store(true, Ordering::Relaxed);
    };
    let big = async {
        let mut connection = env.server.connection().await;
        let value = vec![b'x'; 16 << 20];
        let mut set = ::redis::cmd("SET");
        set.arg("big").arg(&value);
        set.exec_async(&mut connection).await.unwrap();
        while !is_over.load(Ordering::Relaxed) {
            let mut get = ::redis::cmd("GET");
            let value: Vec<u8> = get.arg("big").query_async(&mut connection).await.unwrap();
            assert_eq!(value.len(), 16 << 20);
        }
        let mut delete = ::redis::cmd("DEL");
        delete.arg("big").exec_async(&mut connection).await.unwrap();
    };
    let crowd = (0..200).map(|number| {
        let lock = manager.lock(format!("order:{number}")).wait(LIMIT);
        async move {
            while !is_over.load(Ordering::Relaxed) {
                lock.clone().run(async |_| ()).await.unwrap();
            }
        }
    });
    tokio::join!(big, join_all(crowd), renewed);
    held.ensure_held().expect("it was renewed all the time");
    soon(held.release()).await.unwrap();
    env.assert_clean(201, &[&manager]).await;
}

/// C8. A renewal waits for the server to go on; it finds the lease ended, and prolongs nothing.
#[tokio::test]
async fn a_renewal_that_waited_for_a_stopped_server_revives_no_lease() {
    let env = Redis::start().await;
    let manager = env.manager_with(|it| it.response_timeout(LIMIT)).await;
    let other = env.manager().await;
    let ttl = Duration::from_millis(1500);
    let guard = soon(manager.lock("order:42").ttl(ttl).acquire()).await;
    let guard = guard.unwrap();
    let fence = guard.fencing_token();
    env.server.pause();
    // The renewal is on its way by then, and the lease ended on either side.
    soon(guard.lost()).await;
    sleep(ttl / 4).await;
    env.server.resume();
    let next = soon(other.lock("order:42").wait(Wait::Forever).acquire()).await;
    let next = next.unwrap();
    assert!(
        next.fencing_token() > fence,
        "broken promise: the token did not grow"
    );
    let outcome = soon(guard.release()).await;
    let not_renewed = |cause: &LostCause| {
        matches!(
            cause,
            LostCause::NotRenewed { .. } | LostCause::Revoked | LostCause::Expired
        )
    };
    assert!(is_lost(&outcome, not_renewed), "{outcome:?}");
    next.ensure_held().expect("the late one has not touched it");
    soon(next.release()).await.unwrap();
    env.assert_clean(1, &[&manager, &other]).await;
}

/// The same without a manager: what the store says of a lease that ended while it stood still.
#[tokio::test]
async fn a_stopped_server_says_that_a_lease_has_ended() {
    let env = Redis::start().await;
    let key = OneKey::new(env.store().await, "order:42");
    let [owner, next] = [(); 2].map(|()| OneKey::<RedisStore>::owner());
    let ttl = Duration::from_millis(200);
    let fence = key.granted(owner, ttl).await;
    env.server.pause();
    sleep(2 * ttl).await;
    let (renewal, ()) = tokio::join!(key.renew(owner), async {
        sleep(Duration::from_millis(50)).await;
        env.server.resume();
    });
    assert_eq!(
        renewal,
        dlock::store::Renewal::NotOwner,
        "broken promise: a lease that had ended came back"
    );
    let request = AcquireRequest::new(&key.key, next, ttl);
    let answer = key.store.acquire(request).await.unwrap();
    assert!(
        matches!(answer, AcquireOutcome::Granted { fence: new, .. } if new > fence),
        "broken promise: the token did not grow"
    );
    key.release(next).await;
}

/// A release grants a lock for 3 s only. A waiter that it woke has its whole TTL soon after, and stands a server that
/// pauses for longer than that.
#[tokio::test]
async fn a_lease_that_came_by_a_grant_stands_a_pause_that_is_longer_than_the_grant() {
    const TTL: Duration = Duration::from_secs(30);
    let env = Redis::start().await;
    let (holder, waiter) = (env.manager().await, env.manager().await);
    let held = soon(holder.lock("order:42").acquire()).await.unwrap();
    let waiting = tokio::spawn(waiter.lock("order:42").ttl(TTL).wait(LIMIT).acquire());
    eventually(LIMIT, "it waits", async || {
        !env.server.keys("dlock:{order:42}:q").await.is_empty()
    })
    .await;
    soon(held.release()).await.unwrap();
    let guard = soon(waiting).await.unwrap().unwrap();
    eventually(LIMIT, "it has its whole TTL", async || {
        guard.remaining() > TTL / 2
    })
    .await;
    env.server.pause();
    sleep(Duration::from_secs(4)).await;
    env.server.resume();
    guard
        .ensure_held()
        .expect("the server did not pause for as long as the lease");
    soon(guard.release()).await.unwrap();
    env.assert_clean(1, &[&holder, &waiter]).await;
}
