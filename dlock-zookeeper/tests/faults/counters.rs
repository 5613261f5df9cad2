//! Numbers of the servers that end.

use std::time::Duration;

use dlock::{LockError, Wait};
use dlock_testkit::{ZooKeepers, eventually};
use futures_util::future::join_all;
use zookeeper_client::{Acls, CreateMode};

use crate::world::{LIMIT, SESSION, TTL, acquires, client, manager, url};

/// From there on the server gives each child the same number.
#[tokio::test]
async fn a_key_that_has_used_up_its_places_lets_in_no_claim_until_it_is_made_anew() {
    let servers = ZooKeepers::start().await;
    let url = url(&servers, SESSION, "counters");
    let one = manager(&url, TTL).await;
    let before = acquires(&one, "order:42").await;
    let token = before.fencing_token();
    before.release().await.unwrap();
    // Its directory stays as long as there is something in it.
    let (directory, other) = ("/counters/lock:order:42", "/counters/lock:order:42/other");
    let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
    let client = client(&servers).await;
    eventually(
        LIMIT,
        "the directory has a node of another program",
        async || {
            // An empty one may have been removed.
            acquires(&one, "order:42").await.release().await.unwrap();
            client.create(other, b"", &options).await.is_ok()
        },
    )
    .await;
    servers.count_children_from(directory, i32::MAX - 5).await;

    let mut managers = Vec::new();
    for _ in 0..4 {
        managers.push(manager(&url, TTL).await);
    }
    let wait = Wait::For(Duration::from_secs(3));
    let asked = managers
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
    let guard = acquires(&one, "order:42").await;
    assert!(
        guard.fencing_token() > token,
        "broken promise: the token did not grow"
    );
    let children = client.list_children(directory).await.unwrap();
    assert!(children[0].ends_with("-0000000000"), "{children:?}");
    guard.release().await.unwrap();
}
