//! Transactions of the user in ZooKeeper that check the node of a lease.

use std::time::Duration;

use dlock::{LockGuard, LockManager};
use dlock_testkit::{ZooKeepers, eventually};
use dlock_zookeeper::{Check, CheckError};
use zookeeper_client::{Acls, Client, CreateMode, Error};

use crate::world::{LIMIT, SESSION, children, client, key, manager};

async fn resource(client: &Client, path: &str) {
    let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
    client.create(path, b"50", &options).await.unwrap();
}

fn nodes(guard: &LockGuard) -> Vec<String> {
    let nodes = guard.check().unwrap();
    nodes.iter().map(|node| node.path().to_owned()).collect()
}

/// Writes to the resource in a transaction that checks these nodes.
async fn write(client: &Client, nodes: &[String], path: &str, data: &str) -> Result<(), Error> {
    let mut transaction = client.new_multi_writer();
    for node in nodes {
        transaction.add_check_version(node, -1).unwrap();
    }
    transaction
        .add_set_data(path, data.as_bytes(), None)
        .unwrap();
    transaction.commit().await.map(drop).map_err(Error::from)
}

async fn read(client: &Client, path: &str) -> String {
    let (data, _) = client.get_data(path).await.unwrap();
    String::from_utf8(data).unwrap()
}

#[tokio::test]
async fn a_transaction_is_carried_out_only_while_the_lease_is_held() {
    let servers = ZooKeepers::shared().await;
    let (locks, client) = (manager(&servers.url(SESSION)).await, client(servers).await);
    let [one, other] = [key("check"), key("check")].map(|it| it.to_string());
    let stock = format!("/{one}");
    resource(&client, &stock).await;
    let lock = locks.lock_all([one.as_str(), other.as_str()]);
    let guard = lock.acquire().await.unwrap();
    let held = nodes(&guard);
    assert_eq!(held.len(), 2);
    assert_eq!(write(&client, &held, &stock, "41").await, Ok(()));
    guard.release().await.unwrap();
    assert_eq!(
        write(&client, &held, &stock, "40").await,
        Err(Error::NoNode),
        "broken promise: a late write was accepted"
    );
    // The next holder of the same key in the same process has a node of its own.
    let next = locks.lock(&one).acquire().await.unwrap();
    assert!(
        write(&client, &held[..1], &stock, "40").await.is_err(),
        "broken promise: a late write was accepted"
    );
    assert_eq!(
        read(&client, &stock).await,
        "41",
        "broken promise: a late write was accepted, or a write was lost"
    );
    assert_eq!(write(&client, &nodes(&next), &stock, "39").await, Ok(()));
    assert_eq!(
        read(&client, &stock).await,
        "39",
        "broken promise: a late write was accepted, or a write was lost"
    );
    next.release().await.unwrap();
}

#[tokio::test]
async fn a_holder_that_does_not_know_of_its_loss_writes_nothing() {
    let servers = ZooKeepers::shared().await;
    let (locks, client) = (manager(&servers.url(SESSION)).await, client(servers).await);
    let name = key("check-late").to_string();
    let stock = format!("/{name}");
    resource(&client, &stock).await;
    let guard = locks.lock(&name).acquire().await.unwrap();
    let held = nodes(&guard);
    for child in children(servers, "dlock", &name).await {
        client.delete(&child, None).await.unwrap();
    }
    assert_eq!(
        write(&client, &held, &stock, "41").await,
        Err(Error::NoNode),
        "broken promise: a late write was accepted"
    );
    assert_eq!(
        read(&client, &stock).await,
        "50",
        "broken promise: a late write was accepted, or a write was lost"
    );
    let lost = guard.release().await.unwrap_err();
    assert!(lost.is_lost(), "{lost}");
}

/// It has begun by the watch of its process, without a request of its own.
#[tokio::test]
async fn a_lease_that_was_granted_to_a_waiter_has_a_node() {
    let servers = ZooKeepers::shared().await;
    let url = servers.url(SESSION);
    let (one, other) = tokio::join!(manager(&url), manager(&url));
    let name = key("check-granted").to_string();
    let first = one.lock(&name).acquire().await.unwrap();
    let waiting = tokio::spawn(other.lock(&name).wait(LIMIT).acquire());
    eventually(LIMIT, "it waits", async || {
        children(servers, "dlock", &name).await.len() == 2
    })
    .await;
    first.release().await.unwrap();
    let second = waiting.await.unwrap().unwrap();
    assert_eq!(nodes(&second), children(servers, "dlock", &name).await);
    second.release().await.unwrap();
}

#[tokio::test]
async fn a_lease_of_another_store_or_one_that_is_lost_has_no_check() {
    let memory = LockManager::builder().connect("memory://").await.unwrap();
    let guard = memory.lock("stock:7").acquire().await.unwrap();
    let error = guard.check().unwrap_err();
    assert!(matches!(error, CheckError::OtherStore { .. }), "{error}");
    assert!(error.to_string().contains("`stock:7`"), "{error}");
    guard.release().await.unwrap();

    let servers = ZooKeepers::shared().await;
    let locks = manager(&servers.url(SESSION)).await;
    let name = key("check-lost").to_string();
    let lock = locks.lock(&name).ttl(Duration::from_secs(2)).renew(false);
    let guard = lock.acquire().await.unwrap();
    eventually(LIMIT, "the lease ends", async || {
        guard.ensure_held().is_err()
    })
    .await;
    assert!(matches!(guard.check(), Err(CheckError::Lock(_))));
}
