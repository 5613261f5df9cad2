//! Requests that are carried out late, or without the request beside them.

use dlock_etcd::EtcdStore;
use dlock_runtime::store::{
    AcquireOutcome, LockStore, ReleaseRequest, RenewRequest, Renewal, StoreOptions,
};
use dlock_testkit::{EtcdServer, Proxy, eventually};

use crate::quiet::{CLAIMS, LONG, TTL, ask, hasty_store, hold, key, owner, store};

/// Has etcd carry out all that has arrived.
async fn settles(server: &EtcdServer) {
    for number in 0..20 {
        server.put("elsewhere", &number.to_string()).await;
    }
}

/// The deletion of a silent place is held back by the network until its waiter holds the key.
#[tokio::test]
async fn a_deletion_that_arrives_late_does_not_end_a_lease_of_a_waiter_that_came_back() {
    let server = EtcdServer::start().await;
    eventually(LONG, "the waiter comes back in time", async || {
        comes_back(&server).await
    })
    .await;
}

/// Returns `false` if the machine was so slow that the place has ended for another reason.
async fn comes_back(server: &EtcdServer) -> bool {
    let proxies = [Proxy::start(server.port()), Proxy::start(server.port())];
    let [first, second] = [0, 1].map(|index: usize| proxies[index].port());
    let url = format!("etcd://127.0.0.1:{first},127.0.0.1:{second}");
    let (holder, waiters) = (store(&server.url()), hasty_store(&url));
    let one = key(&format!("order:{}", owner()));
    let (waiter, rival) = (owner(), owner());
    let held = hold(&holder, &one).await;
    if ask(&waiters, &one, waiter).await.is_none() {
        return false;
    }
    let prefix = format!("{CLAIMS}{one}/");
    let Some(name) = server.keys(&prefix).await.get(1).cloned() else {
        return false;
    };

    proxies[0].freeze_before_request(&waiter.to_string());
    eventually(LONG, "its place is to be deleted", async || {
        !proxies[0].is_trap_set()
    })
    .await;
    eventually(LONG, "it asks again, and waits", async || {
        let answer = ask(&waiters, &one, waiter).await;
        matches!(answer, Some(AcquireOutcome::Busy(_)))
    })
    .await;
    assert!(ask(&holder, &one, rival).await.is_some());
    let release = ReleaseRequest::new(&one, held);
    holder.release(release).await.unwrap();
    let renewal = RenewRequest::new(&one, waiter, TTL);
    if waiters.renew_one(renewal).await != Ok(Renewal::Renewed) {
        return false;
    }
    // The deletion arrives, and not what the client has said after it: that nothing waits for an answer any more.
    proxies[0].freeze_before_request("");
    proxies[0].hold_replies();
    eventually(LONG, "the deletion has arrived", async || {
        !proxies[0].is_trap_set()
    })
    .await;
    settles(server).await;
    let keys = server.keys(&prefix).await;
    assert!(keys.contains(&name), "it holds, and its key is gone");
    let renewed = waiters.renew_one(renewal).await;
    assert!(
        matches!(renewed, Ok(Renewal::Renewed) | Err(_)),
        "{renewed:?}"
    );
    for (store, owner) in [(&holder, rival), (&waiters, waiter)] {
        store.release(ReleaseRequest::new(&one, owner)).await.ok();
    }
    renewed.is_ok()
}

/// A key with a lease that has been idle for some time would end before its waiter believes.
#[tokio::test]
async fn a_key_gets_an_idle_lease_only_after_that_was_kept_alive() {
    let server = EtcdServer::start().await;
    eventually(
        LONG,
        "the waiter holds the key for long enough",
        async || keeps_its_lease(&server).await,
    )
    .await;
}

/// Returns `false` if the machine was so slow that the place has ended.
async fn keeps_its_lease(server: &EtcdServer) -> bool {
    let proxy = Proxy::start(server.port());
    let mut options = StoreOptions::default();
    // The connection outlasts the test.
    options.response_timeout = 2 * LONG;
    let url = format!("etcd://127.0.0.1:{}", proxy.port());
    let (holder, waiters) = (
        store(&server.url()),
        EtcdStore::open(&url, &options).unwrap(),
    );
    let [idle, one] = ["idle", "order"].map(|name| key(&format!("{name}:{}", owner())));
    let before = hold(&waiters, &idle).await;
    let release = ReleaseRequest::new(&idle, before);
    waiters.release(release).await.unwrap();
    let (held, waiter) = (hold(&holder, &one).await, owner());
    assert!(ask(&waiters, &one, waiter).await.is_some());
    let places = server.keys(&format!("{CLAIMS}{one}/")).await;
    let Some(name) = places.get(1).cloned() else {
        return false;
    };
    let lease = server.lease_of(&name).await;
    let release = ReleaseRequest::new(&one, held);
    holder.release(release).await.unwrap();

    // What it asks about its own key is answered late: whether the idle lease lasts, and not only the put itself.
    proxy.hold_replies_from(&waiter.to_string());
    let renewal = RenewRequest::new(&one, waiter, TTL);
    let is_asked = eventually(LONG, "it asks", async || !proxy.is_trap_set());
    tokio::select! {
        renewed = waiters.renew_one(renewal) => return renewed != Ok(Renewal::Renewed),
        () = is_asked => {}
    }
    settles(server).await;
    let found = server.lease_of(&name).await;
    if found.is_none() {
        return false;
    }
    assert_eq!(found, lease, "nothing is known of another lease yet");
    proxy.thaw();
    let is_renewed = waiters.renew_one(renewal).await == Ok(Renewal::Renewed);
    if is_renewed {
        assert_ne!(server.lease_of(&name).await, lease, "it has one of its own");
    }
    let release = ReleaseRequest::new(&one, waiter);
    waiters.release(release).await.unwrap();
    is_renewed
}

#[tokio::test]
async fn a_release_without_a_caller_outlasts_its_store() {
    let server = EtcdServer::start().await;
    for number in 0..10 {
        let store = store(&server.url());
        let one = key(&format!("order:{number}"));
        let owner = hold(&store, &one).await;
        let hooks = store.properties().hooks.unwrap();
        assert!(hooks.release_at_once(ReleaseRequest::new(&one, owner)));
        drop(store);
    }
    eventually(LONG, "all are released", async || {
        server.keys("dlock/order:").await.is_empty()
    })
    .await;
}

#[tokio::test]
async fn a_key_keeps_its_lease_when_its_label_changes() {
    let server = EtcdServer::start().await;
    let store = store(&server.url());
    let one = key("order:1");
    let owner = hold(&store, &one).await;
    let name = server.keys("dlock/order:1/").await.remove(0);
    let lease = server.lease_of(&name).await;
    let renewal = RenewRequest::new(&one, owner, TTL).label("billing@host/1");
    assert_eq!(store.renew_one(renewal).await, Ok(Renewal::Renewed));
    let value = server.get(&name).await.unwrap();
    assert!(value.contains("billing@host/1"), "{value}");
    assert_eq!(server.lease_of(&name).await, lease);
    // No other claim can have it.
    hold(&store, &key("order:2")).await;
    let name = server.keys("dlock/order:2/").await.remove(0);
    assert_ne!(server.lease_of(&name).await, lease);
}
