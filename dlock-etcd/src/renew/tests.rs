//! Tests of renewals, most of them with a server.

use dlock_runtime::{
    LockKey,
    random::SystemRandom,
    store::{
        AcquireOutcome, AcquireRequest, LockStore, OwnerId, ReleaseRequest, Released, StoreOptions,
    },
};
use dlock_testkit::{EtcdOptions, EtcdServer, Proxy, eventually};
use futures_util::FutureExt;

use super::*;
use crate::{
    EtcdStore,
    claims::Place,
    leases::Lease,
    places::shared,
    scene::{LONG, Scene, TTL, claim, claims, key},
};

#[tokio::test]
async fn a_lease_is_lost_only_if_its_key_is_gone() {
    let mut claim = Claim::default();
    assert_eq!(not_held(&claim), Ok(Renewal::NotOwner));
    claim.place = Some(Place {
        create: 5,
        base: 100,
        mode: dlock_runtime::LockMode::Shared,
        lease: Lease {
            id: 7,
            seconds: 10,
            is_shared: false,
            conn: 1,
        },
        held: Some(105),
        label: None,
        function: None,
        since: SystemClock.now(),
    });
    let error = not_held(&claim).unwrap_err();
    let text = "the claims on the key changed with every attempt; the renewal is repeated";
    assert_eq!(error.message(), text);
    assert!(!error.has_no_effect());
}

#[tokio::test]
async fn a_claim_of_which_nothing_is_known_needs_no_connection_to_be_lost() {
    let store = EtcdStore::open("etcd://127.0.0.1:1", &StoreOptions::default()).unwrap();
    let (key, owner) = (
        key("order:42"),
        OwnerId::new(dlock_runtime::store::ClientId::new(&SystemRandom), 1),
    );
    let renewal = RenewRequest::new(&key, owner, TTL);
    assert_eq!(store.renew_one(renewal).await, Ok(Renewal::NotOwner));
    let release = ReleaseRequest::new(&key, owner);
    assert_eq!(store.release(release).await, Ok(Released::WasGone));
}

/// A holder, and its key in etcd.
struct Held {
    server: EtcdServer,
    scene: Scene,
    key: LockKey,
    owner: OwnerId,
    name: String,
    fence: u64,
}

impl Held {
    async fn start() -> Self {
        let server = EtcdServer::start().await;
        let scene = Scene::open(server.port());
        let (key, owner) = (key("order:42"), scene.owner(1));
        let fence = scene.hold(&key, owner).await;
        Self {
            name: claim(&server, &key).await,
            server,
            scene,
            key,
            owner,
            fence,
        }
    }

    async fn claim(&self) -> Entered<'_> {
        let claims = &self.scene.store.core.claims;
        claims.enter(&self.key, self.owner).await
    }

    async fn renew(&self, ttl: Duration) -> Result<Renewal, StoreError> {
        let renewal = RenewRequest::new(&self.key, self.owner, ttl);
        self.scene.store.renew_one(renewal).await
    }

    /// Writes the key as it was, with this lease.
    async fn put_with(&self, lease: &str) {
        let value = self.server.get(&self.name).await.unwrap();
        assert!(self.server.put_with(lease, &self.name, &value).await);
    }
}

/// As for a moment after the end of a lease: the key is still there. The second TTL is not that of the claim.
#[tokio::test]
async fn a_renewal_counts_only_if_its_lease_was_alive() {
    for ttl in [TTL, TTL / 2] {
        let held = Held::start().await;
        // There is no lease with this number.
        held.put_with("0").await;
        held.claim().await.place.as_mut().unwrap().lease.id = 0;
        assert_eq!(held.renew(ttl).await, Ok(Renewal::NotOwner), "{ttl:?}");
        let core = &held.scene.store.core;
        assert!(core.claims.is_unknown(&held.key, held.owner), "{ttl:?}");
    }
}

#[tokio::test]
async fn a_renewal_counts_only_if_its_key_is_the_one_that_was_created() {
    for ttl in [TTL, TTL / 2] {
        let held = Held::start().await;
        let lease = held.server.lease_of(&held.name).await.unwrap();
        let value = held.server.get(&held.name).await.unwrap();
        held.server.delete(&held.name).await;
        assert!(held.server.put_with(&lease, &held.name, &value).await);
        assert_eq!(held.renew(ttl).await, Ok(Renewal::NotOwner), "{ttl:?}");
        assert_eq!(claim(&held.server, &held.key).await, held.name);
    }
}

#[tokio::test]
async fn a_key_with_another_lease_is_renewed_by_the_next_request() {
    let held = Held::start().await;
    let other = held.server.lease(60).await;
    held.put_with(&other).await;
    let error = held.renew(TTL).await.unwrap_err();
    let text = "the key has another lease than its claim; the renewal is repeated";
    assert_eq!(error.message(), text);
    assert!(!error.has_no_effect());
    assert_eq!(held.renew(TTL).await, Ok(Renewal::Renewed));
    assert_ne!(held.server.lease_of(&held.name).await, Some(other));
}

#[tokio::test]
async fn a_renewed_lease_is_as_old_as_its_renewal() {
    let held = Held::start().await;
    let (since, until) = {
        let claim = held.claim().await;
        (claim.place.as_ref().unwrap().since, claim.until.unwrap())
    };
    for ttl in [TTL, TTL / 2] {
        let before = SystemClock.now();
        assert!(before.monotonic > since.monotonic);
        assert_eq!(held.renew(ttl).await, Ok(Renewal::Renewed));
        let claim = held.claim().await;
        let place = claim.place.as_ref().unwrap();
        assert!(place.since.monotonic >= before.monotonic, "{ttl:?}");
        assert!(claim.until.unwrap() > until, "{ttl:?}");
        assert_eq!(place.held, Some(held.fence), "{ttl:?}");
    }
}

#[tokio::test]
async fn each_of_many_renewals_has_an_answer_of_its_own() {
    let server = EtcdServer::start().await;
    let scene = Scene::open(server.port());
    let keys: Vec<_> = (0..250).map(|it| key(&format!("order:{it:03}"))).collect();
    let owner = scene.owner(1);
    let held = keys.iter().map(|key| scene.hold(key, owner));
    join_all(held).await;
    let gone = [7, 100, 249];
    for number in gone {
        server.delete(&format!("dlock/order:{number:03}/")).await;
    }
    // One of them is not plain, and nothing is known of another one.
    let requests: Vec<_> = keys
        .iter()
        .enumerate()
        .map(|(number, key)| match number {
            8 => RenewRequest::new(key, owner, TTL / 2),
            9 => RenewRequest::new(key, scene.owner(2), TTL),
            _ => RenewRequest::new(key, owner, TTL),
        })
        .collect();
    let renewed = scene.store.renew(RenewBatch::new(&requests)).await;
    assert_eq!(renewed.len(), keys.len());
    for (number, renewed) in renewed.into_iter().enumerate() {
        let expected = if gone.contains(&number) || number == 9 {
            Renewal::NotOwner
        } else {
            Renewal::Renewed
        };
        assert_eq!(renewed, Ok(expected), "{number}");
    }
}

#[tokio::test]
async fn renewals_without_an_answer_end_with_the_limit_of_their_batch() {
    let server = EtcdServer::start().await;
    let proxy = Proxy::start(server.port());
    let scene = Scene::open(proxy.port());
    let keys = [key("order:1"), key("order:2")];
    let owner = scene.owner(1);
    for key in &keys {
        scene.hold(key, owner).await;
    }
    proxy.freeze();
    let requests = [
        RenewRequest::new(&keys[0], owner, TTL),
        RenewRequest::new(&keys[1], owner, TTL / 2),
    ];
    let limit = Duration::from_millis(100);
    let batch = RenewBatch::new(&requests).limit(limit);
    let renewed = scene.store.renew(batch).await;
    let late = Err(StoreError::timed_out(limit));
    assert_eq!(renewed, [late.clone(), late]);
    proxy.thaw();
    let renewed = scene.store.renew(RenewBatch::new(&requests)).await;
    assert_eq!(renewed, [Ok(Renewal::Renewed), Ok(Renewal::Renewed)]);
}

#[tokio::test]
async fn only_a_new_label_or_function_is_written() {
    let held = Held::start().await;
    for (label, function, is_written) in [
        ("", "", false),
        ("one@host/1", "", true),
        ("one@host/1", "", false),
        ("one@host/1", "shop::settle", true),
        ("", "shop::settle", false),
        ("", "", false),
        ("two@host/2", "shop::settle", true),
        ("two@host/2", "shop::refund", true),
    ] {
        let before = held.server.revision().await;
        let renewal = RenewRequest::new(&held.key, held.owner, TTL);
        let renewal = renewal.label(label).function(function);
        let renewed = held.scene.store.renew_one(renewal).await;
        assert_eq!(renewed, Ok(Renewal::Renewed));
        let grown = held.server.revision().await > before;
        assert_eq!(grown, is_written, "{label} {function}");
    }
    let value = held.server.get(&held.name).await.unwrap();
    assert!(value.contains(" two@host/2 shop::refund "), "{value}");
}

/// The renewer asks while another request of the claim is under way.
#[tokio::test]
async fn a_renewal_that_has_to_wait_writes_nothing_either() {
    let held = Held::start().await;
    let before = held.server.revision().await;
    let claim = held.claim().await;
    let mut renewal = Box::pin(held.renew(TTL));
    assert!(renewal.as_mut().now_or_never().is_none(), "one at a time");
    drop(claim);
    assert_eq!(renewal.await, Ok(Renewal::Renewed));
    assert_eq!(held.server.revision().await, before);
}

#[tokio::test]
async fn a_claim_that_is_to_be_deleted_is_not_renewed() {
    let held = Held::start().await;
    {
        let mut claim = held.claim().await;
        claim.is_ending = true;
        claim.place.as_mut().unwrap().held = None;
    }
    assert_eq!(held.renew(TTL).await, Ok(Renewal::NotOwner));
    assert_eq!(claims(&held.server, &held.key).await, [""; 0]);
}

/// As after a request of which nothing is known but that it was sent.
#[tokio::test]
async fn a_renewal_finds_what_a_request_without_an_answer_has_done() {
    let held = Held::start().await;
    {
        let mut claim = held.claim().await;
        let place = claim.place.take().unwrap();
        claim.doubt(place.lease);
    }
    assert_eq!(held.renew(TTL).await, Ok(Renewal::Renewed));
    assert_eq!(claim(&held.server, &held.key).await, held.name);
    let again = held.scene.hold(&held.key, held.owner).await;
    assert_eq!(again, held.fence, "broken promise: it has another lease");
}

#[tokio::test]
async fn a_waiter_is_not_renewed_until_it_holds_the_key() {
    let held = Held::start().await;
    let other = Scene::open(held.server.port());
    let waiter = other.owner(1);
    other.wait(&held.key, waiter).await;
    let place = claims(&held.server, &held.key).await.remove(1);
    let lease = held.server.lease_of(&place).await;
    assert_eq!(other.renew(&held.key, waiter).await, Ok(Renewal::NotOwner));
    assert!(other.is_followed(&held.key), "it waits still");
    assert_eq!(
        held.scene.release(&held.key, held.owner).await,
        Released::WasHeld
    );
    assert_eq!(other.renew(&held.key, waiter).await, Ok(Renewal::Renewed));
    assert!(!other.is_followed(&held.key), "it is a holder");
    assert_eq!(claim(&held.server, &held.key).await, place);
    assert_ne!(held.server.lease_of(&place).await, lease, "that of waiters");
}

/// Its watch has ended when it was notified of its grant.
#[tokio::test]
async fn a_waiter_whose_key_is_gone_is_followed_no_longer() {
    let held = Held::start().await;
    let other = Scene::open(held.server.port());
    let waiter = other.owner(1);
    other.wait(&held.key, waiter).await;
    other.blind(&held.key);
    let place = claims(&held.server, &held.key).await.remove(1);
    held.server.delete(&place).await;
    assert_eq!(other.renew(&held.key, waiter).await, Ok(Renewal::NotOwner));
    assert!(!other.is_followed(&held.key));

    // One of which a request may still be carried out is not forgotten.
    other.wait(&held.key, waiter).await;
    other.blind(&held.key);
    {
        let claims = &other.store.core.claims;
        claims.enter(&held.key, waiter).await.doubt(shared(7));
    }
    let place = claims(&held.server, &held.key).await.remove(1);
    held.server.delete(&place).await;
    assert_eq!(other.renew(&held.key, waiter).await, Ok(Renewal::NotOwner));
    assert!(other.is_followed(&held.key));
}

#[tokio::test]
async fn a_lease_that_its_key_has_exchanged_is_used_again_unless_it_names_the_key() {
    let held = Held::start().await;
    let (core, conn) = (&held.scene.store.core, held.scene.conn().await);
    let renewal = RenewRequest::new(&held.key, held.owner, TTL).label("one@host/1");
    let renewed = held.scene.store.renew_one(renewal).await;
    assert_eq!(renewed, Ok(Renewal::Renewed));
    let mut leases = Vec::new();
    for ttl in [TTL, TTL / 2, TTL] {
        assert_eq!(held.renew(ttl).await, Ok(Renewal::Renewed));
        leases.push(held.claim().await.place.as_ref().unwrap().lease);
    }
    let [first, second, third] = leases[..] else {
        panic!("three leases: {leases:?}");
    };
    assert_ne!(first.id, third.id);
    let taken = core.leases.take(&conn, second.seconds, SystemClock.now());
    let taken = taken.await.unwrap();
    assert!(!taken.is_new && taken.lease == second);
    let taken = core.leases.take(&conn, first.seconds, SystemClock.now());
    assert!(taken.await.unwrap().is_new, "the first names the key");
    let value = held.server.get(&held.name).await.unwrap();
    assert!(value.contains(" one@host/1 "), "{value}");
    assert_eq!(held.scene.hold(&held.key, held.owner).await, held.fence);
}

/// etcd refuses requests of more than 1.5 MiB.
#[tokio::test]
async fn a_renewal_that_is_refused_changes_nothing() {
    let held = Held::start().await;
    let (core, conn) = (&held.scene.store.core, held.scene.conn().await);
    let before = held.claim().await.place.as_ref().unwrap().lease;
    let label = "x".repeat(1_750_000);
    for ttl in [TTL, TTL / 2] {
        let renewal = RenewRequest::new(&held.key, held.owner, ttl).label(&label);
        let error = held.scene.store.renew_one(renewal).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Refused, "{ttl:?}: {error}");
        assert!(error.has_no_effect(), "{ttl:?}");
        let claim = held.claim().await;
        assert_eq!(claim.unsettled, []);
        let place = claim.place.as_ref().unwrap();
        let found = (place.lease, place.held);
        assert_eq!(found, (before, Some(held.fence)), "{ttl:?}");
    }
    // The second one was for another lease, which no key has got. That of the claim is in use.
    for (ttl, is_new) in [(TTL / 2, false), (TTL, true)] {
        let taken = core.leases.take(&conn, seconds(ttl), SystemClock.now());
        assert_eq!(taken.await.unwrap().is_new, is_new, "{ttl:?}");
    }
    assert_eq!(held.renew(TTL).await, Ok(Renewal::Renewed));
    let lease = held.server.lease_of(&held.name).await;
    assert_eq!(lease, Some(before.id.to_string()));
}

/// The queue was read before its last change.
#[tokio::test]
async fn a_claim_whose_queue_has_changed_tries_again_with_the_same_lease() {
    for (ttl, expected) in [(TTL, 0), (TTL / 2, 1)] {
        let held = Held::start().await;
        let (core, conn) = (&held.scene.store.core, held.scene.conn().await);
        let granted = async || held.server.messages().await["LeaseGrant"];
        let names = core.names(held.key.as_str(), held.owner);
        let mut claim = held.claim().await;
        let looked = core.look(&conn, &mut claim, &names).await.unwrap();
        let (queue, ..) = looked.expect("its key is there");
        let lease = claim.place.as_ref().unwrap().lease;
        held.put_with(&lease.id.to_string()).await;
        let before = granted().await;
        let wish = Wish {
            seconds: seconds(ttl),
            label: "late@host/1",
            function: "",
        };
        let queue = ((&held.key, held.owner), queue);
        let settled = core.settle(&conn, &mut claim, &names, queue, wish).await;
        assert_eq!(settled, Ok(Some(held.fence)), "{ttl:?}");
        assert_eq!(granted().await - before, expected, "{ttl:?}");
        assert_eq!(claim.unsettled, []);
        let place = claim.place.as_ref().unwrap();
        assert_eq!(place.lease == lease, ttl == TTL, "{ttl:?}");
        assert_eq!(place.held, Some(held.fence), "{ttl:?}");
        let value = held.server.get(&held.name).await.unwrap();
        assert!(value.contains(" late@host/1 "), "{value}");
        // The first lease names the key, and may still be that of it.
        let taken = core.leases.take(&conn, lease.seconds, SystemClock.now());
        assert!(taken.await.unwrap().is_new, "{ttl:?}");
    }
}

#[tokio::test]
async fn a_key_of_which_the_lease_is_not_known_is_looked_at_again() {
    let server = EtcdServer::start().await;
    let proxy = Proxy::start(server.port());
    let scene = Scene::open(proxy.port());
    let (key, owner) = (key("order:42"), scene.owner(1));
    let fence = scene.hold(&key, owner).await;
    let core = &scene.store.core;
    let known = async || {
        let claim = core.claims.enter(&key, owner).await;
        let unsettled: Vec<_> = claim.unsettled.iter().map(|it| it.id).collect();
        (claim.place.as_ref().map(|it| it.lease.id), unsettled)
    };
    let (first, _) = known().await;
    proxy.cut_before_request("late@host/1");
    let renewal = RenewRequest::new(&key, owner, TTL / 2).label("late@host/1");
    let renewed = scene.store.renew_one(renewal).await;
    assert!(renewed.is_err() && !proxy.is_trap_set(), "{renewed:?}");
    let (place, unsettled) = known().await;
    assert_eq!((place, unsettled.len()), (None, 2));
    assert_eq!(unsettled.first().copied(), first);
    eventually(LONG, "it is renewed", async || {
        scene.store.renew_one(renewal).await == Ok(Renewal::Renewed)
    })
    .await;
    let again = AcquireRequest::new(&key, owner, TTL / 2);
    let again = scene.store.acquire(again).await;
    assert_eq!(again, Ok(AcquireOutcome::granted(fence)));
    assert_eq!(scene.release(&key, owner).await, Released::WasHeld);
    for lease in unsettled {
        let lease = lease.to_string();
        assert!(!server.put_with(&lease, "elsewhere", "1").await);
    }
}

/// Otherwise, a later release could not use the lease of the claim again.
#[tokio::test]
async fn a_claim_whose_label_a_full_database_refuses_has_no_request_that_may_arrive() {
    let quota = "--quota-backend-bytes=1048576";
    let server = EtcdServer::start_with(EtcdOptions::new().argument(quota)).await;
    let scene = Scene::open(server.port());
    let (key, owner) = (key("order:42"), scene.owner(1));
    scene.hold(&key, owner).await;
    let claims = &scene.store.core.claims;
    let lease = async || {
        let claim = claims.enter(&key, owner).await;
        assert_eq!(claim.unsettled, []);
        claim.place.as_ref().map(|it| it.lease)
    };
    let before = lease().await;
    server.fill().await;
    let renewal = RenewRequest::new(&key, owner, TTL).label("late@host/1");
    let renewed = scene.store.renew_one(renewal).await;
    assert_eq!(renewed, Ok(Renewal::Renewed));
    assert!(before.is_some() && lease().await == before);
}

/// Its key has the lease of waiters, and would end with them.
#[tokio::test]
async fn a_full_database_renews_no_waiter_that_has_no_lease_of_its_own() {
    let quota = "--quota-backend-bytes=1048576";
    let server = EtcdServer::start_with(EtcdOptions::new().argument(quota)).await;
    let (one, other) = (Scene::open(server.port()), Scene::open(server.port()));
    let (key, holder, waiter) = (key("order:42"), one.owner(1), other.owner(1));
    one.hold(&key, holder).await;
    other.wait(&key, waiter).await;
    let follow = &other.store.core.follow;
    let lease = follow.with(&key, |it| it.lease_of(waiter)).flatten();
    // It is not silent, however long the rest takes.
    let later = SystemClock.now().plus(10 * LONG);
    follow.with(&key, |it| it.ask(waiter, lease.unwrap(), later));
    server.fill().await;
    assert_eq!(one.release(&key, holder).await, Released::WasHeld);
    let error = other.renew(&key, waiter).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::OutOfMemory, "{error}");
}

/// Otherwise they would be answered from a queue that is older than what their process knows.
#[tokio::test]
async fn waiters_of_the_same_process_know_of_each_change_by_its_holder() {
    let held = Held::start().await;
    let (scene, key) = (&held.scene, &held.key);
    let waiter = scene.owner(2);
    scene.wait(key, waiter).await;
    scene.blind(key);
    let follow = &scene.store.core.follow;
    let lease = follow.with(key, |it| it.lease_of(waiter)).flatten();
    // It is not silent, however long the rest takes.
    let later = SystemClock.now().plus(10 * LONG);
    follow.with(key, |it| it.ask(waiter, lease.unwrap(), later));
    let knows_more_than = |revision| follow.with(key, |it| it.is_ahead(revision));

    let before = held.server.revision().await;
    let renewal = RenewRequest::new(key, held.owner, TTL).label("one@host/1");
    let renewed = scene.store.renew_one(renewal).await;
    assert_eq!(renewed, Ok(Renewal::Renewed));
    assert_eq!(knows_more_than(before), Some(true), "of the label");
    let before = held.server.revision().await;
    assert_eq!(scene.release(key, held.owner).await, Released::WasHeld);
    assert_eq!(knows_more_than(before), Some(true), "of the release");
}
