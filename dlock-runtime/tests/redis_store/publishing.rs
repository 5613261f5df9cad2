//! Servers on which clients can publish and scripts cannot, as where pub/sub is sharded.

use dlock_runtime::store::{
    AcquireOutcome, LockStore, OwnerId, Proposal, QuorumNode, ReleaseRequest, Released,
    redis::RedisStore,
};
use dlock_testkit::{Make, Proxy, RedisServer};
use futures_util::StreamExt;
use redis::aio::PubSub;
use tokio::time::timeout;

use crate::{DEADLINE, connect, key, owner, queue, request, run, take};

/// As long as `PUBLISH`, and the only name by which the server knows it.
const PUBLISH: &str = "PUBLISX";

/// A server behind a proxy by which clients can publish.
async fn server_and_proxy(make: Make) -> (RedisServer, Proxy) {
    let arguments = ["--rename-command", "PUBLISH", PUBLISH];
    let server = RedisServer::start_make_with(make, &arguments).await;
    let proxy = Proxy::start(server.port());
    proxy.rename("PUBLISH", PUBLISH);
    (server, proxy)
}

/// Hears what is published for an owner.
async fn listens(server: &RedisServer, to: OwnerId) -> PubSub {
    let client = redis::Client::open(server.url()).unwrap();
    let mut hears = client.get_async_pubsub().await.unwrap();
    let channel = format!("dlock:wake:{}", to.client());
    hears.subscribe(channel).await.unwrap();
    hears
}

async fn heard(hears: &mut PubSub) -> String {
    let mut messages = hears.on_message();
    let message = timeout(DEADLINE, messages.next()).await;
    let message = message.expect("it is published").unwrap();
    message.get_payload().unwrap()
}

async fn queue_for_notice(store: &RedisStore, lock: &str, owner: OwnerId) {
    let lock = key(lock);
    let proposal = Proposal::new(request(&lock, owner), 0).notice(true);
    let answer = store.propose(proposal).await.unwrap();
    assert!(
        matches!(answer, AcquireOutcome::Busy(_)),
        "broken promise: two hold the key: {answer:?}"
    );
}

pub(crate) async fn a_waiter_is_told_by_whoever_releases(make: Make) {
    let (server, proxy) = server_and_proxy(make).await;
    let store = connect(&proxy.url()).await;
    let (lock, me, waiter) = (key("k"), owner(), owner());
    let mut hears = listens(&server, waiter).await;
    let fence = take(&store, &lock, me).await;
    queue(&store, &lock, waiter).await;
    assert_eq!(
        store.release(ReleaseRequest::new(&lock, me)).await,
        Ok(Released::WasHeld)
    );
    let granted = take(&store, &lock, waiter).await;
    assert!(granted > fence, "broken promise: the token did not grow");
    assert_eq!(heard(&mut hears).await, format!("{waiter} {granted} k"));
    assert_eq!(
        store.release(ReleaseRequest::new(&lock, waiter)).await,
        Ok(Released::WasHeld)
    );
    assert_eq!(
        store.release(ReleaseRequest::new(&lock, waiter)).await,
        Ok(Released::WasGone)
    );
}

pub(crate) async fn a_waiter_is_told_by_whoever_finds_the_lock_free(make: Make) {
    let (server, proxy) = server_and_proxy(make).await;
    let store = connect(&proxy.url()).await;
    let (lock, me, waiter, third) = (key("k"), owner(), owner(), owner());
    let mut hears = listens(&server, waiter).await;
    take(&store, &lock, me).await;
    queue(&store, &lock, waiter).await;
    run(&mut server.connection().await, "DEL dlock:{k}").await;
    let busy = queue(&store, &lock, third).await;
    assert_eq!((busy.position, busy.fence), (Some(0), busy.last_fence));
    let granted = busy.fence;
    assert_eq!(heard(&mut hears).await, format!("{waiter} {granted} k"));
}

/// As the servers of a quorum do.
pub(crate) async fn a_waiter_that_only_wants_to_be_told_is(make: Make) {
    let (server, proxy) = server_and_proxy(make).await;
    let store = connect(&proxy.url()).await;
    let (lock, me, waiter) = (key("k"), owner(), owner());
    let mut hears = listens(&server, waiter).await;
    take(&store, &lock, me).await;
    queue_for_notice(&store, "k", waiter).await;
    assert_eq!(
        store.release(ReleaseRequest::new(&lock, me)).await,
        Ok(Released::WasHeld)
    );
    assert_eq!(heard(&mut hears).await, format!("{waiter} 0 k"));
    take(&store, &lock, me).await;
}

/// Nobody publishes twice where the script could.
pub(crate) async fn a_script_that_can_publish_does_so_alone(make: Make) {
    let server = RedisServer::start_make(make).await;
    let store = connect(&server.url()).await;
    let (lock, me, waiter) = (key("k"), owner(), owner());
    take(&store, &lock, me).await;
    queue(&store, &lock, waiter).await;
    let before = server.command_count("publish").await;
    assert_eq!(
        store.release(ReleaseRequest::new(&lock, me)).await,
        Ok(Released::WasHeld)
    );
    // It is answered after whatever the release has sent.
    take(&store, &lock, waiter).await;
    assert_eq!(server.command_count("publish").await, before + 1);
}
