//! Copies that share several servers: a cluster, and a quorum.

use std::sync::Arc;

use dlock_testkit::{Cluster, RedisServer, eventually};

use crate::shop::{LIMIT, Shop};

/// While one copy pays, the other shows the holder and answers *busy*. After the client of the first has disconnected,
/// the other pays.
async fn assert_charged_once(url: &str) {
    let directory = tempfile::tempdir().unwrap();
    let database = directory.path().join("shop.db");
    // The TTL is longer than the test, so a lock that disappears was released.
    let slow = ["--ttl", "10m", "--provider-delay", "10m"];
    let quick = ["--ttl", "10m", "--provider-delay", "10ms"];
    let (one, other) = tokio::join!(
        Shop::start_at(Some(url), &database, &slow),
        Shop::start_at(Some(url), &database, &quick)
    );
    let one = Arc::new(one);
    // The locks are in different slots.
    for item in ["a lamp", "a chair", "a bed"] {
        let order = other.order(item).await;
        let path = format!("/api/orders/{order}/pay");
        let (client, address) = (Arc::clone(&one), path.clone());
        let payment = tokio::spawn(async move { client.post(&address).await });
        one.asks_the_provider(order).await;
        let held = format!("/locks/held/{order}/by");
        eventually(LIMIT, "the other copy shows the holder", async || {
            let state = other.state().await;
            let by = state.pointer(&held).and_then(|by| by.as_str());
            by.is_some_and(|by| by.starts_with("shop-"))
        })
        .await;
        assert_eq!(other.post(&path).await.outcome(), "busy");
        payment.abort();
        let waits = other.post(&format!("{path}-to-the-end")).await;
        assert_eq!(waits.outcome(), "paid");
        let paid = other.look(order).await;
        assert_eq!(paid["charges"], 1, "{paid}");
    }
    let state = other.state().await;
    let copies = state["locks"]["copies"].as_array().unwrap();
    assert_eq!(copies.len(), 2, "{state}");
}

#[tokio::test]
async fn copies_share_locks_in_a_cluster() {
    let cluster = Cluster::start(3, 0).await;
    assert_charged_once(&cluster.url()).await;
}

#[tokio::test]
async fn copies_share_locks_in_a_quorum_with_one_server_down() {
    let servers = [
        RedisServer::start().await,
        RedisServer::start().await,
        RedisServer::start().await,
    ];
    let [one, two, three] = servers.each_ref().map(RedisServer::port);
    servers[2].kill();
    let url = format!("redlock://127.0.0.1:{one},127.0.0.1:{two},127.0.0.1:{three}");
    assert_charged_once(&url).await;
}
