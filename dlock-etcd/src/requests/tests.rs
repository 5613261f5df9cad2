//! Tests of requests that acquire, most of them with a server.

use dlock_runtime::{
    LockMode,
    random::SystemRandom,
    store::{ClientId, LockStore, Released},
};
use dlock_testkit::{EtcdServer, Proxy, eventually, within};
use futures_util::FutureExt;

use super::*;
use crate::{
    leases::Lease,
    scene::{LONG, Scene, TTL, ago, claim, claims, key},
};

#[test]
fn a_part_of_a_second_is_rounded_up() {
    for (ttl, expected) in [(1000, 1), (1001, 2), (1999, 2), (30_000, 30)] {
        assert_eq!(seconds(Duration::from_millis(ttl)), expected);
    }
    let whole = Duration::from_secs(5);
    assert_eq!(seconds(whole + Duration::from_nanos(1)), 6);
}

#[tokio::test]
async fn a_release_without_a_caller_comes_before_the_next_request() {
    let server = EtcdServer::start().await;
    let scene = Scene::open(server.port());
    scene.conn().await;
    let (key, owner) = (key("order:42"), scene.owner(1));
    let departing = &scene.store.core.departing;
    departing.send_modify(|count| *count += 1);
    let mut asked = Box::pin(scene.hold(&key, owner));
    assert!(asked.as_mut().now_or_never().is_none());
    assert_eq!(claims(&server, &key).await, [""; 0]);
    departing.send_modify(|count| *count -= 1);
    within(LONG, asked).await.expect("it is granted");
    // As a manager does it whose runtime has ended.
    let hooks = scene.store.properties().hooks.unwrap();
    let request = dlock_runtime::store::ReleaseRequest::new(&key, owner);
    assert!(hooks.release_at_once(request));
    scene.hold(&key, scene.owner(2)).await;
    assert_eq!(*departing.borrow(), 0);
}

/// Leases end while they are idle, and a restored ensemble does not know them.
#[tokio::test]
async fn a_lease_that_has_ended_is_refused_and_another_one_taken() {
    let server = EtcdServer::start().await;
    let scene = Scene::open(server.port());
    let conn = scene.conn().await;
    let core = &scene.store.core;
    for (number, age) in [(1, Duration::ZERO), (2, Duration::from_secs(1))] {
        assert!(core.leases.take(&conn, 120, ago(age)).await.unwrap().is_new);
        for id in 7..10 {
            let lease = Lease {
                id,
                seconds: 120,
                is_shared: false,
                conn: conn.number(),
            };
            core.leases.give(lease, ago(age));
        }
        let key = key(&format!("order:{number}"));
        scene.hold(&key, scene.owner(number)).await;
        let lease = server.lease_of(&claim(&server, &key).await).await;
        assert!(lease.is_some_and(|id| id.len() > 2), "one that exists");
        let claim = core.claims.enter(&key, scene.owner(number)).await;
        assert!(claim.unsettled.is_empty(), "they were refused");
    }
}

/// etcd refuses requests of more than 1.5 MiB.
#[tokio::test]
async fn a_request_that_is_refused_leaves_its_lease_to_the_next_one() {
    let server = EtcdServer::start().await;
    let scene = Scene::open(server.port());
    let (key, owner) = (key("order:42"), scene.owner(1));
    let label = "x".repeat(1_750_000);
    let request = AcquireRequest::new(&key, owner, TTL).label(&label);
    let error = scene.store.acquire(request).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Refused, "{error}");
    assert!(error.has_no_effect(), "{error}");
    assert!(scene.store.core.claims.is_unknown(&key, owner));
    assert_eq!(claims(&server, &key).await, [""; 0]);
    scene.hold(&key, owner).await;
    assert_eq!(server.messages().await["LeaseGrant"], 1);
}

#[tokio::test]
async fn a_holder_that_asks_again_has_its_lease_with_the_ttl_that_it_asks_for() {
    let server = EtcdServer::start().await;
    let scene = Scene::open(server.port());
    let (key, owner) = (key("order:42"), scene.owner(1));
    let fence = scene.hold(&key, owner).await;
    let name = claim(&server, &key).await;
    let lease = server.lease_of(&name).await;
    let revision = server.revision().await;
    assert_eq!(scene.hold(&key, owner).await, fence);
    assert_eq!(server.revision().await, revision, "nothing is written");
    let shorter = AcquireRequest::new(&key, owner, TTL / 2);
    let again = scene.store.acquire(shorter).await;
    assert_eq!(again, Ok(AcquireOutcome::granted(fence)));
    assert_ne!(server.lease_of(&name).await, lease);
    assert_eq!(scene.release(&key, owner).await, Released::WasHeld);
}

#[tokio::test]
async fn a_waiter_that_would_not_wait_learns_its_place() {
    let server = EtcdServer::start().await;
    let scene = Scene::open(server.port());
    let key = key("order:42");
    let [holder, first, second] = [1, 2, 3].map(|it| scene.owner(it));
    let request = AcquireRequest::new(&key, holder, TTL);
    let request = request.label("one@host/1").function("shop::settle");
    let granted = scene.store.acquire(request).await;
    let Ok(AcquireOutcome::Granted { fence, .. }) = granted else {
        panic!("it is free: {granted:?}");
    };
    for waiter in [first, second] {
        scene.wait(&key, waiter).await;
    }
    let ask = async |owner| {
        let request = AcquireRequest::new(&key, owner, TTL);
        match scene.store.acquire(request).await {
            Ok(AcquireOutcome::Busy(holder)) => holder,
            other => panic!("it is held: {other:?}"),
        }
    };
    for (owner, position) in [(first, Some(0)), (second, Some(1)), (scene.owner(4), None)] {
        let found = ask(owner).await;
        assert_eq!((found.fence, found.position), (fence, position));
        assert_eq!(found.label.as_deref(), Some("one@host/1"));
        assert_eq!(found.function.as_deref(), Some("shop::settle"));
        let rest = found.ttl.unwrap();
        assert!(rest <= TTL && rest > TTL / 2, "{rest:?}");
    }
    assert_eq!(claims(&server, &key).await.len(), 3, "one did not wait");
    let core = &scene.store.core;
    assert!(core.claims.is_unknown(&key, scene.owner(4)));
}

/// It is not known how long such a lease lasts.
#[tokio::test]
async fn a_place_with_the_lease_of_another_program_is_made_again() {
    let server = EtcdServer::start().await;
    let scene = Scene::open(server.port());
    let (key, waiter) = (key("order:42"), scene.owner(2));
    scene.hold(&key, scene.owner(1)).await;
    scene.wait(&key, waiter).await;
    let place = claims(&server, &key).await.remove(1);
    let (other, value) = (server.lease(600).await, server.get(&place).await.unwrap());
    assert!(server.put_with(&other, &place, &value).await);
    eventually(LONG, "it has the lease of waiters again", async || {
        scene.wait(&key, waiter).await;
        let lease = server.lease_of(&place).await;
        lease.is_some_and(|lease| lease != other)
    })
    .await;
    assert_eq!(claims(&server, &key).await.len(), 2);
}

#[tokio::test]
async fn a_claim_whose_own_key_was_written_by_another_program_names_it() {
    let server = EtcdServer::start().await;
    let scene = Scene::open(server.port());
    let (key, owner) = (key("order:42"), scene.owner(1));
    let name = format!("dlock/order:42/{owner}");
    server.put(&name, "mine").await;
    let error = scene.ask(&key, owner).await.unwrap_err();
    let text = format!("`{name}` was written by another program; delete that key");
    assert_eq!(error.message(), text);
}

#[tokio::test]
async fn readers_join_each_other_and_a_writer_waits_for_all() {
    let server = EtcdServer::start().await;
    let scene = Scene::open(server.port());
    let key = key("catalog:7");
    let readers = [1, 2, 3].map(|it| scene.owner(it));
    let mut fences = Vec::new();
    for reader in readers {
        fences.push(scene.share(&key, reader).await);
    }
    assert_eq!(fences, [fences[0]; 3], "broken promise: one epoch");
    let writer = scene.owner(4);
    scene.wait(&key, writer).await;
    let late = AcquireRequest::new(&key, scene.owner(5), TTL).mode(LockMode::Shared);
    let answer = scene.store.acquire(late).await;
    assert!(
        matches!(answer, Ok(AcquireOutcome::Busy(_))),
        "broken promise: it overtakes a waiter: {answer:?}"
    );
    for reader in readers {
        scene.wait(&key, writer).await;
        assert_eq!(scene.release(&key, reader).await, Released::WasHeld);
    }
    let fence = scene.hold(&key, writer).await;
    assert!(fence > fences[0], "broken promise: the fence did not grow");
    assert!(!scene.is_followed(&key), "it waits no more");
}

/// The deadline of a waiter is that of its last request: without a beat, nothing is known of its lease.
#[tokio::test]
async fn a_waiter_gets_an_error_while_its_place_is_not_kept() {
    let server = EtcdServer::start().await;
    let proxy = Proxy::start(server.port());
    let scene = Scene::with(proxy.port(), |options| {
        options.response_timeout = Duration::from_millis(500);
    });
    let other = Scene::open(server.port());
    let (key, waiter) = (key("order:42"), scene.owner(1));
    other.hold(&key, other.owner(1)).await;
    eventually(LONG, "it waits", async || {
        scene.ask(&key, waiter).await.is_ok()
    })
    .await;
    proxy.refuse();
    proxy.cut();
    eventually(LONG, "it is not answered", async || {
        scene.ask(&key, waiter).await.is_err()
    })
    .await;
    proxy.accept();
    eventually(LONG, "it waits again", async || {
        scene.ask(&key, waiter).await.is_ok()
    })
    .await;
}

/// As for a process with very many claims, which forgets those that have not been asked for in a while.
#[tokio::test]
async fn a_claim_that_was_forgotten_finds_its_key_and_holds() {
    let server = EtcdServer::start().await;
    let (key, owner) = (
        key("order:42"),
        OwnerId::new(ClientId::new(&SystemRandom), 1),
    );
    let (name, lease) = (format!("dlock/order:42/{owner}"), server.lease(600).await);
    let value = "1 100 exclusive - - - w1 -";
    assert!(server.put_with(&lease, &name, value).await);
    // A store that connects writes as well.
    let create = u64::try_from(server.revision().await).unwrap();
    let scene = Scene::open(server.port());
    let answer = scene
        .store
        .acquire(AcquireRequest::new(&key, owner, TTL))
        .await;
    assert_eq!(answer, Ok(AcquireOutcome::granted(100 + create)));
    assert_eq!(claim(&server, &key).await, name);
    assert_eq!(scene.release(&key, owner).await, Released::WasHeld);
}

/// The store's own connection, over which places are requested, knows only the base that it has read itself.
#[tokio::test]
async fn only_a_place_that_finds_no_gate_closes_it() {
    let server = EtcdServer::start().await;
    eventually(LONG, "the lease of the waiters lasts", async || {
        has_one_gate(&server).await
    })
    .await;
}

/// Returns `false` if the machine was so slow that the lease of the waiters ended.
async fn has_one_gate(server: &EtcdServer) -> bool {
    let (holder, waiters) = (Scene::open(server.port()), Scene::open(server.port()));
    let held = holder.owner(1);
    let key = key(&format!("order:{held}"));
    holder.hold(&key, held).await;
    let (core, conn) = (&waiters.store.core, waiters.conn().await);
    eventually(LONG, "callers have a connection", async || {
        let nearest = core.session.nearest().await.unwrap();
        !Arc::ptr_eq(&nearest, &conn)
    })
    .await;
    let waits = async |number: u64| {
        let answer = waiters.ask(&key, waiters.owner(number)).await;
        matches!(answer, Ok(AcquireOutcome::Busy(_)))
    };
    if !waits(1).await {
        return false;
    }
    let Ok(gate) = core.places.gate().await else {
        return false;
    };
    // Another connection has raised the base.
    let outdated = Some(base::Base {
        value: 1,
        modified: 1,
    });
    *conn.base.lock().unwrap() = outdated;
    let is_open = waits(2).await && core.places.gate().await == Ok(gate);
    let is_known = *conn.base.lock().unwrap() != outdated;
    server.delete("dlock//gate/").await;
    let is_replaced = waits(3).await
        && core
            .places
            .gate()
            .await
            .is_ok_and(|next| next.lease != gate.lease);
    is_open && is_known && is_replaced
}
