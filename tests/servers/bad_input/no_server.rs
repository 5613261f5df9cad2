//! Addresses at which no server listens, or one that is not Redis.

use std::time::Duration;

use dlock::{ConnectError, LockError, LockManager, Wait, store::StoreErrorKind};
use dlock_testkit::{Proxy, RedisServer, eventually};
use futures_util::future::join_all;

use crate::bad_input::{WAIT, assert_says, lazy, refusal, refused, unavailable};
use crate::common::{LIMIT, no_redis, soon};

#[tokio::test]
async fn connecting_to_nobody_ends_in_time_and_names_the_url() {
    let (_proxy, url) = refused();
    // Longer than a machine stands still: an attempt has been refused by then.
    let builder = LockManager::builder().connect_timeout(Duration::from_secs(3));
    let error = soon(builder.connect(&url)).await.unwrap_err();
    let ConnectError::Unavailable { reason, .. } = &error else {
        panic!("{error}");
    };
    assert_eq!(reason.kind(), StoreErrorKind::Unreachable);
    assert_says(
        &error,
        &[
            &url,
            "connection refused",
            "check that the server is running",
        ],
    );
}

#[tokio::test]
async fn a_lock_without_a_server_is_unavailable_when_its_wait_is_over() {
    let (_proxy, url) = refused();
    let manager = lazy(&url);
    let error = refusal(&manager).await;
    assert_eq!(unavailable(&error).kind(), StoreErrorKind::Unreachable);
    assert_says(&error, &["check that the server is running"]);
    assert!(error.retry_after().is_some(), "it may come back");
    let LockError::Unavailable { waited, .. } = error else {
        unreachable!()
    };
    assert!(waited >= WAIT, "it tried as long as it may: {waited:?}");
    let error = soon(manager.lock("order:42").try_acquire())
        .await
        .unwrap_err();
    unavailable(&error);
}

#[tokio::test]
async fn a_lock_waits_for_a_server_that_comes_back() {
    let server = RedisServer::start().await;
    let proxy = Proxy::start(server.port());
    proxy.refuse();
    let manager = lazy(&proxy.url());
    let lock = manager.lock("order:42").wait(Wait::Forever);
    let waiter = tokio::spawn(lock.acquire());
    eventually(LIMIT, "it waits", async || manager.active_keys() == 1).await;
    proxy.accept();
    let guard = soon(waiter).await.unwrap().unwrap();
    soon(guard.release()).await.unwrap();
}

#[tokio::test]
async fn a_name_that_does_not_resolve_is_unreachable() {
    let builder = LockManager::builder().connect_timeout(Duration::from_millis(500));
    let url = "redis://no-such-host.invalid:6379";
    let error = soon(builder.connect(url)).await.unwrap_err();
    assert_says(&error, &[url]);
    let ConnectError::Unavailable { reason, .. } = error else {
        panic!("{error}");
    };
    assert_eq!(reason.kind(), StoreErrorKind::Unreachable);
}

// D18
/// A server hangs up on who is too many, or comes from elsewhere, and says why before it is asked.
#[tokio::test]
async fn one_that_hangs_up_at_once_is_heard_out() {
    let cases = [
        (
            "-ERR max number of clients reached\r\n",
            StoreErrorKind::Refused,
            "max number of clients reached",
        ),
        (
            "-DENIED Redis is running in protected mode because\r\n",
            StoreErrorKind::Refused,
            "protected mode",
        ),
        (
            "",
            StoreErrorKind::Unreachable,
            "the connection to the server broke",
        ),
    ];
    let mut attempts = Vec::new();
    for (said, kind, words) in cases {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            use tokio::io::AsyncWriteExt;
            while let Ok((mut client, _)) = listener.accept().await {
                client.write_all(said.as_bytes()).await.ok();
            }
        });
        for end in ["", "?protocol=resp2", "/1"] {
            for login in ["", ":pass@"] {
                let url = format!("redis://{login}127.0.0.1:{port}{end}");
                attempts.push(async move {
                    let builder = LockManager::builder().connect_timeout(Duration::from_secs(4));
                    let error = soon(builder.connect(&url)).await.unwrap_err();
                    assert_says(&error, &[words]);
                    let ConnectError::Unavailable { reason, .. } = error else {
                        panic!("{error}");
                    };
                    assert_eq!(reason.kind(), kind, "{url}: {reason}");
                });
            }
        }
    }
    join_all(attempts).await;
}

#[tokio::test]
async fn a_peer_that_is_no_redis_is_found_out() {
    let builder = LockManager::builder().connect_timeout(Duration::from_secs(3));
    let url = no_redis().await;
    let error = soon(builder.connect(&url)).await.unwrap_err();
    assert!(matches!(error, ConnectError::Unavailable { .. }), "{error}");
    assert_says(&error, &[&url]);
}
