//! What can be wrong around a lock: the server, the URL, the key, the options. Each is a typed
//! error in time, which says what to do and no secret, and no body ever runs without its lease.
#![cfg(feature = "redis")]
#![allow(
    clippy::unwrap_used,
    reason = "a test that fails there has said what it has to say"
)]

mod common;

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use dlock::{
    ConnectError, KeyFault, LockError, LockKey, LockManager, LostCause, MAX_TTL, MIN_TTL, Wait,
    distributed_lock,
    store::{
        StoreError, StoreErrorKind,
        redis::{RedisConfig, RedisStore},
    },
};
use dlock_testkit::{Proxy, RedisServer, eventually};
use redis::aio::MultiplexedConnection;

use common::{Env, LIMIT, Log, Redis, assert_idle, is_lost, shown, soon};

const SECRET: &str = "s3cr3t-p4ssw0rd";

/// Long enough for several questions, short enough for a test.
const WAIT: Duration = Duration::from_millis(1500);

/// A port on which nobody listens as long as the proxy lives.
fn refused() -> (Proxy, String) {
    let proxy = Proxy::start(1);
    proxy.refuse();
    let url = proxy.url();
    (proxy, url)
}

/// A manager that need not be connected, and gives up soon.
fn lazy(url: &str) -> LockManager {
    LockManager::builder()
        .response_timeout(Duration::from_millis(300))
        .wait(WAIT)
        .connect_lazy(url)
        .unwrap()
}

/// Tries to run a body and expects it not to.
async fn refusal(manager: &LockManager) -> LockError {
    let started = AtomicBool::new(false);
    let body = manager
        .lock("order:42")
        .run(async |_| started.store(true, Ordering::Relaxed));
    let error = soon(body).await.expect_err("there is no lease to be had");
    assert!(
        !started.load(Ordering::Relaxed),
        "a body ran without its lease"
    );
    error
}

/// The failure of the store, in an error that names the key.
fn unavailable(error: &LockError) -> &StoreError {
    let text = error.to_string();
    assert!(text.contains("`order:42`"), "it names no key: {text}");
    match error {
        LockError::Unavailable { reason, .. } => reason,
        other => panic!("it is something else: {other}"),
    }
}

#[track_caller]
fn assert_says(error: &impl std::fmt::Display, words: &[&str]) {
    let text = error.to_string();
    for word in words {
        assert!(text.contains(word), "no `{word}` in: {text}");
    }
}

async fn run(connection: &mut MultiplexedConnection, words: &[&str]) -> redis::Value {
    let mut command = redis::Cmd::new();
    for word in words {
        command.arg(word);
    }
    command.query_async(connection).await.unwrap()
}

mod no_server {
    use super::*;

    #[tokio::test]
    async fn connecting_to_nobody_ends_in_time_and_names_the_url() {
        let (_proxy, url) = refused();
        let builder = LockManager::builder().connect_timeout(Duration::from_millis(500));
        let error = soon(builder.connect(&url)).await.unwrap_err();
        let ConnectError::Unavailable { reason, .. } = &error else {
            panic!("{error}");
        };
        assert_eq!(reason.kind(), StoreErrorKind::Unreachable);
        assert_says(
            &error,
            &[&url, "connection refused", "check that the server runs"],
        );
    }

    #[tokio::test]
    async fn a_lock_without_a_server_is_unavailable_when_its_wait_is_over() {
        let (_proxy, url) = refused();
        let manager = lazy(&url);
        let error = refusal(&manager).await;
        assert_eq!(unavailable(&error).kind(), StoreErrorKind::Unreachable);
        assert_says(&error, &["check that the server runs"]);
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
        eventually(LIMIT, "it waits", async || manager.active() == 1).await;
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

    #[tokio::test]
    async fn a_peer_that_is_no_redis_is_found_out() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            use tokio::io::AsyncWriteExt;
            while let Ok((mut client, _)) = listener.accept().await {
                client
                    .write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                    .await
                    .ok();
                // Held open: it is the answer that is wrong.
                tokio::spawn(async move {
                    std::future::pending::<()>().await;
                    drop(client);
                });
            }
        });
        let builder = LockManager::builder().connect_timeout(Duration::from_secs(1));
        let url = format!("redis://127.0.0.1:{port}");
        let error = soon(builder.connect(&url)).await.unwrap_err();
        assert!(matches!(error, ConnectError::Unavailable { .. }), "{error}");
        assert_says(&error, &[&url]);
    }
}

mod a_dying_server {
    use super::*;

    #[tokio::test]
    async fn ends_the_body_when_its_lease_cannot_be_renewed() {
        let env = Redis::start().await;
        let manager = env
            .manager_with(|it| it.response_timeout(Duration::from_millis(300)))
            .await;
        let body = manager.lock("order:42").ttl(WAIT).run(async |_| {
            env.server.kill();
            std::future::pending::<()>().await;
        });
        let outcome = soon(body).await;
        let unreachable = |cause: &LostCause| {
            matches!(cause, LostCause::NotRenewed { reason }
                if reason.kind() == StoreErrorKind::Unreachable)
        };
        assert!(is_lost(&outcome, unreachable), "{outcome:?}");
        assert_says(
            &outcome.unwrap_err(),
            &["`order:42`", "check what the section has written"],
        );
        assert_idle(&[&manager]).await;
    }

    #[tokio::test]
    async fn does_not_spoil_the_result_of_a_body_that_was_done_in_time() {
        let env = Redis::start().await;
        let manager = env
            .manager_with(|it| it.response_timeout(Duration::from_millis(300)))
            .await;
        let body = manager.lock("order:42").ttl(WAIT).run(async |_| {
            env.server.kill();
            "done"
        });
        assert_eq!(soon(body).await, Ok("done"));
        assert_idle(&[&manager]).await;
    }

    #[tokio::test]
    async fn refuses_who_waits_when_the_wait_is_over() {
        let env = Redis::start().await;
        let manager = env
            .manager_with(|it| it.response_timeout(Duration::from_millis(300)).wait(WAIT))
            .await;
        env.server.kill();
        let error = refusal(&manager).await;
        assert_eq!(unavailable(&error).kind(), StoreErrorKind::Unreachable);
    }

    /// D19: it has forgotten everything, the tokens still grow.
    #[tokio::test]
    async fn that_comes_back_empty_gives_greater_tokens() {
        let env = Redis::start().await;
        let manager = env.manager().await;
        let guard = soon(manager.lock("order:42").acquire()).await.unwrap();
        env.server.restart().await;
        let other = env.manager().await;
        let next = soon(other.lock("order:42").acquire()).await.unwrap();
        assert!(next.fencing_token() > guard.fencing_token());
        let outcome = soon(guard.release()).await;
        // Either it was told, or it was not told anything.
        let told = is_lost(&outcome, |cause| *cause == LostCause::TakenAway);
        assert!(told || outcome.is_ok(), "{outcome:?}");
        soon(next.release())
            .await
            .expect("its lock was not touched");
    }
}

/// Servers that accept connections and answer nothing.
mod silence {
    use super::*;

    #[tokio::test]
    async fn of_a_stopped_process_is_unavailable_in_time_and_heals() {
        let env = Redis::start().await;
        let manager = env
            .manager_with(|it| it.response_timeout(Duration::from_millis(300)).wait(WAIT))
            .await;
        env.server.pause();
        let error = refusal(&manager).await;
        let reason = unavailable(&error);
        let kinds = [StoreErrorKind::TimedOut, StoreErrorKind::Unreachable];
        assert!(kinds.contains(&reason.kind()), "{error}");
        env.server.resume();
        let guard = soon(manager.lock("order:42").wait(LIMIT).acquire())
            .await
            .unwrap();
        soon(guard.release()).await.unwrap();
        env.assert_clean(1, &[&manager]).await;
    }

    #[tokio::test]
    async fn of_a_network_is_unavailable_in_time_and_heals() {
        let env = Redis::start().await;
        let proxy = Proxy::start(env.server.port());
        let manager = lazy(&proxy.url());
        soon(manager.lock("order:42").run(async |_| ()))
            .await
            .unwrap();
        proxy.freeze();
        let error = refusal(&manager).await;
        let reason = unavailable(&error);
        let kinds = [StoreErrorKind::TimedOut, StoreErrorKind::Unreachable];
        assert!(kinds.contains(&reason.kind()), "{error}");
        proxy.thaw();
        let guard = soon(manager.lock("order:42").wait(LIMIT).acquire())
            .await
            .unwrap();
        soon(guard.release()).await.unwrap();
        env.assert_clean(1, &[&manager]).await;
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

    /// A5 and C8 on a real server.
    #[tokio::test]
    async fn during_a_body_ends_it_at_its_deadline() {
        let env = Redis::start().await;
        let manager = env
            .manager_with(|it| it.response_timeout(Duration::from_millis(300)))
            .await;
        let body = manager.lock("order:42").ttl(WAIT).run(async |_| {
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
        let body = manager.lock("order:42").run(async |_| {
            proxy.freeze();
            "done"
        });
        assert_eq!(soon(body).await, Ok("done"));
        proxy.thaw();
        env.assert_clean(1, &[&manager]).await;
    }
}

mod passwords {
    use super::*;

    async fn guarded() -> RedisServer {
        RedisServer::start_with(&["--requirepass", SECRET]).await
    }

    fn url(server: &RedisServer, login: &str) -> String {
        format!("redis://{login}127.0.0.1:{}", server.port())
    }

    /// D16.
    #[tokio::test]
    async fn that_are_wrong_or_missing_are_refused_at_once() {
        let server = guarded().await;
        for login in ["", ":wr0ng@", "somebody:wr0ng@"] {
            let url = url(&server, login);
            let error = soon(LockManager::connect(&url)).await.unwrap_err();
            let ConnectError::Unavailable { reason, .. } = &error else {
                panic!("{error}");
            };
            assert_eq!(reason.kind(), StoreErrorKind::Unauthenticated, "{error}");
            assert_says(&error, &["check the user and the password", "127.0.0.1"]);
            assert!(!shown(&error).contains("wr0ng"), "{error:?}");

            let error = refusal(&lazy(&url)).await;
            assert_eq!(unavailable(&error).kind(), StoreErrorKind::Unauthenticated);
            assert_eq!(
                error.retry_after(),
                None,
                "it will not get better by itself"
            );
            assert!(!shown(&error).contains("wr0ng"), "{error:?}");
        }
    }

    #[tokio::test]
    async fn of_a_user_nobody_knows_are_refused() {
        let server = RedisServer::start().await;
        let url = url(&server, &format!("nobody:{SECRET}@"));
        let error = soon(LockManager::connect(&url)).await.unwrap_err();
        assert_says(&error, &["check the user and the password"]);
        assert!(!shown(&error).contains(SECRET), "{error:?}");
    }

    #[tokio::test]
    async fn that_are_right_work() {
        let server = guarded().await;
        let manager = soon(LockManager::connect(&server.url())).await.unwrap();
        assert_eq!(soon(manager.lock("order:42").run(async |_| 7)).await, Ok(7));
    }

    /// D16: rotated while the manager runs; whoever waits is told.
    #[tokio::test]
    async fn that_were_changed_meanwhile_are_found_out() {
        let server = guarded().await;
        let manager = soon(LockManager::builder().wait(WAIT).connect(&server.url()))
            .await
            .unwrap();
        let mut connection = server.connection().await;
        run(
            &mut connection,
            &["CONFIG", "SET", "requirepass", "another"],
        )
        .await;
        run(&mut connection, &["CLIENT", "KILL", "TYPE", "normal"]).await;
        run(&mut connection, &["CLIENT", "KILL", "TYPE", "pubsub"]).await;
        // The old connection may serve until it is found broken.
        eventually(LIMIT, "it is refused", async || {
            match manager.lock("order:42").acquire().await {
                Ok(guard) => {
                    guard.release().await.unwrap();
                    false
                }
                Err(error) => {
                    assert!(!shown(&error).contains(SECRET), "{error:?}");
                    unavailable(&error).kind() == StoreErrorKind::Unauthenticated
                }
            }
        })
        .await;
    }

    /// Neither errors, nor what the types print, nor anything that is logged.
    #[tokio::test]
    async fn are_never_shown() {
        let (log, _capturing) = Log::capture();
        let mut seen = Vec::new();
        let server = guarded().await;
        let (_proxy, nobody) = refused();
        let nobody = nobody.replace("redis://", &format!("redis://user:{SECRET}@"));
        let proxy = Proxy::start(server.port());

        // One that works until its network does not.
        let behind = proxy
            .url()
            .replace("redis://", &format!("redis://:{SECRET}@"));
        let manager = lazy(&behind);
        seen.push(format!("{manager:?} {:?}", manager.lock("order:42")));
        let guard = soon(manager.lock("order:42").ttl(WAIT).acquire())
            .await
            .unwrap();
        seen.push(format!("{guard:?}"));
        proxy.freeze();
        seen.push(shown(&soon(guard.lost()).await));
        drop(guard);
        seen.push(shown(&refusal(&manager).await));
        proxy.cut();
        proxy.refuse();
        seen.push(shown(&refusal(&manager).await));

        for url in [
            nobody.clone(),
            format!("redis://:{SECRET}@127.0.0.1:{}/77", server.port()),
            format!("redis://{SECRET}:wrong@127.0.0.1:{}", server.port()),
            format!("redis://:{SECRET}x@127.0.0.1:{}", server.port()),
            format!("rediss://:{SECRET}@127.0.0.1:1"),
            format!("postgres://me:{SECRET}@127.0.0.1:1"),
            format!("redis://:{SECRET}@127.0.0.1:99999"),
            format!("redis://:{SECRET}@[::1"),
            format!("redis://:{SECRET}@"),
            format!("redis//:{SECRET}@127.0.0.1"),
            format!("redis://me:{SECRET} 127.0.0.1"),
            SECRET.to_owned(),
        ] {
            let builder = LockManager::builder()
                .connect_timeout(Duration::from_millis(500))
                .application("billing");
            seen.push(format!("{builder:?}"));
            if let Err(error) = soon(builder.connect(&url)).await {
                seen.push(shown(&error));
            } else {
                assert!(url.contains("wrong") || url.contains("/77"), "{url} works?");
            }
            let config = RedisConfig::new(&url);
            seen.push(format!("{config:?}"));
            if let Ok(store) = RedisStore::lazy(config) {
                seen.push(format!("{store:?}"));
            }
        }
        seen.push(shown(&refusal(&lazy(&nobody)).await));

        for text in &seen {
            assert!(!text.contains(SECRET), "{text}");
        }
        let log = log.text();
        assert!(
            log.contains("order:42") && log.contains("renewal failed"),
            "it is captured"
        );
        assert!(!log.contains(SECRET), "{log}");
    }
}

mod urls {
    use super::*;

    #[tokio::test]
    async fn of_no_store_are_refused_with_what_would_do() {
        for (url, words) in [
            ("http://127.0.0.1", "redis://"),
            ("rediss://127.0.0.1", "redis://"),
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
                assert_says(&error, &[words, "no URL of a lock store"]);
            }
        }
    }

    #[tokio::test]
    async fn with_a_database_the_server_does_not_have_are_refused() {
        let server = RedisServer::start().await;
        let builder = LockManager::builder().connect_timeout(Duration::from_secs(1));
        let error = soon(builder.connect(&format!("{}/77", server.url())))
            .await
            .unwrap_err();
        assert!(matches!(error, ConnectError::Unavailable { .. }), "{error}");
        assert_says(&error, &["/77", "DB index"]);
    }

    /// D21.
    #[tokio::test]
    async fn with_a_database_keep_their_locks_there() {
        let env = Redis::start().await;
        let there = soon(LockManager::connect(&format!("{}/3", env.server.url())))
            .await
            .unwrap();
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
}

mod keys_and_options {
    use super::*;

    #[tokio::test]
    async fn a_key_that_cannot_be_is_refused_before_anything_is_sent() {
        let env = Redis::start().await;
        let manager = env.manager().await;
        let long = "x".repeat(LockKey::MAX_LEN + 1);
        for (key, fault) in [
            ("", KeyFault::Empty),
            (long.as_str(), KeyFault::TooLong),
            ("a{b", KeyFault::Brace),
            ("a\r\nb", KeyFault::Control),
            ("a\0b", KeyFault::Control),
        ] {
            let started = AtomicBool::new(false);
            let body = manager
                .lock(key)
                .run(async |_| started.store(true, Ordering::Relaxed));
            let error = soon(body).await.unwrap_err();
            let LockError::InvalidKey { reason, .. } = &error else {
                panic!("{error}");
            };
            assert_eq!(*reason, fault);
            assert_says(&error, &["no valid lock key"]);
            assert!(
                error.to_string().len() < 300,
                "the key is not repeated whole: {error}"
            );
            assert_eq!(error.retry_after(), None);
            assert!(!started.load(Ordering::Relaxed));
        }
        assert_eq!(env.server.keys("*").await, Vec::<String>::new());
        // The longest that can be.
        let longest = "ü".repeat(LockKey::MAX_LEN / 2);
        soon(manager.lock(longest).run(async |_| ())).await.unwrap();
        env.assert_clean(1, &[&manager]).await;
    }

    #[distributed_lock(key = "order:<shop>:<id>", manager = locks)]
    async fn settle(
        locks: &LockManager,
        shop: &str,
        id: String,
        started: &AtomicBool,
    ) -> Result<(), LockError> {
        started.store(true, Ordering::Relaxed);
        Ok(())
    }

    #[tokio::test]
    async fn an_argument_that_makes_no_key_is_refused() {
        let env = Redis::start().await;
        let manager = env.manager().await;
        for (shop, id, fault) in [
            ("", "7".to_owned(), KeyFault::EmptyPart),
            ("a", String::new(), KeyFault::EmptyPart),
            ("a", "x".repeat(600), KeyFault::TooLong),
            ("a", "/".repeat(200), KeyFault::TooLong),
        ] {
            let started = AtomicBool::new(false);
            let error = soon(settle(&manager, shop, id, &started))
                .await
                .unwrap_err();
            assert!(
                matches!(&error, LockError::InvalidKey { reason, .. } if *reason == fault),
                "{error}"
            );
            assert!(!started.load(Ordering::Relaxed));
        }
        // What no literal text may hold is encoded in a value.
        let started = AtomicBool::new(false);
        let odd = "a:{b}\r\n\0 <ü>%".to_owned();
        soon(settle(&manager, "{", odd, &started)).await.unwrap();
        assert!(started.load(Ordering::Relaxed));
        env.assert_clean(1, &[&manager]).await;
    }

    #[tokio::test]
    async fn options_out_of_bounds_are_refused_before_anything_is_sent() {
        let env = Redis::start().await;
        let manager = env.manager().await;
        let lock = || manager.lock("order:42");
        let nanosecond = Duration::from_nanos(1);
        for (lock, name, remedy) in [
            (lock().ttl(Duration::ZERO), "ttl", "at least 100ms"),
            (
                lock().ttl(MIN_TTL.checked_sub(nanosecond).unwrap()),
                "ttl",
                "at least 100ms",
            ),
            (lock().ttl(MAX_TTL + nanosecond), "ttl", "at most 24h"),
            (lock().ttl(Duration::MAX), "ttl", "at most 24h"),
            (
                lock().max_hold(Duration::ZERO),
                "max_hold",
                "greater than zero",
            ),
        ] {
            let started = AtomicBool::new(false);
            let body = lock.run(async |_| started.store(true, Ordering::Relaxed));
            let error = soon(body).await.unwrap_err();
            assert!(
                matches!(&error, LockError::InvalidOption { option, .. } if *option == name),
                "{error}"
            );
            assert_says(&error, &["`order:42`", name, remedy]);
            assert!(!started.load(Ordering::Relaxed));
        }
        assert_eq!(env.server.keys("*").await, Vec::<String>::new());
        // C10: the longest wait overflows nothing.
        let lock = lock()
            .ttl(MIN_TTL)
            .wait(Duration::MAX)
            .max_hold(Duration::MAX);
        assert_eq!(soon(lock.run(async |_| 7)).await, Ok(7));
    }

    #[tokio::test]
    async fn options_of_a_manager_out_of_bounds_are_refused_when_it_is_made() {
        let builder = LockManager::builder;
        for (builder, name) in [
            (builder().ttl(Duration::ZERO), "ttl"),
            (builder().ttl(Duration::MAX), "ttl"),
            (builder().max_hold(Duration::ZERO), "max_hold"),
            (
                builder().response_timeout(Duration::ZERO),
                "response_timeout",
            ),
            (builder().connect_timeout(Duration::ZERO), "connect_timeout"),
            (builder().namespace(""), "namespace"),
            (builder().namespace("a{b}"), "namespace"),
            (builder().namespace("a b"), "namespace"),
        ] {
            let error = builder.connect_lazy("redis://127.0.0.1").unwrap_err();
            assert!(
                matches!(error, ConnectError::InvalidOption { option, .. } if option == name),
                "{error}"
            );
            assert_says(&error, &[name]);
        }
    }

    #[tokio::test]
    async fn namespaces_never_meet() {
        let env = Redis::start().await;
        let [one, two] = [
            env.manager_with(|it| it.namespace("one")).await,
            env.manager_with(|it| it.namespace("two")).await,
        ];
        let guard = soon(one.lock("order:42").acquire()).await.unwrap();
        let other = soon(two.lock("order:42").try_acquire()).await.unwrap();
        soon(other.expect("another lock").release()).await.unwrap();
        assert!(
            soon(one.lock("order:42").try_acquire())
                .await
                .unwrap()
                .is_none()
        );
        soon(guard.release()).await.unwrap();
    }

    /// In this file no manager is ever installed.
    #[tokio::test]
    async fn a_function_without_a_manager_says_how_to_get_one() {
        #[distributed_lock(key = "order:<id>")]
        async fn settle(id: u32) -> Result<(), LockError> {
            panic!("it ran without a lease");
        }

        let error = settle(42).await.unwrap_err();
        assert!(matches!(error, LockError::NotInstalled { .. }));
        assert_says(&error, &["`order:42`", "dlock::install("]);
    }
}

/// What lies at the key, and in what state the server is.
mod odd_servers {
    use super::*;

    /// D10.
    #[tokio::test]
    async fn somebodys_data_at_the_key_is_never_deleted() {
        let env = Redis::start().await;
        let manager = env.manager_with(|it| it.wait(LIMIT)).await;
        let mut connection = env.server.connection().await;
        run(&mut connection, &["HSET", "dlock:{order:42}", "a", "1"]).await;
        let error = refusal(&manager).await;
        assert_eq!(unavailable(&error).kind(), StoreErrorKind::WrongType);
        assert_says(&error, &["dlock:{order:42}", "never deletes"]);
        assert_eq!(error.retry_after(), None);
        assert_idle(&[&manager]).await;
        assert_eq!(env.locks().await, ["dlock:{order:42}"]);
        let kept = run(&mut connection, &["HGETALL", "dlock:{order:42}"]).await;
        assert!(format!("{kept:?}").contains('a'), "{kept:?}");
    }

    /// D11: a fence that nobody could exceed.
    #[tokio::test]
    async fn a_fence_that_is_no_number_grants_nothing() {
        let env = Redis::start().await;
        let manager = env.manager().await;
        soon(manager.lock("order:42").run(async |_| ()))
            .await
            .unwrap();
        let fence = env.server.keys("dlock:fence:*").await.remove(0);
        let mut connection = env.server.connection().await;
        for nonsense in ["x", "-1", "1e9", "9223372036854775807"] {
            run(&mut connection, &["SET", &fence, nonsense]).await;
            let error = refusal(&manager).await;
            unavailable(&error);
            assert_says(&error, &["fence"]);
            assert_eq!(
                env.locks().await,
                Vec::<String>::new(),
                "no lock without a fence"
            );
        }
    }

    /// D12: a crashed client of another kind has left it.
    #[tokio::test]
    async fn a_foreign_value_is_held_and_says_so() {
        let env = Redis::start().await;
        let manager = env
            .manager_with(|it| it.wait(Duration::from_millis(200)))
            .await;
        let mut connection = env.server.connection().await;
        for value in ["1", "", "me", "a b c d", "1700000000.123 5 -", "ü ü ü"] {
            run(&mut connection, &["SET", "dlock:{order:42}", value]).await;
            let error = refusal(&manager).await;
            assert!(error.is_busy(), "`{value}`: {error}");
            assert_says(&error, &["`order:42`", "time to live"]);
            assert_idle(&[&manager]).await;
            let kept = run(&mut connection, &["GET", "dlock:{order:42}"]).await;
            assert_eq!(
                kept,
                redis::Value::BulkString(value.into()),
                "it is not ours"
            );
        }
        run(&mut connection, &["DEL", "dlock:{order:42}"]).await;
        env.assert_clean(1, &[&manager]).await;
    }

    /// D3.
    #[tokio::test]
    async fn a_server_that_became_a_replica_is_no_place_for_locks() {
        let env = Redis::start().await;
        let manager = env.manager_with(|it| it.wait(WAIT)).await;
        soon(manager.lock("order:42").run(async |_| ()))
            .await
            .unwrap();
        let (_proxy, nobody) = refused();
        let port = nobody.rsplit(':').next().unwrap();
        let mut connection = env.server.connection().await;
        run(&mut connection, &["REPLICAOF", "127.0.0.1", port]).await;
        let error = refusal(&manager).await;
        assert_eq!(unavailable(&error).kind(), StoreErrorKind::ReadOnly);
        assert_says(&error, &["point dlock at the master"]);
        run(&mut connection, &["REPLICAOF", "NO", "ONE"]).await;
        let guard = soon(manager.lock("order:42").wait(LIMIT).acquire())
            .await
            .unwrap();
        soon(guard.release()).await.unwrap();
    }

    /// D3: what a replica says of a lease is not the last word.
    #[tokio::test]
    async fn a_replica_does_not_take_a_lease_away() {
        let env = Redis::start().await;
        let manager = env.manager().await;
        let (_proxy, nobody) = refused();
        let port = nobody.rsplit(':').next().unwrap();
        let mut connection = env.server.connection().await;
        let body = manager.lock("order:42").ttl(WAIT).run(async |_| {
            run(&mut connection, &["REPLICAOF", "127.0.0.1", port]).await;
            std::future::pending::<()>().await;
        });
        let outcome = soon(body).await;
        let not_renewed = |cause: &LostCause| matches!(cause, LostCause::NotRenewed { .. });
        assert!(
            is_lost(&outcome, not_renewed),
            "at its deadline, not before: {outcome:?}"
        );
    }

    /// D5: acquiring needs memory, renewing and releasing do not.
    #[tokio::test]
    async fn a_full_server_refuses_new_locks_and_keeps_the_old() {
        let env = Redis::start().await;
        let manager = env.manager_with(|it| it.wait(WAIT)).await;
        let held = soon(manager.lock("order:7").ttl(WAIT).acquire())
            .await
            .unwrap();
        let mut connection = env.server.connection().await;
        run(&mut connection, &["CONFIG", "SET", "maxmemory", "1"]).await;
        let error = refusal(&manager).await;
        assert_eq!(unavailable(&error).kind(), StoreErrorKind::OutOfMemory);
        assert_says(&error, &["maxmemory"]);
        held.ensure()
            .expect("longer than its TTL, so it was renewed");
        soon(held.release()).await.unwrap();
        assert_eq!(env.locks().await, Vec::<String>::new());
        run(&mut connection, &["CONFIG", "SET", "maxmemory", "0"]).await;
        env.assert_clean(2, &[&manager]).await;
    }

    /// D7: writes are refused for a time.
    #[tokio::test]
    async fn a_server_that_refuses_writes_is_asked_again() {
        let env = Redis::start().await;
        let manager = env.manager_with(|it| it.wait(WAIT)).await;
        let mut connection = env.server.connection().await;
        run(
            &mut connection,
            &["CONFIG", "SET", "min-replicas-to-write", "1"],
        )
        .await;
        let error = refusal(&manager).await;
        assert_eq!(unavailable(&error).kind(), StoreErrorKind::Refused);
        assert_says(&error, &["NOREPLICAS"]);
        let waiter = tokio::spawn(manager.lock("order:42").wait(LIMIT).acquire());
        run(
            &mut connection,
            &["CONFIG", "SET", "min-replicas-to-write", "0"],
        )
        .await;
        let guard = soon(waiter).await.unwrap().unwrap();
        soon(guard.release()).await.unwrap();
        env.assert_clean(1, &[&manager]).await;
    }

    /// D14: inside a script the server says `ERR`, not `NOPERM`.
    #[tokio::test]
    async fn a_user_without_permission_is_told_what_is_missing() {
        let env = Redis::start().await;
        let mut connection = env.server.connection().await;
        let password = format!(">{SECRET}");
        for (rules, words) in [
            (
                &["~dlock:*", "&*", "+@all", "-set"][..],
                &["set", "grant the user"][..],
            ),
            (&["~other:*", "&*", "+@all"], &["grant the user"]),
            (
                &["~dlock:*", "&*", "+@all", "-eval", "-evalsha"],
                &["evalsha"],
            ),
        ] {
            let set = ["ACL", "SETUSER", "me", "reset", "on", &password];
            run(&mut connection, &[&set, rules].concat()).await;
            let url = env
                .server
                .url()
                .replace("redis://", &format!("redis://me:{SECRET}@"));
            let error = refusal(&lazy(&url)).await;
            assert_eq!(
                unavailable(&error).kind(),
                StoreErrorKind::Denied,
                "{error}"
            );
            let text = error.to_string().to_lowercase();
            assert!(words.iter().all(|word| text.contains(word)), "{error}");
            assert!(!shown(&error).contains(SECRET), "{error:?}");
            assert_eq!(env.locks().await, Vec::<String>::new());
        }
    }
}
