//! Presence: a process describes itself for as long as it lives.

use std::time::SystemTime;

use dlock_testkit::{Cluster, Proxy, RedisServer, eventually};

use crate::admin::{inspector, look, manager};
use crate::common::{LIMIT, builder, soon};

#[tokio::test]
async fn a_holder_is_known_by_its_process() {
    let server = RedisServer::start().await;
    let cluster = Cluster::pooled().await;
    for url in [server.url(), cluster.url()] {
        let (manager, inspector) = (manager(&url).await, inspector(&url).await);
        eventually(LIMIT, "it says what it is", async || {
            soon(inspector.processes()).await.unwrap().len() == 1
        })
        .await;
        let guard = soon(manager.lock("order:42").acquire()).await.unwrap();
        let seen = look(&inspector, "order:42").await.unwrap();
        let holder = seen.holder.unwrap();
        let process = holder.process.expect("it is known");
        assert_eq!(Some(&process.label), holder.label.as_ref());
        assert_eq!(process.application.as_deref(), Some("billing"));
        assert_eq!(process.pid, std::process::id());
        assert_eq!(process.version, env!("CARGO_PKG_VERSION"));
        assert!(process.started <= SystemTime::now());
        soon(guard.release()).await.unwrap();
    }
}

/// It is written again, and never by a store that is gone.
#[tokio::test]
async fn it_is_forgotten_when_the_process_is_gone() {
    let server = RedisServer::start().await;
    let manager = manager(&server.url()).await;
    eventually(LIMIT, "it is there", async || {
        server.processes().await.len() == 1
    })
    .await;
    server.flush().await;
    eventually(2 * LIMIT, "it is there again", async || {
        server.processes().await.len() == 1
    })
    .await;
    drop(manager);
    let key = server.processes().await.remove(0);
    let ttl: i64 = redis::cmd("PTTL")
        .arg(key)
        .query_async(&mut server.connection().await)
        .await
        .unwrap();
    assert!((1..=30_000).contains(&ttl), "{ttl}");
}

/// At once, not when it would be taken for dead.
#[tokio::test]
async fn it_is_forgotten_when_its_manager_has_shut_down() {
    let server = RedisServer::start().await;
    let cluster = Cluster::pooled().await;
    let nodes = [
        RedisServer::start().await,
        RedisServer::start().await,
        RedisServer::start().await,
    ];
    let quorum = nodes
        .each_ref()
        .map(|it| format!("127.0.0.1:{}", it.port()));
    let quorum = format!("redlock://{}", quorum.join(","));
    for url in [server.url(), cluster.url(), quorum] {
        let inspector = inspector(&url).await;
        let names = async || -> Vec<String> {
            let all = soon(inspector.processes()).await.unwrap();
            all.into_iter().filter_map(|it| it.application).collect()
        };
        let goes = manager(&url).await;
        let stays = builder().application("stays").connect(&url);
        let stays = soon(stays).await.unwrap();
        eventually(LIMIT, "they say what they are", async || {
            names().await.len() == 2
        })
        .await;
        let guard = soon(goes.lock("order:42").acquire()).await.unwrap();
        drop(guard);
        soon(goes.shutdown(LIMIT)).await;
        assert_eq!(names().await, ["stays"], "{url}");
        soon(goes.shutdown(LIMIT)).await;
        soon(stays.shutdown(LIMIT)).await;
        assert!(names().await.is_empty(), "{url}");
    }
    for server in nodes.iter().chain([&server]) {
        assert!(server.processes().await.is_empty());
    }
}

#[tokio::test]
async fn an_outage_or_a_refusal_hinders_no_lock() {
    let server = RedisServer::start().await;
    let proxy = Proxy::start(server.port());
    let manager = builder().connect_lazy(proxy.url()).unwrap();
    proxy.cut();
    let config = redis::cmd("CONFIG")
        .arg(&["SET", "maxmemory", "1"])
        .to_owned();
    let mut behind = server.connection().await;
    eventually(LIMIT, "it is connected", async || {
        let tried = soon(manager.lock("order:42").try_acquire()).await;
        let Ok(Some(guard)) = tried else { return false };
        // Not dropped: the next try would find it while it is released in the background.
        soon(guard.release()).await.unwrap();
        true
    })
    .await;
    config.exec_async(&mut behind).await.unwrap();
    assert!(soon(manager.lock("order:42").try_acquire()).await.is_err());
    let config = redis::cmd("CONFIG")
        .arg(&["SET", "maxmemory", "0"])
        .to_owned();
    config.exec_async(&mut behind).await.unwrap();
    let guard = soon(manager.lock("order:42").acquire()).await.unwrap();
    soon(guard.release()).await.unwrap();
}
