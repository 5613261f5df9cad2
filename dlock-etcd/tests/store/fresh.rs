//! Leases of etcd that one claim after the other uses.

use std::time::{Duration, Instant};

use dlock_etcd::EtcdStore;
use dlock_runtime::store::{Drift, LockStore, ReleaseRequest};
use dlock_testkit::{EtcdServer, eventually};

use crate::quiet::{LONG, TTL, hold, key, store};

/// The age of a lease that needs no keep-alive.
const FRESH: Duration = Duration::from_millis(100);

async fn cycle(store: &EtcdStore) {
    let one = key("order:42");
    let owner = hold(store, &one).await;
    let release = ReleaseRequest::new(&one, owner);
    store.release(release).await.unwrap();
}

async fn keep_alives(server: &EtcdServer) -> u64 {
    let messages = server.messages().await;
    messages.get("LeaseKeepAlive").copied().unwrap_or(0)
}

#[tokio::test]
async fn a_lease_that_was_used_just_now_needs_no_keep_alive() {
    let server = EtcdServer::start().await;
    let store = store(&server.url());
    // On a busy machine, few of them do.
    eventually(
        LONG * 5,
        "two claims follow each other at once",
        async || {
            let before = keep_alives(&server).await;
            cycle(&store).await;
            cycle(&store).await;
            keep_alives(&server).await == before
        },
    )
    .await;
    let drift = store.properties().drift;
    assert!(drift.of(TTL) >= Drift::USUAL.of(TTL) + FRESH, "{drift:?}");
}

#[tokio::test]
async fn a_lease_that_was_idle_is_kept_alive_beside_the_request() {
    let server = EtcdServer::start().await;
    let store = store(&server.url());
    cycle(&store).await;
    let since = Instant::now();
    eventually(LONG, "it is not fresh any more", async || {
        since.elapsed() > FRESH
    })
    .await;
    assert_eq!(keep_alives(&server).await, 0);
    cycle(&store).await;
    assert_eq!(keep_alives(&server).await, 1);
}
