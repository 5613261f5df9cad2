//! The keys in etcd, and when they go.

use std::time::Duration;

use dlock::{LockManager, LockManagerBuilder};
use dlock_etcd::Etcd;
use dlock_testkit::{EtcdMake, EtcdServer, Proxy, eventually};

const LONG: Duration = Duration::from_secs(30);

pub(crate) fn builder(namespace: &str) -> LockManagerBuilder {
    LockManager::builder()
        .scheme("etcd", Etcd)
        .namespace(namespace)
        .response_timeout(Duration::from_secs(10))
        .connect_timeout(LONG)
}

#[tokio::test]
async fn a_lock_is_a_key_that_goes_with_its_release() {
    let server = EtcdServer::shared(EtcdMake::Usual).await;
    let manager = builder("keys").connect(&server.url()).await.unwrap();
    let guard = manager.lock("order:42").acquire().await.unwrap();
    let keys = server.keys("keys/order:42/").await;
    let [key] = &keys[..] else {
        panic!("one claim: {keys:?}");
    };
    let value = server.get(key).await.unwrap();
    assert!(
        value.starts_with("1 ") && value.contains(" exclusive - "),
        "{value}"
    );
    let token = guard.fencing_token();
    guard.release().await.unwrap();
    assert_eq!(server.keys("keys/order:42/").await, [""; 0]);
    let next = manager.lock("order:42").acquire().await.unwrap();
    assert!(
        next.fencing_token() > token,
        "broken promise: the token did not grow"
    );
    next.release().await.unwrap();
    manager.shutdown(LONG).await;
    assert_eq!(server.keys("keys/").await, ["keys//fence"]);
}

#[tokio::test]
async fn a_lease_that_is_not_renewed_ends_by_itself() {
    let server = EtcdServer::shared(EtcdMake::Usual).await;
    let manager = builder("unrenewed").connect(&server.url()).await.unwrap();
    let lock = manager
        .lock("order:42")
        .ttl(Duration::from_secs(2))
        .renew(false);
    let guard = lock.acquire().await.unwrap();
    eventually(LONG, "the key has ended with its lease", async || {
        server.keys("unrenewed/order:42/").await.is_empty()
    })
    .await;
    assert!(guard.release().await.is_err(), "the lease was lost");
}

#[tokio::test]
async fn a_min_hold_outlasts_the_release_and_no_longer() {
    let server = EtcdServer::shared(EtcdMake::Usual).await;
    let manager = builder("min-hold").connect(&server.url()).await.unwrap();
    let other = builder("min-hold").connect(&server.url()).await.unwrap();
    let lock = manager.lock("order:42").min_hold(Duration::from_secs(4));
    let begun = std::time::Instant::now();
    lock.run(async |_lease| ()).await.unwrap();
    eventually(LONG, "the other acquires the key", async || {
        let found = other.lock("order:42").try_acquire().await.unwrap();
        if let Some(guard) = &found {
            assert!(
                begun.elapsed() >= Duration::from_secs(4),
                "{:?}",
                begun.elapsed()
            );
            guard.ensure_held().unwrap();
        }
        found.is_some()
    })
    .await;
}

#[tokio::test]
async fn a_manager_has_two_connections_whatever_it_holds() {
    let server = EtcdServer::shared(EtcdMake::Usual).await;
    let proxy = Proxy::start(server.port());
    let url = format!("etcd://127.0.0.1:{}", proxy.port());
    let manager = builder("many").connect(&url).await.unwrap();
    let mut guards = Vec::new();
    for number in 0..150 {
        let lock = manager
            .lock(format!("order:{number}"))
            .ttl(Duration::from_secs(12));
        guards.push(lock.acquire().await.unwrap());
    }
    eventually(LONG, "there are two connections", async || {
        proxy.open_connections() == 2
    })
    .await;
    // More renewals than one transaction has room for. A lease that was renewed has more time left than before.
    let mut seen: Vec<_> = guards.iter().map(|it| (it.remaining(), false)).collect();
    eventually(LONG, "every lease was renewed", async || {
        for (guard, (last, is_renewed)) in guards.iter().zip(&mut seen) {
            let left = guard.remaining();
            *is_renewed |= left > *last;
            *last = left;
        }
        seen.iter().all(|(_, is_renewed)| *is_renewed)
    })
    .await;
    assert_eq!(server.keys("many/order:").await.len(), 150);
    assert_eq!(proxy.open_connections(), 2);
    for guard in guards {
        guard.release().await.unwrap();
    }
    assert_eq!(server.keys("many/order:").await, [""; 0]);
}

#[tokio::test]
async fn a_ttl_that_etcd_cannot_keep_is_refused_before_a_request() {
    let server = EtcdServer::shared(EtcdMake::Usual).await;
    let manager = builder("short").connect(&server.url()).await.unwrap();
    let error = manager
        .lock("order:42")
        .ttl(Duration::from_millis(900))
        .acquire()
        .await
        .unwrap_err();
    assert!(error.to_string().contains("set 1s or more"), "{error}");
    // A part of a second is rounded up.
    let lock = manager.lock("order:42").ttl(Duration::from_millis(1100));
    lock.acquire().await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn a_base_that_another_process_has_raised_is_used() {
    let server = EtcdServer::shared(EtcdMake::Usual).await;
    let manager = builder("base").connect(&server.url()).await.unwrap();
    let first = server.get("base//fence").await.unwrap();
    // A base that is younger than a second is kept.
    let mut other = None;
    eventually(LONG, "another process has raised the base", async || {
        other = Some(builder("base").connect(&server.url()).await.unwrap());
        server.get("base//fence").await.unwrap() > first
    })
    .await;
    let lock = other.unwrap().lock("order:42");
    let guard = lock.acquire().await.unwrap();
    let token = guard.fencing_token();
    guard.release().await.unwrap();
    let next = manager.lock("order:42").acquire().await.unwrap();
    assert!(
        next.fencing_token() > token,
        "broken promise: the token did not grow"
    );
    next.release().await.unwrap();
}
