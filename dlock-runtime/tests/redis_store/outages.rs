//! What an outage leaves behind: nothing of the requests it kept from being sent, and few words.

use std::time::Duration;

use dlock_runtime::{
    LockError, LockManager, StoreErrorKind,
    store::redis::{RedisConfig, RedisStore},
};
use dlock_testkit::{RedisServer, eventually};

use crate::{DEADLINE, key, log::Log, owner, run, take, try_take};

/// What a manager says whose store cannot be asked; it keeps nothing to be released.
async fn unasked(manager: &LockManager) -> StoreErrorKind {
    let error = manager
        .lock("k")
        .try_acquire()
        .await
        .expect_err("the store cannot be asked");
    assert_eq!(manager.active_keys(), 0, "after {error}");
    match error {
        LockError::Unavailable { reason, .. } => reason.kind(),
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn a_request_that_was_never_sent_is_not_released() {
    let server = RedisServer::start().await;
    let lazy = |url: String| LockManager::builder().connect_lazy(&url).unwrap();

    // A failure of this kind would promise nothing, had the request been sent.
    let rules = "ACL SETUSER me on >s3cret +@all ~dlock:* resetchannels";
    run(&mut server.connection().await, rules).await;
    let manager = lazy(format!("redis://me:s3cret@127.0.0.1:{}", server.port()));
    assert_eq!(unasked(&manager).await, StoreErrorKind::Denied);

    // The first attempt to connect takes longer than the request may.
    server.pause();
    let manager = lazy(server.url());
    assert_eq!(unasked(&manager).await, StoreErrorKind::Unreachable);
    server.resume();

    server.kill();
    assert_eq!(
        unasked(&lazy(server.url())).await,
        StoreErrorKind::Unreachable
    );
}

#[tokio::test]
async fn an_outage_has_one_event_at_its_beginning_and_one_at_its_end() {
    let server = RedisServer::start().await;
    let (log, _capturing) = Log::capture();
    let store = RedisStore::connect(RedisConfig::new(server.url()))
        .await
        .unwrap();
    let (lock, me) = (key("k"), owner());
    take(&store, &lock, me).await;
    assert!(log.lines("WARN").is_empty() && log.lines("INFO").is_empty());

    server.kill();
    eventually(DEADLINE, "some attempts have failed", async || {
        assert!(try_take(&store, &lock, me).await.is_err());
        log.lines("DEBUG still not connected").len() > 3
    })
    .await;
    server.restart().await;
    eventually(DEADLINE, "it works again", async || {
        try_take(&store, &lock, me).await.is_ok()
    })
    .await;

    let shown = format!("server={}", server.url());
    let [lost] = &log.lines("WARN")[..] else {
        panic!("{:?}", log.lines("WARN"))
    };
    let expected = format!("WARN connection lost {shown} error=the connection to the server broke");
    assert!(lost.starts_with(&expected), "{lost}");
    let [back] = &log.lines("INFO")[..] else {
        panic!("{:?}", log.lines("INFO"))
    };
    let away = back.strip_prefix(&format!("INFO connected {shown} away_ms="));
    let away: u64 = away.expect(back).parse().unwrap();
    assert!(
        Duration::from_millis(away) >= Duration::from_millis(100),
        "after some pauses: {away}"
    );
}

#[tokio::test]
async fn a_server_that_is_late_at_start_up_is_told_of_once() {
    let server = RedisServer::start_with(&["--requirepass", "s3cret"]).await;
    server.kill();
    let (log, _capturing) = Log::capture();
    let store = RedisStore::connect_lazy(RedisConfig::new(server.url())).unwrap();
    eventually(DEADLINE, "some attempts have failed", async || {
        log.lines("DEBUG still not connected").len() > 3
    })
    .await;
    server.restart().await;
    eventually(DEADLINE, "it works", async || {
        try_take(&store, &key("k"), owner()).await.is_ok()
    })
    .await;

    let warned = log.lines("WARN");
    assert_eq!(warned.len(), 1, "{warned:?}");
    assert!(warned[0].starts_with("WARN not connected server=redis://***@127.0.0.1:"));
    assert!(warned[0].contains("connection refused"), "{warned:?}");
    assert_eq!(log.lines("INFO connected").len(), 1);
    assert!(!log.lines("").concat().contains("s3cret"));
}

#[tokio::test]
async fn a_failure_that_the_caller_gets_is_no_event() {
    let server = RedisServer::start().await;
    server.kill();
    let (log, _capturing) = Log::capture();
    let config = RedisConfig::new(server.url()).connect_timeout(Duration::from_secs(3));
    RedisStore::connect(config)
        .await
        .expect_err("the server is dead");
    assert!(!log.lines("DEBUG still not connected").is_empty());
    assert!(log.lines("WARN").is_empty(), "{:?}", log.lines("WARN"));
}
