//! Data that is restored, lost or written by others.

use std::time::Duration;

use dlock::LockGuard;
use dlock_faults::{is_released, names};
use dlock_testkit::{Ensemble, ZooKeepers, eventually, within};
use dlock_zookeeper::Check;
use zookeeper_client::{Acls, Client, CreateMode};

use crate::world::{LIMIT, client, connect, url};

/// The sessions end soon: a client does not use servers that know less than it has seen.
const SESSION: Duration = Duration::from_secs(14);
const TTL: Duration = Duration::from_secs(10);

/// Transactions that a backup does not know.
async fn writes(servers: &ZooKeepers, count: usize) {
    let client = client(servers).await;
    let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
    client.create("/elsewhere", b"", &options).await.unwrap();
    for number in 0..count {
        let text = number.to_string();
        client
            .set_data("/elsewhere", text.as_bytes(), None)
            .await
            .unwrap();
    }
}

/// The number of the transaction that created the node of a lease.
async fn number_of(servers: &ZooKeepers, guard: &LockGuard) -> i64 {
    let node = guard.check().unwrap().remove(0);
    let client = client(servers).await;
    client.sync("/").await.unwrap();
    let stat = client.check_stat(node.path()).await.unwrap();
    stat.expect("the lease has a node").czxid
}

#[tokio::test]
async fn tokens_grow_although_a_backup_was_restored() {
    let servers = ZooKeepers::lent().await;
    let url = url(&servers, SESSION, "restored");
    let one = connect(&url, TTL).await;
    one.works("order:42").await;
    let backup = servers.save();
    servers.restart_all().await;
    writes(&servers, 200).await;
    let first = one.acquires("order:42").await;
    let (token, number) = (first.fencing_token(), number_of(&servers, &first).await);

    let restored = within(3 * LIMIT, async {
        loop {
            servers.restore(&backup);
            servers.restart_all().await;
            // The restored ensemble does not know the lease: another process gets the key, and the first one is notified.
            let other = connect(&url, TTL).await;
            let second = other.acquires_after(token, "order:42").await;
            // On a busy machine, a leader may be elected more than once, and each election adds four billion to the numbers.
            if number_of(&servers, &second).await < number {
                return second;
            }
        }
    });
    let second = restored.await.expect("the numbers of transactions go back");
    eventually(LIMIT, "the first holder is notified", async || {
        first.is_lost()
    })
    .await;
    let token = second.fencing_token();
    second.release().await.unwrap();
    // A manager that was there before has the new base as well.
    is_released(one.acquires_after(token, "order:42").await).await;
}

#[tokio::test]
async fn an_ensemble_that_has_lost_its_data_gives_greater_tokens() {
    let servers = ZooKeepers::lent().await;
    let one = connect(&url(&servers, SESSION, "forgotten"), TTL).await;
    let first = one.acquires("order:42").await;
    let token = first.fencing_token();
    servers.forget();
    servers.restart_all().await;
    eventually(LIMIT, "the holder is notified", async || first.is_lost()).await;
    is_released(one.acquires_after(token, "order:42").await).await;
}

#[tokio::test]
async fn a_node_of_another_program_beside_the_base_is_named() {
    let servers = ZooKeepers::shared().await;
    let url = url(servers, SESSION, "beside");
    let one = connect(&url, TTL).await;
    one.works("order:42").await;
    let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
    let client = client(servers).await;
    client
        .create("/beside/fence/mine", b"", &options)
        .await
        .unwrap();
    let other = connect(&url, TTL).await;
    let error = other.lock("order:42").acquire().await.unwrap_err();
    names(&error, &["leave the numbers"]);
    client.delete("/beside/fence/mine", None).await.unwrap();
    other.works("order:42").await;

    for base in client.list_children("/beside/fence").await.unwrap() {
        let path = format!("/beside/fence/{base}");
        client.delete(&path, None).await.unwrap();
    }
    let another = connect(&url, TTL).await;
    let error = another.lock("order:42").acquire().await.unwrap_err();
    names(&error, &["is empty"]);
    client.delete("/beside/fence", None).await.unwrap();
    another.works("order:42").await;
}

#[tokio::test]
async fn a_base_that_comes_back_stops_no_lock() {
    let servers = ZooKeepers::shared().await;
    let url = url(servers, SESSION, "again");
    let one = connect(&url, TTL).await;
    let before = one.acquires("order:42").await;
    let last = before.fencing_token();
    before.release().await.unwrap();
    let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
    let client = client(servers).await;
    client
        .create("/again/fence/7", b"", &options)
        .await
        .unwrap();
    let other = connect(&url, TTL).await;
    is_released(other.acquires_after(last, "order:42").await).await;
    client.sync("/again").await.unwrap();
    let bases = client.list_children("/again/fence").await.unwrap();
    assert_eq!(bases.len(), 1, "no child is created with an old one");
}

/// Deletes a node and all below it.
async fn delete_all(client: &Client, root: &str) {
    client.sync("/").await.unwrap();
    let mut paths = vec![root.to_owned()];
    let mut read = 0;
    while let Some(path) = paths.get(read).cloned() {
        let names = client.list_children(&path).await.unwrap();
        paths.extend(names.iter().map(|name| format!("{path}/{name}")));
        read += 1;
    }
    for path in paths.iter().rev() {
        client.delete(path, None).await.unwrap();
    }
}

#[tokio::test]
async fn the_directory_of_the_locks_is_made_again() {
    let servers = ZooKeepers::shared().await;
    let url = url(servers, SESSION, "deleted/locks");
    let one = connect(&url, TTL).await;
    let first = one.acquires("order:42").await;
    let token = first.fencing_token();
    first.release().await.unwrap();
    delete_all(&client(servers).await, "/deleted").await;
    let again = one.acquires_after(token, "order:42");
    let again = within(Duration::from_secs(60), again).await;
    is_released(again.expect("the lock is acquired")).await;
}
