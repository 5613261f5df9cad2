//! Numbers of the servers that end.

use std::time::Duration;

use dlock::{LockError, Wait};
use dlock_faults::Process;
use dlock_testkit::{ZooKeepers, eventually};
use futures_util::future::join_all;
use zookeeper_client::{Acls, Client, CreateMode};

use crate::world::{LIMIT, SESSION, TTL, client, connect, url};

/// Has the directory of a key stay, as there is something in it.
async fn keeps(client: &Client, other: &str, process: &Process) {
    let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
    eventually(
        LIMIT,
        "the directory has a node of another program",
        async || {
            // An empty one may have been removed.
            process.works("order:42").await;
            client.create(other, b"", &options).await.is_ok()
        },
    )
    .await;
}

/// From there on the server gives each child the same number.
#[tokio::test]
async fn a_key_that_has_used_up_its_places_lets_in_no_claim_until_it_is_made_anew() {
    let servers = ZooKeepers::start().await;
    let url = url(&servers, SESSION, "counters");
    let one = connect(&url, TTL).await;
    let before = one.acquires("order:42").await;
    let token = before.fencing_token();
    before.release().await.unwrap();
    let (directory, other) = ("/counters/lock:order:42", "/counters/lock:order:42/other");
    let client = client(&servers).await;
    keeps(&client, other, &one).await;
    servers.count_children_from(directory, i32::MAX - 5).await;

    let processes = join_all((0..4).map(|_| connect(&url, TTL))).await;
    let wait = Wait::For(Duration::from_secs(3));
    let asked = processes
        .iter()
        .map(|it| it.lock("order:42").wait(wait).acquire());
    let mut refusals = 0;
    for refused in join_all(asked).await {
        match refused {
            Err(LockError::Unavailable { reason, .. }) => {
                refusals += usize::from(reason.to_string().contains("2^31 places"));
            }
            other => panic!("broken promise: the places do not say who came first: {other:?}"),
        }
    }
    assert!(refusals > 0, "the reason is told");
    client.delete(other, None).await.unwrap();
    let guard = one.acquires_after(token, "order:42").await;
    let children = client.list_children(directory).await.unwrap();
    // Claims that came and left meanwhile have used some of its places.
    let place = children[0].rsplit('-').next().unwrap();
    assert!(place.parse::<i32>().unwrap() < 1_000, "{children:?}");
    guard.release().await.unwrap();
}

#[cfg(feature = "admin")]
#[tokio::test]
async fn a_key_that_has_used_half_of_its_places_is_shown_to_operators() {
    use dlock_admin::Inspect;
    use dlock_runtime::{LockKey, store::StoreOptions};
    use dlock_zookeeper::admin::ZooKeeperInspector;

    let servers = ZooKeepers::start().await;
    let url = url(&servers, SESSION, "counters");
    let mut options = StoreOptions::default();
    options.connect_timeout = LIMIT;
    options.response_timeout = LIMIT;
    let key = LockKey::new("order:42").unwrap();
    let is_shown = async || {
        let inspector = ZooKeeperInspector::connect(&url, &options).await.unwrap();
        let lock = inspector.lock(&key).await.unwrap().unwrap();
        lock.is_half_used_up
    };
    let one = connect(&url, TTL).await;
    let guard = one.acquires("order:42").await;
    assert!(!is_shown().await);
    guard.release().await.unwrap();
    let (directory, other) = ("/counters/lock:order:42", "/counters/lock:order:42/other");
    let client = client(&servers).await;
    keeps(&client, other, &one).await;
    servers.count_children_from(directory, i32::MAX / 2).await;
    let guard = one.acquires("order:42").await;
    assert!(is_shown().await);
    guard.release().await.unwrap();
}
