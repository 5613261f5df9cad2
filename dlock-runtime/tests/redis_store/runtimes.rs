//! A store does not depend on the runtimes of its users: one is not polled, has no sockets, or has a full pool.

use std::{sync::mpsc, time::Duration};

use dlock_runtime::{
    ConnectError, LockManager,
    store::{
        LockStore, ReleaseRequest, StoreErrorKind,
        redis::{Credentials, CredentialsProvider, RedisConfig, RedisStore},
    },
};
use dlock_testkit::{Cluster, Proxy, RedisServer, Sentinels, eventually};
use futures_util::FutureExt;
use tokio::{
    runtime::{Builder, Runtime},
    task::{spawn_blocking, yield_now},
};

use crate::{ANSWER, DEADLINE, connect, key, owner, renewal, take, try_take};

/// It runs only while a test is inside of its `block_on`.
fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// Waits until a request has an answer. Those before it may fail: a connection is replaced.
async fn goes_on(store: &RedisStore, name: &str) {
    let (lock, me) = (key(name), owner());
    eventually(DEADLINE, "a request has an answer", async || {
        try_take(store, &lock, me).await.is_ok()
    })
    .await;
    store.renew_one(renewal(&lock, me)).await.unwrap();
    store.release(ReleaseRequest::new(&lock, me)).await.unwrap();
}

fn outlives_a_runtime_that_is_not_polled(url: &str) {
    let (unpolled, other) = (runtime(), runtime());
    let store = unpolled.block_on(connect(url));
    other.block_on(async {
        goes_on(&store, "k").await;
        // From then on without a wait, and also in one write.
        let begun = tokio::time::Instant::now();
        for _ in 0..20 {
            goes_on(&store, "k").await;
        }
        assert!(begun.elapsed() < ANSWER, "{:?}", begun.elapsed());
    });
    unpolled.block_on(goes_on(&store, "k"));
}

#[test]
fn requests_of_other_runtimes_do_not_wait_for_one_that_is_not_polled() {
    let around = runtime();
    let server = around.block_on(RedisServer::start());
    for protocol in ["resp3", "resp2"] {
        let url = format!("{}?protocol={protocol}", server.url());
        outlives_a_runtime_that_is_not_polled(&url);
    }
}

#[test]
fn a_cluster_does_not_wait_for_a_runtime_that_is_not_polled() {
    let around = runtime();
    let cluster = around.block_on(Cluster::start(2, 0));
    outlives_a_runtime_that_is_not_polled(&cluster.url());
}

#[test]
fn confirmations_do_not_wait_for_a_runtime_that_is_not_polled() {
    let around = runtime();
    let all = around.block_on(Sentinels::start_small());
    outlives_a_runtime_that_is_not_polled(&format!("{}?min_replicas=1", all.url()));
}

/// The store was only created on the runtime: its first connection is opened elsewhere.
#[test]
fn a_runtime_that_was_never_polled_is_not_needed() {
    let (unpolled, other) = (runtime(), runtime());
    let server = other.block_on(RedisServer::start());
    let store = {
        let _inside = unpolled.enter();
        let config = RedisConfig::new(server.url()).response_timeout(DEADLINE);
        RedisStore::connect_lazy(config).unwrap()
    };
    // The first request is served: it was not sent before.
    other.block_on(async { take(&store, &key("k"), owner()).await });
}

#[test]
fn a_request_of_a_runtime_that_stood_still_is_never_sent_later() {
    let (unpolled, other) = (runtime(), runtime());
    let (server, proxy) = other.block_on(async {
        let server = RedisServer::start().await;
        let proxy = Proxy::start(server.port());
        (server, proxy)
    });
    let store = unpolled.block_on(connect(&proxy.url()));
    let late = key("late");
    other.block_on(async {
        // It is handed to the connection, which writes nothing.
        let mut waits = Box::pin(try_take(&store, &late, owner()));
        assert!(waits.as_mut().now_or_never().is_none());
        let error = waits.await.expect_err("its connection is closed");
        assert_eq!(error.kind(), StoreErrorKind::Disconnected, "{error}");
        goes_on(&store, "k").await;
        eventually(DEADLINE, "the old connection is closed", async || {
            proxy.open_connections() == 1
        })
        .await;
    });
    unpolled.block_on(async {
        for _ in 0..100 {
            yield_now().await;
        }
        // An answer behind whatever would have been sent.
        goes_on(&store, "k").await;
        let keys = server.keys("dlock:{late*").await;
        assert!(keys.is_empty(), "broken promise: a late write: {keys:?}");
    });
}

#[test]
fn a_waiter_hears_of_its_grant_although_the_first_runtime_is_not_polled() {
    let (unpolled, other) = (runtime(), runtime());
    let server = other.block_on(RedisServer::start());
    let manager = |store| LockManager::builder().build_with_store(store).unwrap();
    let one = unpolled.block_on(async { manager(connect(&server.url()).await) });
    other.block_on(async {
        let two = manager(connect(&server.url()).await);
        let held = two.lock("k").acquire().await.unwrap();
        let lock = one.lock("k").wait(DEADLINE);
        let waits = lock.acquire();
        let releases = async {
            eventually(DEADLINE, "it waits", async || one.active_keys() > 0).await;
            held.release().await.unwrap();
        };
        let (granted, ()) = tokio::join!(waits, releases);
        granted.unwrap().release().await.unwrap();
    });
}

#[test]
fn a_manager_removes_its_record_although_its_runtime_is_not_polled() {
    let (unpolled, other) = (runtime(), runtime());
    let server = other.block_on(RedisServer::start());
    let manager = unpolled.block_on(LockManager::connect(server.url()));
    let manager = manager.unwrap();
    other.block_on(async {
        let lock = manager.lock("k").wait(DEADLINE);
        lock.run(async |_| ()).await.unwrap();
        manager.shutdown(DEADLINE).await;
        let records = server.processes().await;
        assert!(records.is_empty(), "its record is removed: {records:?}");
    });
}

#[test]
fn a_runtime_without_sockets_has_no_connection() {
    let around = runtime();
    let server = around.block_on(RedisServer::start());
    let bare = Builder::new_current_thread().enable_time().build().unwrap();
    bare.block_on(async {
        let store = connect(&server.url()).await;
        for _ in 0..3 {
            goes_on(&store, "k").await;
        }
    });
}

#[test]
fn a_runtime_without_timers_is_named() {
    let bare = Builder::new_current_thread().enable_io().build().unwrap();
    let config = RedisConfig::new("redis://localhost:1");
    let error = bare.block_on(RedisStore::connect(config)).unwrap_err();
    assert!(error.to_string().contains("`enable_all()`"), "{error}");
    let ConnectError::Unavailable { reason, .. } = error else {
        panic!("{error}");
    };
    assert_eq!(reason.kind(), StoreErrorKind::NoRuntime);
}

/// A runtime whose only thread for blocking work is occupied until the sender is dropped.
fn with_a_full_pool() -> (Runtime, mpsc::Sender<()>) {
    let mut builder = Builder::new_multi_thread();
    let builder = builder.worker_threads(2).max_blocking_threads(1);
    let full = builder.enable_all().build().unwrap();
    let (leave, left) = mpsc::channel();
    let (tell, occupied) = mpsc::channel();
    full.spawn_blocking(move || {
        tell.send(()).unwrap();
        left.recv().ok();
    });
    occupied.recv().unwrap();
    (full, leave)
}

#[test]
fn a_full_pool_does_not_delay_a_reconnection() {
    let (full, _leave) = with_a_full_pool();
    full.block_on(async {
        let server = RedisServer::start().await;
        let proxy = Proxy::start(server.port());
        let store = connect(&proxy.url().replace("127.0.0.1", "localhost")).await;
        for _ in 0..3 {
            proxy.cut();
            goes_on(&store, "k").await;
        }
    });
}

#[test]
fn credentials_may_use_the_pool_of_their_runtime() {
    let (full, _leave) = with_a_full_pool();
    full.block_on(async {
        let server = RedisServer::start_with(&["--requirepass", "s3cret"]).await;
        let proxy = Proxy::start(server.port());
        let provider = CredentialsProvider::new(|| async {
            // As a file with a password is read.
            let password = spawn_blocking(|| "s3cret").await;
            password.map(Credentials::of_default_user)
        });
        let config = RedisConfig::new(proxy.url()).credentials(provider);
        let store = RedisStore::connect(config.response_timeout(ANSWER)).await;
        let store = store.unwrap();
        proxy.cut();
        goes_on(&store, "k").await;
    });
}

/// Its caller gives up before the store would doubt the runtime.
#[test]
fn callers_with_little_time_are_served_too() {
    let (unpolled, other) = (runtime(), runtime());
    let server = other.block_on(RedisServer::start());
    let store = unpolled.block_on(connect(&server.url()));
    other.block_on(async {
        eventually(DEADLINE, "a request has an answer", async || {
            let brief = Duration::from_millis(100);
            let (lock, me) = (key("k"), owner());
            let taken = tokio::time::timeout(brief, try_take(&store, &lock, me)).await;
            matches!(taken, Ok(Ok(_)))
        })
        .await;
    });
}
