//! The names of claims: what is left in etcd of a lock that is used again and again, and what may meet an earlier claim.

use std::collections::BTreeSet;

use dlock_etcd::EtcdStore;
use dlock_runtime::{
    LockKey, LockMode,
    store::{
        AcquireOutcome, AcquireRequest, LockStore, OwnerId, ReleaseRequest, Released, StoreOptions,
    },
};
use dlock_testkit::{EtcdMake, EtcdOptions, EtcdServer, Proxy, eventually};

use crate::quiet::{LONG, TTL, ask, hold, key, owner, store};

/// The name of the only claim on a key.
async fn name_of(server: &EtcdServer, key: &str) -> String {
    let names = server.keys(&format!("dlock/{key}/")).await;
    let [name] = &names[..] else {
        panic!("one claim: {names:?}");
    };
    name.clone()
}

#[tokio::test]
async fn a_free_lock_has_the_same_key_again() {
    let server = EtcdServer::start().await;
    let (store, one) = (store(&server.url()), key("order:42"));
    let (mut names, mut created) = (BTreeSet::new(), BTreeSet::new());
    for _ in 0..20 {
        let held = hold(&store, &one).await;
        names.insert(name_of(&server, "order:42").await);
        let value = server.get(names.first().unwrap()).await.unwrap();
        assert!(value.ends_with(&held.to_string()), "{value}");
        created.insert(server.revision().await);
        let released = store.release(ReleaseRequest::new(&one, held)).await;
        assert_eq!(released, Ok(Released::WasHeld));
    }
    assert_eq!((names.len(), created.len()), (1, 20), "{names:?}");
    // Two claims at a time have a lease each.
    let (first, other) = (hold(&store, &one).await, key("order:43"));
    let second = hold(&store, &other).await;
    let [mine, others] = [
        name_of(&server, "order:42").await,
        name_of(&server, "order:43").await,
    ];
    assert_ne!(mine.rsplit('/').next(), others.rsplit('/').next());
    for (key, owner) in [(&one, first), (&other, second)] {
        store
            .release(ReleaseRequest::new(key, owner))
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn a_lease_that_its_key_has_exchanged_names_no_other() {
    let server = EtcdServer::start().await;
    let (store, one) = (store(&server.url()), key("order:42"));
    let held = hold(&store, &one).await;
    let name = name_of(&server, "order:42").await;
    let lease = server.lease_of(&name).await;
    let shorter = AcquireRequest::new(&one, held, TTL / 2);
    let again = store.acquire(shorter).await;
    assert!(
        matches!(again, Ok(AcquireOutcome::Granted { .. })),
        "{again:?}"
    );
    assert_eq!(name_of(&server, "order:42").await, name);
    assert_ne!(server.lease_of(&name).await, lease);
    let next = hold(&store, &key("order:43")).await;
    let other = name_of(&server, "order:43").await;
    assert_ne!(name.rsplit('/').next(), other.rsplit('/').next());
    for (key, owner) in [(&one, held), (&key("order:43"), next)] {
        store
            .release(ReleaseRequest::new(key, owner))
            .await
            .unwrap();
    }
}

/// A request to a full database of an early version compares nothing, and a copy of it may still be on its way.
#[tokio::test]
async fn a_deletion_that_compares_nothing_ends_no_later_claim() {
    let options = EtcdOptions::new().make(EtcdMake::Early);
    let server = EtcdServer::start_with(options.argument("--quota-backend-bytes=1048576")).await;
    let (store, one) = (store(&server.url()), key("order:42"));
    let held = hold(&store, &one).await;
    let name = name_of(&server, "order:42").await;
    server.fill().await;
    let released = store.release(ReleaseRequest::new(&one, held)).await;
    assert_eq!(released, Ok(Released::WasHeld));
    server.make_room().await;
    let mut next = owner();
    eventually(LONG, "there is room again", async || {
        next = owner();
        matches!(
            ask(&store, &one, next).await,
            Some(AcquireOutcome::Granted { .. })
        )
    })
    .await;
    assert_ne!(name_of(&server, "order:42").await, name);
    // The late request, as etcd would see it.
    server.delete(&name).await;
    let released = store.release(ReleaseRequest::new(&one, next)).await;
    assert_eq!(released, Ok(Released::WasHeld));
}

/// Opens a store over a proxy, whose next claim on this key has a name already. Returns that name and its value.
async fn used_before(server: &EtcdServer, proxy: &Proxy) -> (EtcdStore, String, String) {
    let mut options = StoreOptions::default();
    options.response_timeout = LONG;
    let store = EtcdStore::open(&format!("etcd://127.0.0.1:{}", proxy.port()), &options).unwrap();
    let one = key("order:42");
    let held = hold(&store, &one).await;
    let name = name_of(server, "order:42").await;
    let value = server.get(&name).await.unwrap();
    store
        .release(ReleaseRequest::new(&one, held))
        .await
        .unwrap();
    (store, name, value)
}

/// Asks until there is an answer, which is a grant.
async fn until_granted(store: &EtcdStore, key: &LockKey, owner: OwnerId) {
    let mut answer = None;
    eventually(LONG, "it is granted", async || {
        let asked = store.acquire(AcquireRequest::new(key, owner, TTL)).await;
        answer = asked.ok();
        answer.is_some()
    })
    .await;
    assert!(
        matches!(answer, Some(AcquireOutcome::Granted { .. })),
        "{answer:?}"
    );
}

/// The lease that names a key.
fn lease_of(name: &str) -> u64 {
    u64::from_str_radix(name.rsplit('/').next().unwrap(), 16).unwrap()
}

#[tokio::test]
async fn a_request_without_an_answer_is_over_before_its_claim_has_another_name() {
    let server = EtcdServer::start().await;
    let proxy = Proxy::start(server.port());
    let (store, name, value) = used_before(&server, &proxy).await;
    let (one, next) = (key("order:42"), owner());
    proxy.cut_before_request(&next.to_string());
    let asked = store.acquire(AcquireRequest::new(&one, next, TTL)).await;
    assert!(asked.is_err() && !proxy.is_trap_set(), "{asked:?}");
    until_granted(&store, &one, next).await;
    assert_ne!(name_of(&server, "order:42").await, name);
    // The late request, as etcd would see it: it names a lease that has ended.
    let lease = lease_of(&name);
    assert!(!server.put_with(&lease.to_string(), &name, &value).await);
    let released = store.release(ReleaseRequest::new(&one, next)).await;
    assert_eq!(released, Ok(Released::WasHeld));
    assert_eq!(server.keys("dlock/order:42/").await, [""; 0]);
}

#[tokio::test]
async fn a_restored_key_is_not_that_of_the_next_claim_with_its_name() {
    let server = EtcdServer::start().await;
    let proxy = Proxy::start(server.port());
    let (store, name, value) = used_before(&server, &proxy).await;
    let (one, next) = (key("order:42"), owner());
    proxy.cut_before_request(&next.to_string());
    let asked = store.acquire(AcquireRequest::new(&one, next, TTL)).await;
    assert!(asked.is_err() && !proxy.is_trap_set(), "{asked:?}");
    // As a snapshot would have it: the key of the claim before, of which the server knows no end.
    let lease = lease_of(&name);
    assert!(server.put_with(&lease.to_string(), &name, &value).await);
    let restored = server.revision().await;
    until_granted(&store, &one, next).await;
    assert_ne!(name_of(&server, "order:42").await, name);
    assert!(server.revision().await > restored);
    let released = store.release(ReleaseRequest::new(&one, next)).await;
    assert_eq!(released, Ok(Released::WasHeld));
}

/// As a snapshot would have it: both leases that a process uses again name a key of an earlier claim.
#[tokio::test]
async fn a_restored_key_is_not_overwritten_by_a_claim_beside_it() {
    let server = EtcdServer::start().await;
    let (store, one) = (store(&server.url()), key("order:42"));
    let share = async |owner| {
        let request = AcquireRequest::new(&one, owner, TTL).mode(LockMode::Shared);
        let answer = store.acquire(request).await;
        assert!(
            matches!(answer, Ok(AcquireOutcome::Granted { .. })),
            "{answer:?}"
        );
    };
    let owners = [owner(), owner()];
    for owner in owners {
        share(owner).await;
    }
    let mut restored = Vec::new();
    for name in server.keys("dlock/order:42/").await {
        let value = server.get(&name).await.unwrap();
        restored.push((name, value));
    }
    assert_eq!(restored.len(), 2, "{restored:?}");
    for owner in owners {
        let released = store.release(ReleaseRequest::new(&one, owner)).await;
        assert_eq!(released, Ok(Released::WasHeld));
    }
    for (name, value) in &restored {
        let lease = lease_of(name);
        assert!(server.put_with(&lease.to_string(), name, value).await);
    }
    let next = owner();
    share(next).await;
    assert_eq!(server.keys("dlock/order:42/").await.len(), 3);
    for (name, value) in &restored {
        assert_eq!(server.get(name).await.as_ref(), Some(value));
    }
    let released = store.release(ReleaseRequest::new(&one, next)).await;
    assert_eq!(released, Ok(Released::WasHeld));
}
