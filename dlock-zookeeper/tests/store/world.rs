//! The parts that tests of the store share.

use std::{sync::Arc, time::Duration};

use dlock::{LockKey, LockManager, LockManagerBuilder, LockMode};
use dlock_runtime::{
    random::SystemRandom,
    store::{
        AcquireOutcome, AcquireRequest, ClientId, Hint, HintReceiver, HintSink, LockStore, OwnerId,
        Queue, ReleaseRequest, StoreOptions, StoreScheme,
    },
};
use dlock_testkit::{ZooKeepers, eventually};
use dlock_zookeeper::{ZooKeeper, ZooKeeperStore};
use tokio::sync::mpsc;
use zookeeper_client::{Client, Connector};

pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// Long enough for every TTL of the suite.
pub(crate) const SESSION: Duration = Duration::from_secs(90);

pub(crate) const TTL: Duration = Duration::from_secs(60);

fn options() -> StoreOptions {
    let mut options = StoreOptions::default();
    // The machine of the tests is slow at times.
    options.response_timeout = Duration::from_secs(10);
    options.connect_timeout = LIMIT;
    options
}

/// A store that is about to connect.
pub(crate) fn opened(url: &str) -> ZooKeeperStore {
    ZooKeeper.open(url, &options()).expect("the URL is right")
}

pub(crate) async fn store(url: &str) -> ZooKeeperStore {
    let store = opened(url);
    ZooKeeper
        .ready(&store, &options())
        .await
        .expect("the servers answer");
    store
}

/// A builder of managers whose servers may answer late.
pub(crate) fn builder() -> LockManagerBuilder {
    let options = options();
    LockManager::builder()
        .scheme("zookeeper", ZooKeeper)
        .response_timeout(options.response_timeout)
        .connect_timeout(options.connect_timeout)
}

pub(crate) async fn manager(url: &str) -> LockManager {
    let connected = builder().connect(url).await;
    connected.expect("the servers answer")
}

/// A client beside dlock's own.
pub(crate) async fn client(servers: &ZooKeepers) -> Client {
    client_of(servers, Client::connector()).await
}

/// The same with the options of a connector. Its session outlasts the test.
pub(crate) async fn client_of(servers: &ZooKeepers, connector: Connector) -> Client {
    let connector = connector
        .with_session_timeout(SESSION)
        .with_connection_timeout(SESSION / 2);
    let host = format!("127.0.0.1:{}", servers.port(0));
    connector.connect(&host).await.expect("the server answers")
}

/// The paths of the children of a key.
pub(crate) async fn children(servers: &ZooKeepers, namespace: &str, key: &str) -> Vec<String> {
    let client = client(servers).await;
    let directory = format!("/{namespace}/lock:{key}");
    client.sync("/").await.expect("the server answers");
    let children = client.list_children(&directory).await.unwrap_or_default();
    children
        .into_iter()
        .map(|child| format!("{directory}/{child}"))
        .collect()
}

/// A key that no other test has.
pub(crate) fn key(name: &str) -> LockKey {
    LockKey::new(format!("{name}:{}", ClientId::new(&SystemRandom))).unwrap()
}

/// An owner of another process.
pub(crate) fn owner() -> OwnerId {
    OwnerId::new(ClientId::new(&SystemRandom), 1)
}

/// Acquires the key and returns the fence. A server may hear late of a release elsewhere.
pub(crate) async fn hold(
    store: &ZooKeeperStore,
    key: &LockKey,
    owner: OwnerId,
    mode: LockMode,
) -> u64 {
    let request = AcquireRequest::new(key, owner, TTL).mode(mode);
    let mut granted = None;
    eventually(LIMIT, "the key is granted", async || {
        let answer = store.acquire(request.queue(Queue::ForLease)).await;
        if let AcquireOutcome::Granted { fence, .. } = answer.unwrap() {
            granted = Some(fence);
        }
        granted.is_some()
    })
    .await;
    granted.unwrap()
}

/// Asks for the key, which is busy.
pub(crate) async fn wait(store: &ZooKeeperStore, key: &LockKey, owner: OwnerId, mode: LockMode) {
    let request = AcquireRequest::new(key, owner, TTL).mode(mode);
    let answer = store.acquire(request.queue(Queue::ForLease)).await.unwrap();
    assert!(
        matches!(answer, AcquireOutcome::Busy(_)),
        "broken promise: two hold the key: {answer:?}"
    );
}

pub(crate) async fn release(store: &ZooKeeperStore, key: &LockKey, owner: OwnerId, mode: LockMode) {
    let release = ReleaseRequest::new(key, owner).mode(mode);
    store.release(release).await.unwrap();
}

/// Passes on the owner and the fence of each hint.
struct Heard(mpsc::UnboundedSender<(OwnerId, u64)>);

impl HintReceiver for Heard {
    fn hint(&self, hint: &Hint<'_>) -> bool {
        self.0.send((hint.owner, hint.fence)).is_ok()
    }

    fn look_again(&self) -> bool {
        true
    }
}

/// A client that listens to hints of a store, and what it hears.
pub(crate) fn listen(
    store: &ZooKeeperStore,
) -> (ClientId, mpsc::UnboundedReceiver<(OwnerId, u64)>) {
    let client = ClientId::new(&SystemRandom);
    let (send, heard) = mpsc::unbounded_channel();
    let hooks = store.properties().hooks.unwrap();
    hooks.attach(client, HintSink::new(Arc::new(Heard(send))));
    (client, heard)
}
