//! URLs of no store, and of a part of one.

use std::time::Duration;

use dlock::{
    ConnectError, LockManager,
    store::redis::{RedisConfig, RedisStore},
};
use dlock_testkit::RedisServer;

use crate::bad_input::{SECRET, assert_says};
use crate::common::{Env, Log, Redis, connect, shown, soon};

#[tokio::test]
async fn of_no_store_are_refused_with_what_would_do() {
    for (url, words) in [
        ("http://127.0.0.1", "redis://"),
        ("redlock://127.0.0.1", "fewer than three"),
        ("rediss://127.0.0.1?ca=ca.pem", "/path.pem"),
        ("redis://127.0.0.1?ca=/ca.pem", "it cannot have `ca`"),
        ("redis://127.0.0.1?protocol=3", "`resp2` or `resp3`"),
        ("localhost:6379", "redis://"),
        ("127.0.0.1", "scheme"),
        ("", "scheme"),
        ("redis://", "host"),
        ("redis://127.0.0.1:notaport", ""),
        ("redis://127.0.0.1:99999", ""),
        ("redis://[::1", ""),
        ("redis://127.0.0.1/notadb", "number"),
        ("redis://127.0.0.1/1/2", ""),
        ("redis://127.0.0.1?timeout=3", "?"),
        ("memory://x", ""),
    ] {
        for error in [
            soon(LockManager::connect(url)).await.unwrap_err(),
            LockManager::builder().connect_lazy(url).unwrap_err(),
        ] {
            assert!(
                matches!(error, ConnectError::InvalidUrl { .. }),
                "`{url}`: {error}"
            );
            assert_says(&error, &[words, "not a valid store URL"]);
        }
    }
}

/// A scheme that is none may be a password that was put into the wrong place.
#[tokio::test]
async fn of_no_store_are_not_repeated() {
    let (log, _capturing) = Log::capture();
    for url in [
        SECRET.to_owned(),
        format!("{SECRET}@db.internal"),
        format!("{SECRET}@db.internal:6379/0"),
        format!("{SECRET}://db.internal"),
        format!("{SECRET}://redis://db.internal"),
        format!("{SECRET}@db.internal://"),
        format!("me:{SECRET}@db.internal://redis"),
        format!("redis:{SECRET}@db.internal"),
        format!("redis+{SECRET}://db.internal"),
        format!(" {SECRET}@redis://db.internal"),
    ] {
        for error in [
            soon(LockManager::connect(&url)).await.unwrap_err(),
            LockManager::builder().connect_lazy(&url).unwrap_err(),
            RedisStore::connect_lazy(RedisConfig::new(&url)).unwrap_err(),
        ] {
            assert!(matches!(error, ConnectError::InvalidUrl { .. }), "{error}");
            let shown = shown(&error);
            assert!(!shown.contains(SECRET), "{shown}");
            assert!(
                !shown.contains("db.internal"),
                "nothing else of it: {shown}"
            );
        }
    }
    assert!(!log.text().contains(SECRET), "{}", log.text());
}

#[tokio::test]
async fn with_a_database_the_server_does_not_have_are_refused() {
    let server = RedisServer::start().await;
    let builder = LockManager::builder().connect_timeout(Duration::from_secs(4));
    let error = soon(builder.connect(&format!("{}/77", server.url())))
        .await
        .unwrap_err();
    assert!(matches!(error, ConnectError::Unavailable { .. }), "{error}");
    assert_says(&error, &["/77", "DB index"]);
}

#[tokio::test]
async fn with_a_database_keep_their_locks_there() {
    let env = Redis::start().await;
    let there = connect(&format!("{}/3", env.server.url())).await;
    let here = env.manager().await;
    let guard = soon(there.lock("order:42").acquire()).await.unwrap();
    assert!(
        soon(here.lock("order:42").try_acquire())
            .await
            .unwrap()
            .is_some()
    );
    soon(guard.release()).await.unwrap();
}
