//! Waiters that send no requests, and places that do not outlast them.

use std::{collections::BTreeMap, time::Duration};

use dlock::LockManager;
use dlock_etcd::{Etcd, EtcdStore};
use dlock_runtime::{
    LockKey,
    random::SystemRandom,
    store::{
        ALIVE, AcquireOutcome, AcquireRequest, ClientId, LockStore, OwnerId, Queue, ReleaseRequest,
        Released, StoreOptions,
    },
};
use dlock_testkit::{EtcdServer, Proxy, eventually, within};
use serde_json::json;
use tokio::{
    task::JoinSet,
    time::{Instant, timeout},
};

pub(super) const LONG: Duration = Duration::from_secs(60);
pub(super) const TTL: Duration = Duration::from_secs(120);
const WAITERS: u64 = 100;
const KEYS: u64 = 10;

/// The most reads of a beat: those of the queues, and those by which each connection is tried from time to time.
const READS: u64 = KEYS + 4;

/// The claims, without the gate of the waiters.
pub(super) const CLAIMS: &str = "dlock/";
const GATES: &str = "dlock//gate/";

async fn manager(url: &str) -> LockManager {
    let builder = LockManager::builder().scheme("etcd", Etcd);
    let patient = builder.response_timeout(LONG).connect_timeout(LONG);
    patient.connect(url).await.unwrap()
}

pub(super) fn store(url: &str) -> EtcdStore {
    open(url, LONG)
}

/// A store that replaces a silent connection before leases of waiters end. On a slow machine, its requests may have no answer.
pub(super) fn hasty_store(url: &str) -> EtcdStore {
    open(url, Duration::from_millis(1500))
}

fn open(url: &str, response_timeout: Duration) -> EtcdStore {
    let mut options = StoreOptions::default();
    options.response_timeout = response_timeout;
    EtcdStore::open(url, &options).unwrap()
}

pub(super) fn owner() -> OwnerId {
    OwnerId::new(ClientId::new(&SystemRandom), 1)
}

pub(super) fn key(text: &str) -> LockKey {
    LockKey::new(text).unwrap()
}

pub(super) async fn ask(
    store: &EtcdStore,
    key: &LockKey,
    owner: OwnerId,
) -> Option<AcquireOutcome> {
    let request = AcquireRequest::new(key, owner, TTL).queue(Queue::ForLease);
    store.acquire(request).await.ok()
}

pub(super) async fn hold(store: &EtcdStore, key: &LockKey) -> OwnerId {
    let owner = owner();
    let answer = ask(store, key, owner).await;
    assert!(
        matches!(answer, Some(AcquireOutcome::Granted { .. })),
        "{answer:?}"
    );
    owner
}

/// The claims on a key.
async fn claims(server: &EtcdServer, key: &str) -> usize {
    server.keys(&format!("{CLAIMS}{key}/")).await.len()
}

fn grown(
    before: &BTreeMap<String, u64>,
    after: &BTreeMap<String, u64>,
) -> (u64, BTreeMap<String, u64>) {
    let more = after.iter().map(|(name, count)| {
        let known = before.get(name).copied().unwrap_or(0);
        (name.clone(), count - known)
    });
    let more: BTreeMap<_, _> = more.filter(|(_, count)| *count > 0).collect();
    (more.values().sum(), more)
}

#[tokio::test]
async fn a_hundred_waiters_send_no_requests_of_their_own() {
    let server = EtcdServer::start().await;
    let (holder, waiters) = (manager(&server.url()).await, manager(&server.url()).await);
    let mut held = Vec::new();
    for number in 0..KEYS {
        let lock = holder.lock(format!("order:{number}")).ttl(TTL);
        held.push(lock.acquire().await.unwrap());
    }
    let mut waiting = JoinSet::new();
    for number in 0..WAITERS {
        let lock = waiters.lock(format!("order:{}", number % KEYS)).ttl(TTL);
        let lock = lock.wait(4 * LONG);
        waiting.spawn(async move { lock.acquire().await.unwrap().release().await.unwrap() });
    }
    let mut seen = Vec::new();
    loop {
        let (count, more) = four_beats(&server).await;
        let kept = more["LeaseKeepAlive"];
        // A beat is a keep-alive for all waiters together, and a read of each queue.
        let reads: u64 = ["Range", "Txn"]
            .iter()
            .filter_map(|kind| more.get(*kind))
            .sum();
        if count == kept + reads && reads <= (kept + 1) * READS {
            break;
        }
        // On a slow machine, a waiter may have lost its place, and has begun again.
        seen.push(more);
        assert!(seen.len() < 6, "each time there are more: {seen:?}");
    }
    for guard in held {
        guard.release().await.unwrap();
    }
    let all = within(LONG, async {
        while let Some(ended) = waiting.join_next().await {
            ended.unwrap();
        }
    });
    assert!(all.await.is_some(), "not all were granted");
}

/// Waits until all wait, and then for four beats. Returns the requests meanwhile.
async fn four_beats(server: &EtcdServer) -> (u64, BTreeMap<String, u64>) {
    eventually(LONG, "all wait", async || {
        // The waiters of one key have one place, and it was asked of each lease how long it still lasts.
        let asked = server.messages().await.get("LeaseTimeToLive").copied();
        let places = server.keys("dlock/order:").await.len();
        u64::try_from(places) == Ok(2 * KEYS) && asked >= Some(KEYS)
    })
    .await;
    // A waiter asks at least each 1.25 s, and a beat keeps one lease alive each 1.5 s.
    let beats = |messages: &BTreeMap<String, u64>| messages.get("LeaseKeepAlive").copied();
    let before = server.messages().await;
    let mut after = before.clone();
    eventually(LONG, "four beats", async || {
        after = server.messages().await;
        beats(&after) >= beats(&before).map_or(Some(4), |count| Some(count + 4))
    })
    .await;
    grown(&before, &after)
}

#[tokio::test]
async fn a_watch_ends_with_its_waiter_and_a_connection_with_its_successor() {
    let server = EtcdServer::start().await;
    let proxies = [Proxy::start(server.port()), Proxy::start(server.port())];
    let [first, second] = [0, 1].map(|index: usize| proxies[index].port());
    let (holder, waiters) = (
        store(&server.url()),
        hasty_store(&format!("etcd://127.0.0.1:{first},127.0.0.1:{second}")),
    );
    let [one, other] = ["order:1", "order:2"].map(key);
    for key in [&one, &other] {
        hold(&holder, key).await;
    }
    let (leaving, staying) = (owner(), owner());
    eventually(LONG, "each key is watched", async || {
        ask(&waiters, &one, leaving).await;
        ask(&waiters, &other, staying).await;
        server.watches().await == 2
    })
    .await;
    let release = ReleaseRequest::new(&one, leaving);
    eventually(LONG, "the release is answered", async || {
        waiters.release(release).await.is_ok()
    })
    .await;
    eventually(LONG, "a watch has ended", async || {
        server.watches().await == 1
    })
    .await;
    // A connection that is silent is replaced, and then closed although it had a watch.
    proxies[0].hold_replies();
    eventually(LONG, "there is another connection", async || {
        timeout(Duration::from_millis(50), ask(&waiters, &other, staying))
            .await
            .ok();
        proxies[1].open_connections() > 0
    })
    .await;
    proxies[0].thaw();
    eventually(LONG, "the first ones are closed", async || {
        proxies[0].open_connections() == 0
    })
    .await;
}

#[tokio::test]
async fn a_waiter_that_is_silent_loses_its_place_although_others_wait() {
    let server = EtcdServer::start().await;
    eventually(LONG, "the other is never silent", async || {
        loses_its_place(&server).await
    })
    .await;
}

/// Returns `false` if the machine was so slow that the other one was silent, too.
async fn loses_its_place(server: &EtcdServer) -> bool {
    let (holder, waiters) = (store(&server.url()), store(&server.url()));
    let [one, other] = ["order:1", "order:2"].map(|name| key(&format!("{name}:{}", owner())));
    for key in [&one, &other] {
        hold(&holder, key).await;
    }
    let (silent, living) = (owner(), owner());
    assert!(ask(&waiters, &other, living).await.is_some());
    let asked = Instant::now();
    let answer = ask(&waiters, &one, silent).await;
    assert!(
        matches!(answer, Some(AcquireOutcome::Busy(_))),
        "broken promise: two hold the key: {answer:?}"
    );
    let (mut last, mut is_silent) = (asked, false);
    eventually(LONG, "its place is gone", async || {
        ask(&waiters, &other, living).await;
        is_silent |= last.elapsed() > ALIVE / 2;
        last = Instant::now();
        claims(server, one.as_str()).await == 1
    })
    .await;
    assert!(asked.elapsed() >= ALIVE, "{:?}", asked.elapsed());
    let left = claims(server, other.as_str()).await;
    if is_silent || last.elapsed() > ALIVE / 2 {
        return false;
    }
    assert_eq!(left, 2, "the other still waits");
    // It comes back, behind those that have come meanwhile.
    let answer = ask(&waiters, &one, silent).await;
    assert!(
        matches!(answer, Some(AcquireOutcome::Busy(_))),
        "broken promise: two hold the key: {answer:?}"
    );
    true
}

/// The connection is away for longer than a waiter may be silent. One that asks all the while is not silent.
#[tokio::test]
async fn a_waiter_that_asks_while_the_connection_is_away_keeps_its_place() {
    let server = EtcdServer::start().await;
    eventually(LONG, "the connection is back in time", async || {
        is_kept(&server).await
    })
    .await;
}

/// Returns `false` if the machine was so slow that places have ended for other reasons.
async fn is_kept(server: &EtcdServer) -> bool {
    const AWAY: Duration = Duration::from_millis(4300);
    const SILENT: Duration = Duration::from_secs(4);
    let proxy = Proxy::start(server.port());
    let url = format!("etcd://127.0.0.1:{}", proxy.port());
    let (holder, waiters) = (store(&server.url()), hasty_store(&url));
    let one = key(&format!("order:{}", owner()));
    hold(&holder, &one).await;
    let [silent, living, rival] = [owner(), owner(), owner()];
    for (store, owner) in [(&waiters, silent), (&waiters, living), (&holder, rival)] {
        if ask(store, &one, owner).await.is_none() {
            return false;
        }
    }
    let prefix = format!("{CLAIMS}{one}/");
    let before = server.keys(&prefix).await;
    if before.len() != 4 {
        return false;
    }
    let Some(lease) = server.lease_of(&before[1]).await else {
        return false;
    };
    let goes_on = async || {
        // As after an election, which gives a lease its whole TTL.
        server.call("lease/keepalive", &json!({"ID": lease})).await;
        ask(&holder, &one, rival).await;
    };
    proxy.refuse();
    proxy.cut();
    let since = Instant::now();
    eventually(LONG, "some time has passed", async || {
        goes_on().await;
        ask(&waiters, &one, living).await;
        since.elapsed() > AWAY
    })
    .await;
    let asked = Instant::now();
    proxy.accept();
    eventually(LONG, "the silent place is deleted", async || {
        goes_on().await;
        server.keys(&prefix).await.len() < 4
    })
    .await;
    let is_in_time = asked.elapsed() < SILENT;
    // A place that is lost would be made again behind the rival.
    let is_answered = ask(&waiters, &one, living).await.is_some();
    let after = server.keys(&prefix).await;
    if !is_in_time || !is_answered || !server.put_with(&lease, "elsewhere", "1").await {
        return false;
    }
    let mut expected = before;
    expected.remove(1);
    assert_eq!(after, expected);
    true
}

/// A request that is answered promises that a grant can be trusted for some time. Without a beat, nothing is known of that.
#[tokio::test]
async fn a_waiter_is_not_answered_when_its_lease_may_have_ended() {
    let server = EtcdServer::start().await;
    let proxy = Proxy::start(server.port());
    let mut options = StoreOptions::default();
    // The connection outlasts the test.
    options.response_timeout = 2 * LONG;
    let waiters = EtcdStore::open(&format!("etcd://127.0.0.1:{}", proxy.port()), &options);
    let (holder, waiters) = (store(&server.url()), waiters.unwrap());
    let (one, waiter) = (key("order:1"), owner());
    hold(&holder, &one).await;
    let answer = ask(&waiters, &one, waiter).await;
    assert!(
        matches!(answer, Some(AcquireOutcome::Busy(_))),
        "broken promise: two hold the key: {answer:?}"
    );
    proxy.freeze();
    let brief = Duration::from_millis(500);
    eventually(LONG / 2, "no answer", async || {
        let asked = timeout(brief, ask(&waiters, &one, waiter)).await;
        !matches!(asked, Ok(Some(AcquireOutcome::Busy(_))))
    })
    .await;
    proxy.thaw();
    eventually(LONG, "the waiter is answered again", async || {
        ask(&waiters, &one, waiter).await.is_some()
    })
    .await;
}

/// The request that creates a place is held back by the network, beyond the release of its claim. The lease that it names
/// goes on, as another waiter has it.
#[tokio::test]
async fn a_place_that_is_requested_late_is_not_created_although_others_wait() {
    let server = EtcdServer::start().await;
    // A base that is ahead of the clock is never raised. A new base would stop the request as well.
    server.put("dlock//fence", "20000000000000").await;
    eventually(LONG, "the gate is what stops the request", async || {
        is_stopped_by_the_gate(&server).await
    })
    .await;
}

/// Returns `false` if the machine was so slow that the shared lease has ended, which stops the request as well.
async fn is_stopped_by_the_gate(server: &EtcdServer) -> bool {
    let proxies = [Proxy::start(server.port()), Proxy::start(server.port())];
    let hosts = proxies
        .iter()
        .map(|it| format!("127.0.0.1:{}", it.port()))
        .collect::<Vec<_>>();
    let (holder, waiters) = (
        store(&server.url()),
        hasty_store(&format!("etcd://{}", hosts.join(","))),
    );
    let [one, other] = ["order:1", "order:2"].map(|name| key(&format!("{name}:{}", owner())));
    let held = [hold(&holder, &one).await, hold(&holder, &other).await];
    let living = owner();
    if ask(&waiters, &other, living).await.is_none() {
        return false;
    }
    let places = server.keys(&format!("{CLAIMS}{other}/")).await;
    let Some(name) = places.get(1) else {
        return false;
    };
    let Some(lease) = server.lease_of(name).await else {
        return false;
    };

    proxies[0].freeze_before_request(GATES);
    let late = owner();
    let is_held_back = eventually(LONG, "it is held back", async || !proxies[0].is_trap_set());
    tokio::select! {
        // The machine was too slow for the first connection.
        _ = ask(&waiters, &one, late) => return false,
        () = is_held_back => {}
    }
    let mut released = None;
    eventually(LONG, "the release is answered", async || {
        ask(&waiters, &other, living).await;
        released = waiters.release(ReleaseRequest::new(&one, late)).await.ok();
        released.is_some()
    })
    .await;
    assert_eq!(released, Some(Released::WasGone));
    let before = server.revision().await;
    // The request arrives, and not what the client has said after it: that nothing waits for an answer any more.
    proxies[0].freeze_before_request("");
    proxies[0].thaw();
    eventually(LONG, "the request has arrived", async || {
        ask(&waiters, &other, living).await;
        if proxies[0].holds_request(GATES) && !proxies[0].is_trap_set() {
            // Those of another connection came before it.
            proxies[0].freeze_before_request("");
            proxies[0].thaw();
        }
        !proxies[0].holds_request(GATES)
    })
    .await;
    for number in 0..20 {
        // Requests of now are carried out behind it.
        server.put("elsewhere", &number.to_string()).await;
        ask(&waiters, &other, living).await;
    }
    let is_alive = server.put_with(&lease, "elsewhere", "1").await;
    // A key of the late request would be deleted soon, since its waiter is silent.
    for revision in before..=server.revision().await {
        let claims = server.keys_at(&format!("{CLAIMS}{one}/"), revision).await;
        assert_eq!(
            claims.len(),
            1,
            "the late request has left no key: {claims:?}"
        );
    }
    // New waiters have another lease with another gate.
    let is_answered = ask(&waiters, &one, owner()).await.is_some();
    let places = server.keys(&format!("{CLAIMS}{one}/")).await;
    if is_answered && let Some(name) = places.get(1) {
        assert_ne!(server.lease_of(name).await, Some(lease));
    }
    for (key, owner) in [&one, &other].into_iter().zip(held) {
        let request = ReleaseRequest::new(key, owner);
        holder.release(request).await.unwrap();
    }
    is_alive && is_answered && places.len() == 2
}
