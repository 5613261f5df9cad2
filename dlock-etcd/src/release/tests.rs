//! Tests of releases, with a server.

use dlock_runtime::{
    clock::{Clock, SystemClock},
    store::LockStore,
};
use dlock_testkit::{EtcdServer, Proxy, eventually};
use futures_util::FutureExt;

use super::*;
use crate::{
    claims::Entered,
    leases::Lease,
    scene::{LONG, Scene, TTL, claim, claims, key},
};

/// A key with a claim of one process.
struct Held {
    server: EtcdServer,
    scene: Scene,
    key: LockKey,
    owner: OwnerId,
}

impl Held {
    async fn start() -> Self {
        let server = EtcdServer::start().await;
        let scene = Scene::open(server.port());
        let (key, owner) = (key("order:42"), scene.owner(1));
        scene.hold(&key, owner).await;
        Self {
            server,
            scene,
            key,
            owner,
        }
    }

    async fn claim(&self) -> Entered<'_> {
        let claims = &self.scene.store.core.claims;
        claims.enter(&self.key, self.owner).await
    }

    async fn release(&self) -> Released {
        self.scene.release(&self.key, self.owner).await
    }

    /// Another lease, as the server knows it.
    async fn lease(&self) -> Lease {
        let id = self.scene.conn().await.grant(600).await.unwrap();
        let conn = self.scene.conn().await.number();
        Lease {
            id,
            seconds: 600,
            is_shared: false,
            conn,
        }
    }

    /// A key could still be created with this lease.
    async fn is_alive(&self, lease: i64) -> bool {
        let id = lease.to_string();
        self.server.put_with(&id, "elsewhere", "1").await
    }

    /// The lease that the next claim of this TTL would use again.
    async fn idle(&self) -> Option<i64> {
        let (conn, now) = (self.scene.conn().await, SystemClock.now());
        let seconds = i64::try_from(TTL.as_secs()).unwrap();
        let taken = self.scene.store.core.leases.take(&conn, seconds, now).await;
        let taken = taken.unwrap();
        (!taken.is_new).then_some(taken.lease.id)
    }
}

#[tokio::test]
async fn a_release_says_whether_its_claim_held_the_key() {
    let held = Held::start().await;
    let others = Scene::open(held.server.port());
    let [first, second, third] = [1, 2, 3].map(|it| others.owner(it));
    for waiter in [first, second, third] {
        others.wait(&held.key, waiter).await;
    }
    assert_eq!(others.release(&held.key, second).await, Released::WasGone);
    assert_eq!(others.release(&held.key, second).await, Released::WasGone);
    others.blind(&held.key);
    assert_eq!(held.release().await, Released::WasHeld);
    assert_eq!(held.release().await, Released::WasGone);
    // Nothing has said so to this process, but it holds the key.
    assert_eq!(others.release(&held.key, first).await, Released::WasHeld);
    assert_eq!(others.release(&held.key, third).await, Released::WasHeld);
    assert_eq!(claims(&held.server, &held.key).await, [""; 0]);
}

/// There may be many waiters in it.
#[tokio::test]
async fn a_claim_that_is_known_to_hold_is_released_without_a_look_at_its_queue() {
    let server = EtcdServer::start().await;
    let proxy = Proxy::start(server.port());
    let scene = Scene::open(proxy.port());
    let (key, owner) = (key("order:42"), scene.owner(1));
    scene.hold(&key, owner).await;
    let end = String::from_utf8(scene.store.core.names(key.as_str(), owner).all.1).unwrap();
    proxy.cut_before_request(&end);
    assert_eq!(scene.release(&key, owner).await, Released::WasHeld);
    assert!(proxy.is_trap_set());
}

#[tokio::test]
async fn a_release_ends_only_the_key_that_its_claim_has_created() {
    let held = Held::start().await;
    let name = claim(&held.server, &held.key).await;
    let value = held.server.get(&name).await.unwrap();
    let lease = held.server.lease_of(&name).await.unwrap();
    held.server.delete(&name).await;
    assert!(held.server.put_with(&lease, &name, &value).await);
    assert_eq!(held.release().await, Released::WasGone);
    assert_eq!(claim(&held.server, &held.key).await, name);
    // It names a key, so no other claim may have it.
    assert_eq!(held.idle().await, None);
}

#[tokio::test]
async fn the_lease_of_a_claim_is_used_again_after_its_release() {
    let held = Held::start().await;
    let lease = held.claim().await.place.as_ref().unwrap().lease;
    assert_eq!(held.release().await, Released::WasHeld);
    assert_eq!(held.idle().await, Some(lease.id));
}

/// It may be on its way still, and compares nothing.
#[tokio::test]
async fn a_lease_is_not_used_again_after_a_deletion_that_may_arrive_late() {
    let held = Held::start().await;
    held.claim().await.is_bare = true;
    assert_eq!(held.release().await, Released::WasHeld);
    assert_eq!(held.idle().await, None);
}

/// A request that names a lease may be carried out after the release.
#[tokio::test]
async fn a_release_ends_each_lease_of_which_a_request_got_no_answer() {
    let held = Held::start().await;
    let [one, other] = [held.lease().await, held.lease().await];
    let own = {
        let mut claim = held.claim().await;
        claim.doubt(one);
        claim.doubt(other);
        claim.place.as_ref().unwrap().lease
    };
    assert_eq!(held.release().await, Released::WasHeld);
    for lease in [one, other, own] {
        assert!(!held.is_alive(lease.id).await, "{lease:?}");
    }
    assert_eq!(claims(&held.server, &held.key).await, [""; 0]);
    assert_eq!(held.idle().await, None);
}

#[tokio::test]
async fn a_release_finds_the_key_of_a_request_without_an_answer() {
    for is_there in [true, false] {
        let held = Held::start().await;
        let lease = {
            let mut claim = held.claim().await;
            let place = claim.place.take().unwrap();
            claim.doubt(place.lease);
            place.lease
        };
        if !is_there {
            let name = claim(&held.server, &held.key).await;
            held.server.delete(&name).await;
        }
        let expected = if is_there {
            Released::WasHeld
        } else {
            Released::WasGone
        };
        assert_eq!(held.release().await, expected);
        assert_eq!(claims(&held.server, &held.key).await, [""; 0]);
        assert!(!held.is_alive(lease.id).await);
    }
}

/// The lease of waiters goes on, so the gate is what stops a request for a place that arrives late.
#[tokio::test]
async fn a_release_closes_the_gate_of_a_request_for_a_place_without_an_answer() {
    for is_there in [true, false] {
        let held = Held::start().await;
        let others = Scene::open(held.server.port());
        let waiter = others.owner(1);
        others.wait(&held.key, waiter).await;
        let core = &others.store.core;
        let gate = core.places.gate().await.unwrap();
        {
            let mut claim = core.claims.enter(&held.key, waiter).await;
            let place = claim.place.take().unwrap();
            assert!(place.lease.is_shared);
            claim.doubt(place.lease);
        }
        if !is_there {
            let place = claims(&held.server, &held.key).await.remove(1);
            held.server.delete(&place).await;
        }
        assert_eq!(others.release(&held.key, waiter).await, Released::WasGone);
        assert_eq!(claims(&held.server, &held.key).await.len(), 1);
        assert_eq!(held.server.keys("dlock//gate/").await, [""; 0]);
        assert!(held.is_alive(gate.lease).await, "that of other waiters");
        let next = core.places.gate().await.unwrap();
        assert_ne!(next.lease, gate.lease);
    }
}

/// A request of the same claim was under way, and has noted that it waits.
#[tokio::test]
async fn a_waiter_whose_release_has_failed_is_still_to_be_removed() {
    let held = Held::start().await;
    let proxy = Proxy::start(held.server.port());
    let others = Scene::open(proxy.port());
    let waiter = others.owner(1);
    others.wait(&held.key, waiter).await;
    let core = &others.store.core;
    let entered = core.claims.enter(&held.key, waiter).await;
    let request = ReleaseRequest::new(&held.key, waiter);
    let mut release = Box::pin(others.store.release(request));
    assert!(release.as_mut().now_or_never().is_none(), "one at a time");
    let has_quit = || core.follow.with(&held.key, |it| it.has_quit(waiter));
    assert_eq!(has_quit(), Some(true));
    let lease = core.follow.with(&held.key, |it| it.lease_of(waiter));
    let lease = lease.flatten().unwrap();
    core.follow
        .with(&held.key, |it| it.ask(waiter, lease, SystemClock.now()));
    proxy.refuse();
    proxy.cut();
    drop(entered);
    assert!(release.await.is_err());
    assert_eq!(has_quit(), Some(true));
    proxy.accept();
    eventually(LONG, "a beat removes it", async || {
        claims(&held.server, &held.key).await.len() == 1
    })
    .await;
}

/// The owner of a place that was of no use may ask again.
#[tokio::test]
async fn an_end_without_an_answer_is_repeated_before_its_owner_has_another_place() {
    let held = Held::start().await;
    let proxy = Proxy::start(held.server.port());
    let others = Scene::open(proxy.port());
    let waiter = others.owner(1);
    others.wait(&held.key, waiter).await;
    let core = &others.store.core;
    let names = core.names(held.key.as_str(), waiter);
    proxy.cut_before_request(&waiter.to_string());
    {
        let mut claim = core.claims.enter(&held.key, waiter).await;
        let (conn, id) = (others.conn().await, (&held.key, waiter));
        let ended = core.end(&conn, &mut claim, &names, id, End::Displaced);
        assert!(ended.await.is_err() && !proxy.is_trap_set());
        assert!(claim.is_ending && claim.place.is_some());
    }
    let before = claims(&held.server, &held.key).await;
    let created = || core.claims.known(&held.key, waiter).map(|it| it.0);
    let first = created();
    let mut without_answer = 0;
    eventually(LONG, "it waits again", async || {
        let asked = others.ask(&held.key, waiter).await;
        let is_lost = asked.as_ref().is_err_and(|it| !it.has_no_effect());
        without_answer += usize::from(is_lost);
        asked.is_ok()
    })
    .await;
    assert_eq!(claims(&held.server, &held.key).await, before);
    assert!(created() > first, "with another key");
    let claim = core.claims.enter(&held.key, waiter).await;
    assert!(!claim.is_ending && claim.unsettled.len() <= without_answer);
}

#[tokio::test]
async fn an_empty_claim_ends_without_a_request() {
    let held = Held::start().await;
    let core = &held.scene.store.core;
    let other = held.scene.owner(2);
    let queue = (Queue::default(), 1);
    let now = SystemClock.now();
    core.follow.wait((&held.key, other), 7, queue, now, now);
    let names = core.names(held.key.as_str(), other);
    let conn = held.scene.conn().await;
    let mut claim = core.claims.enter(&held.key, other).await;
    claim.is_ending = true;
    claim.named_by = Some(7);
    let id = (&held.key, other);
    let ended = core.end(&conn, &mut claim, &names, id, End::Displaced);
    assert_eq!(ended.await, Ok(Released::WasGone));
    assert!(!claim.is_ending && claim.named_by.is_none());
    assert!(!held.scene.is_followed(&held.key));
    assert_eq!(claims(&held.server, &held.key).await.len(), 1);
}
