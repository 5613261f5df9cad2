//! Connections that are cut, silent or slow between a request and its answer.

use std::time::Duration;

use dlock_etcd::EtcdStore;
use dlock_faults::{Process, is_released, names};
use dlock_runtime::{
    LockKey,
    random::SystemRandom,
    store::{
        AcquireOutcome, AcquireRequest, ClientId, LockStore, OwnerId, ReleaseRequest, Released,
        RenewRequest, Renewal,
    },
};
use dlock_testkit::{EtcdServer, Proxy, eventually, hosts};
use tokio::time::timeout;

use crate::world::{DEADLINE, TTL, builder, connect, lose_answer, open};

fn owner() -> OwnerId {
    OwnerId::new(ClientId::new(&SystemRandom), 1)
}

/// Two ways to a server, and the URL of both.
fn two_ways(server: &EtcdServer) -> ([Proxy; 2], String) {
    let proxies = [(); 2].map(|()| Proxy::start(server.port()));
    let url = format!("etcd://{}", hosts(proxies.iter().map(Proxy::port)));
    (proxies, url)
}

async fn released(store: &EtcdStore, key: &LockKey, owner: OwnerId) -> Released {
    let mut released = None;
    eventually(DEADLINE, "the release is answered", async || {
        released = store.release(ReleaseRequest::new(key, owner)).await.ok();
        released.is_some()
    })
    .await;
    released.unwrap()
}

#[tokio::test]
async fn an_answer_that_is_lost_is_found_by_the_repeated_request() {
    let server = EtcdServer::start().await;
    let proxy = Proxy::start(server.port());
    let manager = connect(&format!("etcd://127.0.0.1:{}", proxy.port())).await;
    proxy.hold_replies_from("order:42");
    let lock = manager.lock("order:42").ttl(TTL);
    let lost = lose_answer(&proxy, &server, "dlock/order:42/");
    let (acquired, ()) = tokio::join!(lock.acquire(), lost);
    let guard = acquired.unwrap();
    assert_eq!(server.keys("dlock/order:42/").await.len(), 1);
    guard.release().await.unwrap();
    assert_eq!(server.keys("dlock/order:42/").await, [""; 0]);
}

#[tokio::test]
async fn a_release_without_an_answer_is_carried_out() {
    let server = EtcdServer::start().await;
    let proxy = Proxy::start(server.port());
    let manager = connect(&format!("etcd://127.0.0.1:{}", proxy.port())).await;
    for cut in [Proxy::cut_before_reply_to, Proxy::cut_before_request] {
        let guard = manager.holds("order:42", TTL).await;
        cut(&proxy, "order:42");
        guard.release().await.ok();
        eventually(
            DEADLINE,
            "the key is free long before its TTL",
            async || server.keys("dlock/order:42/").await.is_empty(),
        )
        .await;
        assert!(!proxy.is_trap_set(), "the connection was cut");
    }
}

#[tokio::test]
async fn a_silent_connection_is_replaced_and_the_lease_renewed() {
    let server = EtcdServer::start().await;
    let (proxies, url) = two_ways(&server);
    let manager = connect(&url).await;
    let other = connect(&server.url()).await;
    let guard = manager.holds("order:42", Duration::from_secs(20)).await;
    proxies[0].freeze();
    eventually(DEADLINE, "the second connection is there", async || {
        proxies[1].open_connections() > 0
    })
    .await;
    // Only a renewal over the second connection gives it more time than it had before.
    let mut last = guard.remaining();
    eventually(DEADLINE, "the lease is renewed", async || {
        let left = guard.remaining();
        std::mem::replace(&mut last, left) < left
    })
    .await;
    other.finds_held("order:42").await;
    is_released(guard).await;
}

/// A request whose answer is lost names a lease. As a copy of it may still be on its way, the release ends the lease.
#[tokio::test]
async fn a_request_that_arrives_after_the_release_has_no_effect() {
    let server = EtcdServer::start().await;
    let proxy = Proxy::start(server.port());
    let url = format!("etcd://127.0.0.1:{}", proxy.port());
    let store = open(&url, DEADLINE);
    let (key, owner) = (LockKey::new("order:42").unwrap(), owner());
    proxy.hold_replies_from("order:42");
    let asked = store.acquire(AcquireRequest::new(&key, owner, TTL));
    let lost = lose_answer(&proxy, &server, "dlock/order:42/");
    let (asked, ()) = tokio::join!(asked, lost);
    assert!(asked.is_err(), "{asked:?}");
    let keys = server.keys("dlock/order:42/").await;
    let [name] = &keys[..] else {
        panic!("the request was carried out: {keys:?}");
    };
    let lease = server.lease_of(name).await.unwrap();
    assert_eq!(released(&store, &key, owner).await, Released::WasHeld);
    assert_eq!(server.keys("dlock/order:42/").await, [""; 0]);
    // The late request, as etcd would see it.
    assert!(
        !server.put_with(&lease, name, "late").await,
        "its lease has ended"
    );
    assert_eq!(server.get(name).await, None);
}

/// A request that gives the key a lease gets no answer, and arrives late.
#[tokio::test]
async fn a_key_that_has_another_lease_gets_one_of_its_own_before_it_is_renewed() {
    let server = EtcdServer::start().await;
    let store = open(&server.url(), DEADLINE);
    let (key, owner) = (LockKey::new("order:42").unwrap(), owner());
    let granted = store.acquire(AcquireRequest::new(&key, owner, TTL)).await;
    let granted = granted.unwrap();
    let name = server.keys("dlock/order:42/").await.remove(0);
    let value = server.get(&name).await.unwrap();
    let other = server.lease(60).await;
    assert!(server.put_with(&other, &name, &value).await);
    eventually(DEADLINE, "the lease is renewed", async || {
        let renewal = RenewRequest::new(&key, owner, TTL);
        store.renew_one(renewal).await == Ok(Renewal::Renewed)
    })
    .await;
    assert_ne!(server.lease_of(&name).await, Some(other));
    let again = store.acquire(AcquireRequest::new(&key, owner, TTL)).await;
    assert_eq!(
        again,
        Ok(granted),
        "broken promise: the owner has another lease"
    );
    released(&store, &key, owner).await;
}

#[tokio::test]
async fn a_request_that_is_held_back_beyond_its_release_leaves_no_key() {
    let server = EtcdServer::start().await;
    let (proxies, url) = two_ways(&server);
    let store = open(&url, Duration::from_secs(4));
    let key = LockKey::new("order:42").unwrap();
    // A lease of this TTL is at hand, so the next request is sent at once.
    let before = owner();
    let asked = store.acquire(AcquireRequest::new(&key, before, TTL));
    asked.await.unwrap();
    released(&store, &key, before).await;

    proxies[0].freeze();
    let late = owner();
    let asked = store.acquire(AcquireRequest::new(&key, late, TTL));
    assert!(
        timeout(Duration::from_millis(500), asked).await.is_err(),
        "it gets no answer"
    );
    // Over the second connection.
    assert_eq!(released(&store, &key, late).await, Released::WasGone);
    proxies[0].thaw();
    eventually(DEADLINE, "all that was held back has arrived", async || {
        proxies[0].open_connections() == 0
    })
    .await;
    // A request of now is carried out behind those that have arrived.
    let next = owner();
    let answer = store.acquire(AcquireRequest::new(&key, next, TTL));
    let answer = answer.await.unwrap();
    assert!(
        matches!(answer, AcquireOutcome::Granted { .. }),
        "{answer:?}"
    );
    assert_eq!(
        server.keys("dlock/order:42/").await.len(),
        1,
        "the late request has left no key"
    );
    released(&store, &key, next).await;
}

#[tokio::test]
async fn members_that_are_all_refused_are_named_with_their_reasons() {
    let ports = [1, 2].map(|_: u32| Proxy::start(1));
    ports.iter().for_each(Proxy::refuse);
    let members = [0, 1].map(|index: usize| hosts([ports[index].port()]));
    let url = format!("etcd://{}", members.join(","));
    let error = builder().connect(&url).await.unwrap_err();
    for member in members {
        names(&error, &[&format!("{member}: "), "refused"]);
    }
    // Without waiting for a connection, the first call has the error.
    let process = Process::new(builder().connect_lazy(&url).unwrap(), DEADLINE);
    // A call that ends during the first round knows no reason.
    let (wait, words) = (Duration::from_secs(1), ["`order:42`", "refused"]);
    process.is_refused("order:42", wait, &words).await;
}
