//! Invalid keys and options, and the longest and shortest valid ones.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use dlock::{
    ConnectError, InvalidKeyReason, LockError, LockKey, LockManager, MAX_TTL, MIN_TTL,
    distributed_lock,
};

use crate::bad_input::assert_says;
use crate::common::{Env, Redis, soon};

#[tokio::test]
async fn a_key_that_cannot_be_is_refused_before_anything_is_sent() {
    let env = Redis::start().await;
    let manager = env.manager().await;
    let long = "x".repeat(LockKey::MAX_LEN + 1);
    for (key, fault) in [
        ("", InvalidKeyReason::Empty),
        (long.as_str(), InvalidKeyReason::TooLong),
        ("a{b", InvalidKeyReason::Brace),
        ("a\r\nb", InvalidKeyReason::Control),
        ("a\0b", InvalidKeyReason::Control),
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
        assert_says(&error, &["not a valid lock key"]);
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
        ("", "7".to_owned(), InvalidKeyReason::EmptyPart),
        ("a", String::new(), InvalidKeyReason::EmptyPart),
        ("a", "x".repeat(600), InvalidKeyReason::TooLong),
        ("a", "/".repeat(200), InvalidKeyReason::TooLong),
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
    // The longest wait overflows nothing.
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
            .is_none(),
        "broken promise: two hold the key"
    );
    soon(guard.release()).await.unwrap();
}

/// In this program no manager is ever installed.
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
