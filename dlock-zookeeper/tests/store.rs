//! The store against an ensemble of three servers: the contract, and what becomes of a lease on the way.

use std::{sync::Arc, time::Duration};

use dlock::{LockError, LockKey, LockManager};
use dlock_conformance::{Level, Suite};
use dlock_runtime::{
    ConnectError, StoreError, StoreErrorKind,
    store::{
        AcquireOutcome, AcquireRequest, ClientId, LockStore, OwnerId, Queue, ReleaseRequest,
        Released, RenewRequest, Renewal, StoreOptions, StoreScheme,
    },
    testing::SystemRandom,
};
use dlock_testkit::{Proxy, ZooKeepers, eventually};
use dlock_zookeeper::{ZooKeeper, ZooKeeperStore};
use tokio::time::sleep;
use zookeeper_client::Client;

const LIMIT: Duration = Duration::from_secs(60);
/// Long enough for every TTL of the suite.
const SESSION: Duration = Duration::from_secs(90);

async fn store(url: &str) -> ZooKeeperStore {
    let options = StoreOptions::default();
    let store = ZooKeeper.open(url, &options).expect("the URL is right");
    ZooKeeper
        .ready(&store, &options)
        .await
        .expect("the servers answer");
    store
}

async fn manager(url: &str) -> LockManager {
    let builder = LockManager::builder().scheme("zookeeper", ZooKeeper);
    builder.connect(url).await.expect("the servers answer")
}

/// The children of a key, seen by another client.
async fn children(servers: &ZooKeepers, namespace: &str, key: &str) -> Vec<String> {
    let client = Client::connect(&format!("127.0.0.1:{}", servers.port(0)))
        .await
        .expect("the server answers");
    let directory = format!("/{namespace}/lock:{key}");
    client.sync("/").await.expect("the server answers");
    let children = client.list_children(&directory).await.unwrap_or_default();
    children
        .into_iter()
        .map(|child| format!("{directory}/{child}"))
        .collect()
}

#[tokio::test]
async fn it_keeps_the_contract_of_a_store_that_grants() {
    let servers = ZooKeepers::shared().await;
    let store = store(&servers.url(SESSION)).await;
    let suite = Suite::new(Level::Grants).limit(LIMIT);
    suite.run(&store).await.assert();
}

#[tokio::test]
async fn two_stores_see_each_others_locks_and_wake_each_others_waiters() {
    let servers = ZooKeepers::shared().await;
    let url = servers.url(SESSION);
    let (one, other) = tokio::join!(manager(&url), manager(&url));
    let first = one.lock("two-stores").acquire().await.unwrap();
    let waiter = tokio::spawn(async move { other.lock("two-stores").wait(LIMIT).acquire().await });
    eventually(LIMIT, "the waiter has a child", async || {
        children(servers, "dlock", "two-stores").await.len() == 2
    })
    .await;
    let token = first.fencing_token();
    first.release().await.unwrap();
    let second = waiter.await.unwrap().unwrap();
    assert!(second.fencing_token() > token);
    second.release().await.unwrap();
    assert!(children(servers, "dlock", "two-stores").await.is_empty());
}

#[tokio::test]
async fn a_child_that_an_operator_deletes_ends_the_lease() {
    let servers = ZooKeepers::shared().await;
    let locks = manager(&servers.url(SESSION)).await;
    let held = locks
        .lock("operator")
        .ttl(Duration::from_secs(3))
        .acquire()
        .await
        .unwrap();
    let client = Client::connect(&format!("127.0.0.1:{}", servers.port(1)))
        .await
        .unwrap();
    for child in children(servers, "dlock", "operator").await {
        client.delete(&child, None).await.unwrap();
    }
    eventually(LIMIT, "the lease is lost", async || held.is_lost()).await;
    assert!(matches!(held.release().await, Err(LockError::Lost { .. })));
}

#[tokio::test]
async fn a_creation_without_an_answer_is_found_again_and_released() {
    let servers = ZooKeepers::shared().await;
    let proxy = Proxy::start(servers.port(0));
    let hosts = format!("127.0.0.1:{}", proxy.port());
    let store = Arc::new(store(&ZooKeepers::url_of(&hosts, SESSION)).await);
    let key = LockKey::new("no-answer").unwrap();
    let owner = OwnerId::new(ClientId::new(&SystemRandom), 1);
    let ask = || AcquireRequest::new(&key, owner, Duration::from_secs(30));

    // The directory is there before, so the next request with this text creates the child.
    assert!(matches!(
        store.acquire(ask()).await,
        Ok(AcquireOutcome::Granted { .. })
    ));
    store
        .release(ReleaseRequest::new(&key, owner))
        .await
        .unwrap();
    let child = format!("lock:no-answer/{owner}");
    proxy.cut_before_reply_to(&child);
    let error = store.acquire(ask()).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Disconnected, "{error}");
    assert!(!error.has_no_effect());
    assert_eq!(children(servers, "dlock", "no-answer").await.len(), 1);
    assert_eq!(
        store.release(ReleaseRequest::new(&key, owner)).await,
        Ok(Released::WasHeld)
    );
    assert!(children(servers, "dlock", "no-answer").await.is_empty());

    // The repeated request has the child of the first one.
    let owner = OwnerId::new(owner.client(), 2);
    let ask = || AcquireRequest::new(&key, owner, Duration::from_secs(30));
    proxy.cut_before_reply_to(&format!("lock:no-answer/{owner}"));
    store.acquire(ask()).await.unwrap_err();
    eventually(LIMIT, "the owner holds the key", async || {
        matches!(
            store.acquire(ask()).await,
            Ok(AcquireOutcome::Granted { .. })
        )
    })
    .await;
    assert_eq!(children(servers, "dlock", "no-answer").await.len(), 1);

    // If nothing comes after it, its time ends.
    let owner = OwnerId::new(owner.client(), 3);
    let key = LockKey::new("nothing-after").unwrap();
    let ask = || AcquireRequest::new(&key, owner, Duration::from_secs(30));
    store.acquire(ask()).await.unwrap();
    store
        .release(ReleaseRequest::new(&key, owner))
        .await
        .unwrap();
    proxy.cut_before_reply_to(&format!("lock:nothing-after/{owner}"));
    store.acquire(ask()).await.unwrap_err();
    assert_eq!(children(servers, "dlock", "nothing-after").await.len(), 1);
    eventually(LIMIT, "the child is deleted", async || {
        children(servers, "dlock", "nothing-after").await.is_empty()
    })
    .await;
}

#[tokio::test]
async fn a_waiter_renews_nothing() {
    let servers = ZooKeepers::shared().await;
    let store = store(&servers.url(SESSION)).await;
    let key = LockKey::new("waiter-renews").unwrap();
    let [holder, waiter] = [1, 2].map(|it| OwnerId::new(ClientId::new(&SystemRandom), it));
    let ttl = Duration::from_secs(30);
    let ask = |owner| AcquireRequest::new(&key, owner, ttl).queue(Queue::ForLease);
    let renewal = RenewRequest::new(&key, waiter, ttl);
    let granted = store.acquire(ask(holder)).await;
    assert!(matches!(granted, Ok(AcquireOutcome::Granted { .. })));
    let busy = store.acquire(ask(waiter)).await;
    assert!(matches!(busy, Ok(AcquireOutcome::Busy(_))));
    assert_eq!(store.renew_one(renewal).await, Ok(Renewal::NotOwner));
    let release = ReleaseRequest::new(&key, holder);
    assert_eq!(store.release(release).await, Ok(Released::WasHeld));
    // From now on it is the holder.
    assert_eq!(store.renew_one(renewal).await, Ok(Renewal::Renewed));
    let release = ReleaseRequest::new(&key, waiter);
    assert_eq!(store.release(release).await, Ok(Released::WasHeld));
}

#[tokio::test]
async fn a_lease_that_its_session_may_not_last_for_is_not_confirmed() {
    let servers = ZooKeepers::shared().await;
    let proxy = Proxy::start(servers.port(0));
    // Requests count only after the tick, which is longer than the servers' own.
    let url = format!("zookeeper://127.0.0.1:{}?session=20s&tick=5s", proxy.port());
    let store = store(&url).await;
    let key = LockKey::new("uncertain").unwrap();
    let owner = OwnerId::new(ClientId::new(&SystemRandom), 1);
    let ask = async || {
        let ask = AcquireRequest::new(&key, owner, Duration::from_millis(12_500));
        store.acquire(ask).await
    };
    // The first requests of the session are old enough to count.
    sleep(Duration::from_secs(6)).await;
    assert!(matches!(ask().await, Ok(AcquireOutcome::Granted { .. })));
    proxy.freeze();
    // The session goes on without an answer, and its rest is shorter than the TTL.
    sleep(Duration::from_secs(9)).await;
    proxy.thaw();
    let mut answers = Vec::new();
    eventually(LIMIT, "the lease is confirmed", async || {
        answers.push(ask().await);
        matches!(answers.last(), Some(Ok(_)))
    })
    .await;
    let is_refusal = |answer: &Result<_, StoreError>| {
        let error = answer.as_ref().err();
        error.is_some_and(|error| error.message().contains("without an answer for too long"))
    };
    assert!(answers.iter().any(is_refusal), "{answers:?}");
    store
        .release(ReleaseRequest::new(&key, owner))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_ttl_beyond_the_session_is_refused_before_a_request_is_sent() {
    let servers = ZooKeepers::shared().await;
    let builder = LockManager::builder().scheme("zookeeper", ZooKeeper);
    let url = servers.url(Duration::from_secs(10));
    let error = builder.clone().connect(&url).await.unwrap_err();
    assert!(
        matches!(error, ConnectError::InvalidOption { option: "ttl", .. }),
        "{error}"
    );
    let locks = builder
        .ttl(Duration::from_secs(5))
        .connect(&url)
        .await
        .unwrap();
    let error = locks
        .lock("long")
        .ttl(Duration::from_secs(10))
        .acquire()
        .await
        .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("longer than the store's longest lease"),
        "{error}"
    );
    locks
        .lock("long")
        .acquire()
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
}

#[tokio::test]
async fn a_session_that_the_servers_shorten_is_refused() {
    let servers = ZooKeepers::shared().await;
    let builder = LockManager::builder().scheme("zookeeper", ZooKeeper);
    let error = builder
        .connect(servers.url(Duration::from_secs(121)))
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("write `session=120000ms`"),
        "{error}"
    );
}

#[tokio::test]
async fn only_the_user_of_the_url_gets_to_its_nodes() {
    let servers = ZooKeepers::shared().await;
    let hosts = format!("127.0.0.1:{}/shop", servers.port(0));
    let url = |login: &str| ZooKeepers::url_of(&format!("{login}{hosts}"), SESSION);
    let shop = manager(&url("shop:p%40ss@")).await;
    let held = shop.lock("order:42").acquire().await.unwrap();
    let other = manager(&url("")).await;
    let error = other.lock("order:42").try_acquire().await.unwrap_err();
    let LockError::Unavailable { reason, .. } = error else {
        panic!("{error}");
    };
    assert_eq!(reason.kind(), StoreErrorKind::Denied, "{reason}");
    held.release().await.unwrap();
}
