//! Tests of beats, with a server.

use std::sync::Arc;

use dlock_runtime::{
    random::SystemRandom,
    store::{
        ALIVE, AcquireOutcome, AcquireRequest, ClientId, Hint, HintReceiver, HintSink, LockStore,
        Queue as Queueing, ReleaseRequest, RenewBatch, RenewRequest, Renewal, StoreOptions,
    },
};
use dlock_testkit::{EtcdServer, eventually, within};
use tokio::sync::mpsc;

use super::*;
use crate::{
    EtcdStore,
    places::shared,
    scene::{Scene, ago, claims, key},
};

pub(crate) const LONG: Duration = Duration::from_secs(60);
pub(crate) const TTL: Duration = Duration::from_secs(120);

pub(crate) struct Heard(pub(crate) mpsc::UnboundedSender<u64>);

impl HintReceiver for Heard {
    fn hint(&self, hint: &Hint<'_>) -> bool {
        self.0.send(hint.fence).is_ok()
    }

    fn look_again(&self) -> bool {
        true
    }
}

pub(crate) fn open(server: &EtcdServer) -> EtcdStore {
    let mut options = StoreOptions::default();
    options.response_timeout = LONG;
    EtcdStore::open(&server.url(), &options).unwrap()
}

/// The watch has ended without a word, as one whose events the server has lost.
#[tokio::test]
async fn a_grant_that_no_watch_reports_is_found_by_the_next_beat() {
    let server = EtcdServer::start().await;
    eventually(LONG, "a grant that lasts", async || is_found(&server).await).await;
}

/// Returns `false` if the machine was so slow that the waiter was silent for too long.
async fn is_found(server: &EtcdServer) -> bool {
    let (holder, waiter) = (open(server), open(server));
    let client = ClientId::new(&SystemRandom);
    let (send, mut heard) = mpsc::unbounded_channel();
    let hooks = waiter.properties().hooks.unwrap();
    hooks.attach(client, HintSink::new(Arc::new(Heard(send))));
    let (held, waits) = (
        OwnerId::new(ClientId::new(&SystemRandom), 1),
        OwnerId::new(client, 1),
    );
    let key = LockKey::new(format!("order:{waits}")).unwrap();
    let granted = holder.acquire(AcquireRequest::new(&key, held, TTL)).await;
    assert!(matches!(granted, Ok(AcquireOutcome::Granted { .. })));
    let request = AcquireRequest::new(&key, waits, TTL).queue(Queueing::ForLease);
    let asked = Instant::now();
    let answer = waiter.acquire(request).await;
    assert!(
        matches!(answer, Ok(AcquireOutcome::Busy(_))),
        "broken promise: two hold the key: {answer:?}"
    );
    let stopped = waiter.core.follow.with(&key, |followed| {
        followed.task.as_ref().map(|task| task.handle.abort())
    });
    assert_eq!(stopped, Some(Some(())));
    holder
        .release(ReleaseRequest::new(&key, held))
        .await
        .unwrap();
    let fence = within(LONG / 4, heard.recv()).await.flatten();
    let answer = waiter.acquire(request).await;
    let is_found = fence.is_some_and(|it| it > 0 && answer == Ok(AcquireOutcome::granted(it)));
    let is_late = asked.elapsed() > ALIVE;
    assert!(is_found || is_late, "{fence:?}, {answer:?}");
    waiter
        .release(ReleaseRequest::new(&key, waits))
        .await
        .unwrap();
    is_found
}

#[tokio::test]
async fn a_beat_reads_all_queues_at_once_where_that_crashes_no_member() {
    let server = EtcdServer::start().await;
    let (holder, waiter) = (open(&server), open(&server));
    let client = ClientId::new(&SystemRandom);
    let keys = [1, 2, 3].map(|it| LockKey::new(format!("order:{it}")).unwrap());
    let owner = |number| OwnerId::new(client, number);
    for (number, key) in (1..).zip(&keys) {
        let ask = async |store: &EtcdStore, number| {
            let request = AcquireRequest::new(key, owner(number), TTL);
            store.acquire(request.queue(Queueing::ForLease)).await
        };
        let held = ask(&holder, number).await;
        assert!(matches!(held, Ok(AcquireOutcome::Granted { .. })));
        let waits = ask(&waiter, 10 + number).await;
        assert!(
            matches!(waits, Ok(AcquireOutcome::Busy(_))),
            "broken promise: two hold the key"
        );
    }
    waiter.core.session.conn().await.unwrap().met("3.5.7");
    let transactions = async || server.messages().await.get("Txn").copied();
    // Beside the beats of the store, which send as much.
    let before = transactions().await;
    waiter.core.keep_alive().await.unwrap();
    assert!(transactions().await > before);

    // Renewals are read in the same way.
    holder.core.session.conn().await.unwrap().met("3.5.7");
    let gone = server.keys("dlock/order:2/").await.remove(0);
    server.delete(&gone).await;
    let requests: Vec<_> = (1..)
        .zip(&keys)
        .map(|(number, key)| RenewRequest::new(key, owner(number), TTL))
        .collect();
    let before = transactions().await;
    let renewed = holder.renew(RenewBatch::new(&requests)).await;
    assert!(transactions().await > before);
    let [held, lost] = [Ok(Renewal::Renewed), Ok(Renewal::NotOwner)];
    assert_eq!(renewed, [held.clone(), lost, held]);
}

/// A process with very many claims forgets those that have not been asked for in a while.
async fn forget(store: &EtcdStore, key: &LockKey, owners: &[OwnerId]) {
    let claims = &store.core.claims;
    for owner in owners {
        claims.enter(key, *owner).await.until = Some(Instant::now());
    }
    let client = ClientId::new(&SystemRandom);
    for number in 1.. {
        let other = OwnerId::new(client, number);
        claims.enter(key, other).await.doubt(shared(1));
        if owners.iter().all(|owner| claims.is_unknown(key, *owner)) {
            return;
        }
    }
}

#[tokio::test]
async fn the_place_of_a_forgotten_claim_ends_with_its_waiter() {
    let server = EtcdServer::start().await;
    let (holder, waiter) = (open(&server), open(&server));
    let key = LockKey::new("order:42").unwrap();
    let client = ClientId::new(&SystemRandom);
    let [held, living, released, silent] = [1, 2, 3, 4].map(|it| OwnerId::new(client, it));
    let request = |owner| AcquireRequest::new(&key, owner, TTL).queue(Queueing::ForLease);
    holder.acquire(request(held)).await.unwrap();
    for owner in [living, released, silent] {
        let answer = waiter.acquire(request(owner)).await;
        assert!(
            matches!(answer, Ok(AcquireOutcome::Busy(_))),
            "broken promise: two hold the key: {answer:?}"
        );
    }
    forget(&waiter, &key, &[released, silent]).await;
    waiter
        .release(ReleaseRequest::new(&key, released))
        .await
        .unwrap();
    let left = async |owner: OwnerId| {
        let keys = server.keys("dlock/order:42/").await;
        keys.iter().any(|key| key.ends_with(&owner.to_string()))
    };
    assert!(!left(released).await, "the release has deleted it");
    assert!(left(silent).await);
    eventually(LONG, "a place of no waiter is deleted", async || {
        // The lease of both goes on.
        waiter.acquire(request(living)).await.unwrap();
        !left(silent).await
    })
    .await;
    assert!(left(living).await);
}

/// A process with a waiter for a key that another one holds.
struct Waiting {
    server: EtcdServer,
    holder: Scene,
    waiter: Scene,
    key: LockKey,
    owner: OwnerId,
    place: String,
}

impl Waiting {
    async fn start() -> Self {
        let server = EtcdServer::start().await;
        let (holder, waiter) = (Scene::open(server.port()), Scene::open(server.port()));
        let (key, owner) = (key("order:42"), waiter.owner(1));
        holder.hold(&key, holder.owner(1)).await;
        waiter.wait(&key, owner).await;
        let place = claims(&server, &key).await.remove(1);
        Self {
            server,
            holder,
            waiter,
            key,
            owner,
            place,
        }
    }

    fn core(&self) -> &Core {
        &self.waiter.store.core
    }

    async fn is_there(&self) -> bool {
        self.server.get(&self.place).await.is_some()
    }

    fn lease(&self) -> i64 {
        let lease = self
            .core()
            .follow
            .with(&self.key, |it| it.lease_of(self.owner));
        lease.flatten().expect("it waits")
    }

    fn last_asked(&self, asked: Moment) {
        let lease = self.lease();
        self.core()
            .follow
            .with(&self.key, |it| it.ask(self.owner, lease, asked));
    }

    async fn end_if_silent(&self) {
        let conn = self.waiter.conn().await;
        let core = self.core();
        core.end_if_silent(&conn, &self.key, self.owner).await;
    }
}

#[tokio::test]
async fn a_place_is_deleted_only_when_its_waiter_is_silent() {
    let all = Waiting::start().await;
    all.last_asked(SystemClock.now());
    all.end_if_silent().await;
    assert!(all.is_there().await, "it has asked just now");
    {
        // A request of it is under way.
        let claims = &all.core().claims;
        let _entered = claims.enter(&all.key, all.owner).await;
        all.last_asked(ago(SILENT * 2));
        all.end_if_silent().await;
        assert!(all.is_there().await);
    }
    all.last_asked(ago(SILENT * 2));
    all.end_if_silent().await;
    assert!(!all.is_there().await);
    assert!(!all.waiter.is_followed(&all.key));
    all.end_if_silent().await;
    assert_eq!(claims(&all.server, &all.key).await.len(), 1, "the holder");
}

#[tokio::test]
async fn a_holder_is_not_deleted_for_silence() {
    let all = Waiting::start().await;
    all.holder.release(&all.key, all.holder.owner(1)).await;
    let lease = all.lease();
    let renewed = all.waiter.renew(&all.key, all.owner).await;
    assert_eq!(renewed, Ok(Renewal::Renewed), "it holds");
    // A request that was on its way has noted that it waits.
    let queue = Queue::default();
    let (id, asked) = ((&all.key, all.owner), ago(SILENT * 2));
    all.core().follow.wait(id, lease, (queue, 1), asked, asked);
    all.last_asked(asked);
    all.end_if_silent().await;
    assert!(
        all.is_there().await,
        "broken promise: a holder lost its key"
    );
}

#[tokio::test]
async fn all_silent_places_are_deleted_by_one_beat_and_no_other() {
    let all = Waiting::start().await;
    let others = [key("order:43"), key("order:44")];
    for other in &others {
        all.holder.hold(other, all.holder.owner(1)).await;
        all.waiter.wait(other, all.owner).await;
    }
    let second = all.waiter.owner(2);
    all.waiter.wait(&all.key, second).await;
    let (lease, now, long_ago) = (all.lease(), SystemClock.now(), ago(SILENT * 2));
    for (key, owner, asked) in [
        (&all.key, second, now),
        (&others[0], all.owner, now),
        (&all.key, all.owner, long_ago),
        (&others[1], all.owner, long_ago),
    ] {
        let follow = &all.core().follow;
        follow.with(key, |it| it.ask(owner, lease, asked));
    }
    all.core().end_silent().await;
    assert!(!all.is_there().await);
    for (key, expected) in [(&all.key, 2), (&others[0], 2), (&others[1], 1)] {
        assert_eq!(claims(&all.server, key).await.len(), expected, "{key}");
    }
}

#[tokio::test]
async fn a_released_waiter_is_silent_at_once() {
    let all = Waiting::start().await;
    all.core()
        .follow
        .with(&all.key, |followed| followed.quit(all.owner));
    all.end_if_silent().await;
    assert!(!all.is_there().await);
    assert!(!all.waiter.is_followed(&all.key));
}

/// A snapshot may bring back places that no claim knows, with a lease that is still kept alive.
#[tokio::test]
async fn only_places_that_no_claim_knows_are_deleted_after_a_restore() {
    let all = Waiting::start().await;
    let (lease, conn) = (all.lease(), all.waiter.conn().await);
    let end = async |name: &str| {
        all.last_asked(SystemClock.now());
        let ended = all.core().end_if_unknown(&conn, name.as_bytes(), lease);
        ended.await.unwrap();
        all.server.get(name).await.is_none()
    };
    let put = async |name: &str| {
        let lease = lease.to_string();
        assert!(all.server.put_with(&lease, name, "1 1 shared - - -").await);
    };
    assert!(!end(&all.place).await, "it waits");
    let gate = all.server.keys("dlock//gate/").await.remove(0);
    assert!(!end(&gate).await, "it is that of all waiters");
    put("dlock/order:42/by-hand").await;
    assert!(!end("dlock/order:42/by-hand").await, "it has no owner");
    let restored = format!("dlock/order:42/{}", all.waiter.owner(7));
    put(&restored).await;
    {
        let claims = &all.core().claims;
        let _under_way = claims.enter(&all.key, all.waiter.owner(7)).await;
        assert!(!end(&restored).await, "its claim may be about to know it");
    }
    assert!(end(&restored).await);
    // One that is followed is not known as a claim if that was forgotten.
    forget(&all.waiter.store, &all.key, &[all.owner]).await;
    assert!(!end(&all.place).await, "its waiter asks again");
    assert_eq!(claims(&all.server, &all.key).await.len(), 3);
}

#[tokio::test]
async fn restored_places_are_searched_once_for_each_connection() {
    let all = Waiting::start().await;
    let (core, conn) = (all.core(), all.waiter.conn().await);
    let restored = format!("dlock/order:42/{}", all.waiter.owner(7));
    let lease = all.lease().to_string();
    let put = async || {
        let is_put = all.server.put_with(&lease, &restored, "1 1 shared - - -");
        assert!(is_put.await);
    };
    let is_there = async || all.server.get(&restored).await.is_some();
    put().await;
    // As if the connection had been made since.
    core.places.searched(conn.number() - 1);
    eventually(LONG, "all leases were searched", async || {
        core.end_restored().await;
        core.places.to_search(conn.number()).is_empty()
    })
    .await;
    assert!(!is_there().await);
    put().await;
    core.end_restored().await;
    assert!(is_there().await);
}

#[tokio::test]
async fn a_lease_that_has_ended_is_that_of_no_other_waiter() {
    let all = Waiting::start().await;
    let lease = all.lease();
    all.core().keep_alive().await.unwrap();
    let gate = all.core().places.gate().await.unwrap();
    assert_eq!(gate.lease, lease, "it is alive");
    // No event says that its place is gone.
    all.waiter.blind(&all.key);
    all.waiter.conn().await.revoke(lease).await.unwrap();
    all.core().keep_alive().await.unwrap();
    let next = all.core().places.gate().await.unwrap();
    assert_ne!(next.lease, lease);
}

/// Without a waiter, the lease of those before it is kept alive for the next one.
#[tokio::test]
async fn a_waiter_that_comes_soon_gets_the_lease_of_those_before_it() {
    let all = Waiting::start().await;
    let lease = all.lease();
    let places = &all.core().places;
    let gate = places.gate().await.unwrap();
    all.waiter.release(&all.key, all.owner).await;
    assert!(!all.waiter.is_followed(&all.key));
    places.opened(gate, ago(Duration::from_secs(3)), 1);
    assert_eq!(places.gate().await.map(|it| it.lease), Ok(lease));
}

#[tokio::test]
async fn a_beat_reads_every_queue_however_many_there_are() {
    let server = EtcdServer::start().await;
    let mut waiter = Scene::open(server.port());
    let keys: Vec<_> = (0..220).map(|it| key(&format!("order:{it:03}"))).collect();
    let others: Vec<_> = (0..220)
        .map(|it| (format!("dlock/order:{it:03}/by-hand"), "mine".to_owned()))
        .collect();
    server.put_all(&others).await;
    let owner = waiter.owner(1);
    join_all(keys.iter().map(|key| waiter.wait(key, owner))).await;
    for key in &keys {
        waiter.blind(key);
    }
    let conn = waiter.conn().await;
    let deleted = others.iter().map(|(name, _)| conn.delete(name.as_bytes()));
    assert!(join_all(deleted).await.iter().all(Result::is_ok));
    waiter.store.core.keep_alive().await.unwrap();
    for key in &keys {
        let heard = within(LONG, waiter.heard.recv()).await.flatten();
        let (owner, fence) = heard.expect("each is notified");
        assert!(owner == waiter.owner(1) && fence > 0, "{key}");
    }
}

/// A beat comes each 1.5 s, and needs no other lease.
#[tokio::test]
async fn beats_have_pauses_between_them_and_make_no_leases() {
    let all = Waiting::start().await;
    let count = async |kind| all.server.messages().await.get(kind).copied().unwrap_or(0);
    let (kept, leases) = (count("LeaseKeepAlive").await, count("LeaseGrant").await);
    let began = Instant::now();
    eventually(LONG, "three more beats", async || {
        all.last_asked(SystemClock.now());
        count("LeaseKeepAlive").await >= kept + 3
    })
    .await;
    assert!(began.elapsed() >= PERIOD * 2, "{:?}", began.elapsed());
    assert_eq!(count("LeaseGrant").await, leases);
}

#[tokio::test]
async fn a_beat_without_waiters_sends_nothing() {
    let server = EtcdServer::start().await;
    let scene = Scene::open(server.port());
    eventually(LONG, "it listens for operators", async || {
        server.watches().await == 1
    })
    .await;
    let before = server.messages().await;
    scene.store.core.keep_alive().await.unwrap();
    scene.store.core.end_silent().await;
    let after = server.messages().await;
    for kind in ["Range", "Txn", "LeaseKeepAlive", "LeaseGrant"] {
        assert_eq!(after.get(kind), before.get(kind), "{kind}");
    }
}

/// The waiters of a process may ask very often while no member answers.
#[tokio::test]
async fn beats_that_fail_have_pauses_between_them() {
    let scene = Scene::alone();
    let places = &scene.store.core.places;
    let began = Instant::now();
    for _ in 0..10 {
        assert!(places.gate().await.is_err());
    }
    assert!(began.elapsed() >= PAUSE * 8, "{:?}", began.elapsed());
}
