//! A database that is full.

use std::time::Duration;

use dlock::StoreErrorKind;
use dlock_etcd::EtcdStore;
use dlock_faults::{is_released, unavailable};
use dlock_runtime::{
    LockKey,
    random::SystemRandom,
    store::{
        AcquireRequest, ClientId, LockStore, OwnerId, ReleaseRequest, Released, RenewRequest,
        Renewal, StoreError,
    },
};
use dlock_testkit::{EtcdMake, EtcdOptions, EtcdServer, Proxy, eventually};
use futures_util::future::join_all;

use crate::world::{DEADLINE, TTL, builder, connect_by, open};

/// Long enough for the test to see renewals of it, and short enough to end without them.
const BRIEF: Duration = Duration::from_secs(9);

/// The smallest quota that the members start with: some pages are in use from the start.
const QUOTA: &str = "--quota-backend-bytes=1048576";

/// After so long, a new connection raises the base of fences.
const RAISED_JUST_NOW: Duration = Duration::from_millis(1200);

/// Returns `false` if the machine was so slow that the beats did not keep the place of the waiter: it cannot get another one.
async fn is_kept_and_released(make: EtcdMake) -> bool {
    let options = EtcdOptions::new().make(make).argument(QUOTA);
    let server = EtcdServer::start_with(options).await;
    let proxy = Proxy::start(server.port());
    let url = format!("etcd://127.0.0.1:{}", proxy.port());
    // Places are kept by beats that are late, and not given up with a connection.
    let connect = async |url: &str| {
        let patient = builder().response_timeout(DEADLINE / 2);
        connect_by(patient, url).await
    };
    let (one, other) = (connect(&url).await, connect(&server.url()).await);
    let connected = tokio::time::Instant::now();
    let guard = one.holds("order:42", TTL).await;
    let kept = one.holds("order:43", BRIEF).await;
    let waiting = tokio::spawn(other.lock("order:42").wait(3 * DEADLINE).acquire());
    let claims = async |count| server.keys("dlock/order:42/").await.len() == count;
    eventually(DEADLINE, "the other waits", async || claims(2).await).await;
    server.fill().await;
    let end = tokio::time::Instant::now() + 2 * BRIEF;
    // A new connection cannot raise the base of fences, and renews all the same.
    eventually(DEADLINE, "the base is behind the clock", async || {
        connected.elapsed() > RAISED_JUST_NOW
    })
    .await;
    proxy.cut();

    let wait = Duration::from_millis(500);
    let error = other.is_refused("order:44", wait, &["etcdctl alarm disarm"]);
    assert_eq!(unavailable(&error.await), StoreErrorKind::OutOfMemory);

    // Only renewals keep the brief lease for so long, and only beats the place.
    eventually(DEADLINE, "two TTLs have passed", async || {
        guard.ensure_held().unwrap();
        kept.ensure_held().unwrap();
        tokio::time::Instant::now() > end
    })
    .await;
    if !claims(2).await {
        waiting.abort();
        return false;
    }
    is_released(guard).await;
    eventually(
        DEADLINE,
        "its key is gone long before its TTL",
        async || claims(1).await,
    )
    .await;
    kept.ensure_held().unwrap();
    // The waiter is the first now. It begins no body, as it cannot get a lease of its own. A grant by a message alone would
    // have been lost by then.
    let end = tokio::time::Instant::now() + Duration::from_secs(4);
    eventually(DEADLINE, "the time of a grant has passed", async || {
        assert!(!waiting.is_finished());
        tokio::time::Instant::now() > end
    })
    .await;

    server.make_room().await;
    let guard = waiting.await.unwrap().unwrap();
    is_released(guard).await;
    is_released(kept).await;
    one.works("order:44").await;
    assert_eq!(server.keys("dlock/order:").await, [""; 0]);
    true
}

async fn is_full(make: EtcdMake) {
    let is_kept = async || is_kept_and_released(make).await;
    eventually(3 * DEADLINE, "the holder and the waiter", is_kept).await;
}

#[tokio::test]
async fn a_full_database_refuses_new_locks_and_keeps_those_that_are_held() {
    is_full(EtcdMake::Usual).await;
}

/// It refuses every transaction, also those that only delete.
#[tokio::test]
async fn a_full_database_of_an_early_version_keeps_locks_that_are_held() {
    is_full(EtcdMake::Early).await;
}

#[tokio::test]
async fn a_full_database_of_the_oldest_version_keeps_locks_that_are_held() {
    is_full(EtcdMake::Old).await;
}

#[tokio::test]
async fn a_label_that_a_full_database_refuses_costs_no_lease() {
    let options = EtcdOptions::new().argument(QUOTA);
    let server = EtcdServer::start_with(options).await;
    let store = open(&server.url(), DEADLINE);
    let key = LockKey::new("order:42").unwrap();
    let owner = OwnerId::new(ClientId::new(&SystemRandom), 1);
    let request = AcquireRequest::new(&key, owner, TTL);
    let granted = store.acquire(request).await.unwrap();
    server.fill().await;
    for label in ["billing@host/1", "billing@host/2", "billing@host/3"] {
        let renewal = RenewRequest::new(&key, owner, TTL).label(label);
        assert_eq!(store.renew_one(renewal).await, Ok(Renewal::Renewed));
    }
    assert_eq!(store.acquire(request).await, Ok(granted));
    let release = ReleaseRequest::new(&key, owner);
    assert_eq!(store.release(release).await, Ok(Released::WasHeld));
}

/// Callers that acquire and release while others fill the database.
const CALLERS: usize = 16;

/// etcd carries out a request that has come before its database was full, and answers that it is.
#[tokio::test]
async fn a_request_that_finds_the_database_full_leaves_no_key() {
    // Each write counts at once.
    let options = EtcdOptions::new().argument(QUOTA);
    let options = options.argument("--backend-batch-limit=1");
    let server = EtcdServer::start_with(options).await;
    let store = open(&server.url(), DEADLINE);
    eventually(DEADLINE, "a refused request was carried out", async || {
        let callers = join_all((0..CALLERS).map(|number| until_refused(&store, number)));
        let (refused, ()) = tokio::join!(callers, server.fill());
        let left = server.keys("dlock/order:").await;
        for (key, owner, error) in &refused {
            assert_eq!(error.kind(), StoreErrorKind::OutOfMemory, "{error}");
            let is_there = left.iter().any(|name| name.contains(key.as_str()));
            assert!(!is_there || !error.has_no_effect(), "{key}: {error}");
            let release = ReleaseRequest::new(key, *owner);
            store.release(release).await.unwrap();
        }
        assert_eq!(server.keys("dlock/order:").await, [""; 0]);
        server.make_room().await;
        !left.is_empty()
    })
    .await;
}

async fn until_refused(store: &EtcdStore, number: usize) -> (LockKey, OwnerId, StoreError) {
    let key = LockKey::new(format!("order:{number}:")).unwrap();
    let client = ClientId::new(&SystemRandom);
    for number in 1.. {
        let owner = OwnerId::new(client, number);
        let request = AcquireRequest::new(&key, owner, TTL);
        if let Err(error) = store.acquire(request).await {
            return (key, owner, error);
        }
        let release = ReleaseRequest::new(&key, owner);
        store.release(release).await.unwrap();
    }
    unreachable!("the database becomes full")
}
