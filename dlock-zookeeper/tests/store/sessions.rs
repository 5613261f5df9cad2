//! Sessions and the leases that they last for.

use std::{
    iter,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use dlock::LockKey;
use dlock_runtime::{
    ConnectError, StoreError, StoreErrorKind,
    random::SystemRandom,
    store::{
        AcquireOutcome, AcquireRequest, ClientId, Hint, HintReceiver, HintSink, LockStore, OwnerId,
        Queue, ReleaseRequest, Released, RenewRequest, Renewal,
    },
};
use dlock_testkit::{Proxy, ZooKeepers, eventually, log};
use futures_util::future::join_all;
use tokio::{
    net::TcpListener,
    time::{Instant, sleep},
};

use crate::scripted::{
    BASE, CHECK, CHILD, CREATE, DELETE, EXISTS, GET_DATA, LIST, MULTI, NO_AUTH, NO_NODE, Reply,
    SESSION_EXPIRED, SET_DATA, SINCE, SYNC, Scripted, UNIMPLEMENTED, with_base,
};
use crate::world::{LIMIT, SESSION, TTL, builder, key, opened, owner, store};

#[tokio::test]
async fn a_lease_that_its_session_may_not_last_for_is_not_confirmed() {
    let servers = ZooKeepers::shared().await;
    let proxy = Proxy::start(servers.port(0));
    // Requests count only after the tick, which is longer than the servers' own.
    let url = format!("zookeeper://127.0.0.1:{}?session=20s&tick=5s", proxy.port());
    let store = store(&url).await;
    let key = LockKey::new("uncertain").unwrap();
    let owner = OwnerId::new(ClientId::new(&SystemRandom), 1);
    let ttl = Duration::from_millis(12_500);
    let ask = async || store.acquire(AcquireRequest::new(&key, owner, ttl)).await;
    // A claim that begins with its request, of which the creation is the only write.
    let ask_fresh = async || {
        let key = crate::world::key("uncertain");
        let ask = AcquireRequest::new(&key, crate::world::owner(), ttl);
        store.acquire(ask).await
    };
    // The first requests of the session are old enough to count.
    sleep(Duration::from_secs(6)).await;
    eventually(LIMIT, "both are granted", async || {
        // A machine that stands still for some seconds proves nothing meanwhile.
        let answers = [ask().await, ask_fresh().await];
        let is_granted = |it| matches!(it, Ok(AcquireOutcome::Granted { .. }));
        answers.into_iter().all(is_granted)
    })
    .await;
    proxy.freeze();
    // The session goes on without an answer, and its rest is shorter than the TTL.
    sleep(Duration::from_secs(9)).await;
    proxy.thaw();
    let (mut answers, mut of_fresh) = (Vec::new(), Vec::new());
    eventually(LIMIT, "the lease is confirmed", async || {
        of_fresh.push(ask_fresh().await);
        answers.push(ask().await);
        matches!(answers.last(), Some(Ok(_)))
    })
    .await;
    let is_refusal = |answer: &Result<_, StoreError>| {
        let error = answer.as_ref().err();
        error.is_some_and(|error| error.message().contains("without an answer for too long"))
    };
    assert!(answers.iter().any(is_refusal), "{answers:?}");
    assert!(of_fresh.iter().any(is_refusal), "{of_fresh:?}");
    store
        .release(ReleaseRequest::new(&key, owner))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_ttl_beyond_the_session_is_refused_before_a_request_is_sent() {
    let servers = ZooKeepers::shared().await;
    let builder = builder();
    let url = servers.url(Duration::from_secs(10));
    let error = builder.clone().connect(&url).await.unwrap_err();
    assert!(
        matches!(error, ConnectError::InvalidOption { option: "ttl", .. }),
        "{error}"
    );
    let locks = builder
        .ttl(Duration::from_secs(5))
        .connect(&url)
        .await
        .unwrap();
    let error = locks
        .lock("long")
        .ttl(Duration::from_secs(10))
        .acquire()
        .await
        .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("longer than the store's longest lease"),
        "{error}"
    );
    locks
        .lock("long")
        .acquire()
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
}

#[tokio::test]
async fn a_session_that_the_servers_shorten_is_refused() {
    let servers = ZooKeepers::shared().await;
    let error = builder()
        .connect(servers.url(Duration::from_secs(121)))
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("write `session=120000ms`"),
        "{error}"
    );
}

#[tokio::test]
async fn requests_that_wait_for_a_session_keep_their_order() {
    let servers = ZooKeepers::shared().await;
    // On a busy machine there may be no session within its time.
    eventually(LIMIT, "a session", async || {
        let proxy = Proxy::start(servers.port(0));
        proxy.freeze();
        let hosts = format!("127.0.0.1:{}", proxy.port());
        let store = opened(&ZooKeepers::url_of(&hosts, SESSION));
        // Tasks that wait for a session are woken in any order.
        let claims: Vec<_> = iter::repeat_with(|| (key("in-order"), owner()))
            .take(16)
            .collect();
        let acquires = claims
            .iter()
            .map(|(key, owner)| store.acquire(AcquireRequest::new(key, *owner, TTL)));
        let releases = claims
            .iter()
            .map(|(key, owner)| store.release(ReleaseRequest::new(key, *owner)));
        let thaw = async || proxy.thaw();
        let (granted, answers, ()) = tokio::join!(join_all(acquires), join_all(releases), thaw());
        let mut pairs = granted.iter().zip(&answers);
        let is_late = pairs.any(|(granted, answer)| {
            let is_granted = matches!(granted, Ok(AcquireOutcome::Granted { .. }));
            is_granted && *answer == Ok(Released::WasGone)
        });
        assert!(!is_late, "a release overtook its acquire: {granted:?}");
        granted.iter().all(Result::is_ok) && answers.iter().all(Result::is_ok)
    })
    .await;
}

#[tokio::test]
async fn servers_whose_sessions_have_no_ephemeral_nodes_are_refused_at_once() {
    let servers = ZooKeepers::start_local().await;
    // On a busy machine the servers may be too late for an answer at first.
    eventually(3 * LIMIT, "the servers have answered", async || {
        let refused = builder().connect(servers.url(SESSION)).await;
        let Err(ConnectError::Unavailable { reason, .. }) = refused else {
            panic!("broken promise: a manager without locks: {refused:?}");
        };
        let is_told = reason.message().contains("localSessionsUpgradingEnabled");
        is_told && reason.kind() == StoreErrorKind::Unsupported
    })
    .await;
}

#[tokio::test]
async fn a_session_is_used_only_once_its_check_has_an_answer() {
    let checks = Arc::new(AtomicUsize::new(0));
    let count = checks.clone();
    let server = Scripted::start(move |request| match (request.code, &*request.codes()) {
        (MULTI, [CREATE, DELETE]) => Some(match count.fetch_add(1, Ordering::SeqCst) {
            0 => Reply::Cut,
            _ => Reply::carried_out(request, 1, ""),
        }),
        _ => None,
    })
    .await;
    eventually(LIMIT, "a session is used", async || {
        builder().connect(&server.url()).await.is_ok()
    })
    .await;
    let checks = checks.load(Ordering::SeqCst);
    assert!(checks > 1, "one without an answer was enough");
}

/// Counts how often it has to ask again.
struct Polls(Arc<AtomicUsize>);

impl HintReceiver for Polls {
    fn hint(&self, _: &Hint<'_>) -> bool {
        true
    }

    fn look_again(&self) -> bool {
        self.0.fetch_add(1, Ordering::SeqCst);
        true
    }
}

#[tokio::test]
async fn a_claim_begins_again_in_the_session_that_follows() {
    log::begin();
    let (key, own) = (key("next-session"), owner());
    let directory = format!("/dlock/lock:{key}");
    let children = [1, 2].map(|place| format!("{own}-exclusive-000000000{place}"));
    let creations = AtomicUsize::new(0);
    let is_over = Arc::new(AtomicBool::new(false));
    let ends = is_over.clone();
    // It keeps the child of the first session, as servers do that have not given the session up.
    let server = Scripted::start(move |request| match (request.code, &*request.codes()) {
        (SYNC, _) if ends.swap(false, Ordering::SeqCst) => Some(Reply::Refused(SESSION_EXPIRED)),
        (MULTI, [CHECK, CREATE, SET_DATA]) => {
            let before = creations.fetch_add(1, Ordering::SeqCst);
            let among = if before == 0 { 1 } else { 2 };
            let name = &children[before.min(1)];
            Some(Reply::carried_out_among(request, CHILD, name, among))
        }
        (LIST, _) if request.path == directory => {
            let there = creations.load(Ordering::SeqCst).min(2);
            let names = [&*children[0], &*children[1]];
            Some(Reply::names(&names[..there]))
        }
        // Its watch.
        (LIST, _) if request.path.starts_with(&directory) => Some(Reply::names(&[])),
        (GET_DATA, _) if request.path.starts_with(&directory) => {
            let text = format!("1 {BASE} {SINCE} 30000 - 1 - - -");
            Some(Reply::fresh(&text, CHILD))
        }
        (SET_DATA, _) => Some(Reply::stat(CHILD)),
        _ => with_base(request, BASE),
    })
    .await;
    let store = store(&server.url()).await;
    let polls = Arc::new(AtomicUsize::new(0));
    let sink = HintSink::new(Arc::new(Polls(polls.clone())));
    let hooks = store.properties().hooks.unwrap();
    hooks.attach(own.client(), sink);
    let ttl = Duration::from_secs(30);
    let ask = AcquireRequest::new(&key, own, ttl).queue(Queue::ForLease);
    let granted = store.acquire(ask).await;
    assert!(
        matches!(granted, Ok(AcquireOutcome::Granted { .. })),
        "{granted:?}"
    );
    let renewal = RenewRequest::new(&key, own, ttl);
    assert_eq!(store.renew_one(renewal).await, Ok(Renewal::Renewed));
    let before = polls.load(Ordering::SeqCst);
    is_over.store(true, Ordering::SeqCst);
    eventually(LIMIT, "all waiters ask for new places", async || {
        polls.load(Ordering::SeqCst) > before
    })
    .await;
    assert_eq!(
        store.renew_one(renewal).await,
        Ok(Renewal::NotOwner),
        "broken promise: a lease without its session"
    );
    let answer = store.acquire(ask).await;
    assert!(
        matches!(answer, Ok(AcquireOutcome::Busy(_))),
        "broken promise: a child of an earlier session is held: {answer:?}"
    );
    let said = log::with("the session of ZooKeeper has ended");
    let port = server.port().to_string();
    assert!(said.iter().any(|line| line.contains(&port)), "{said:?}");
}

#[tokio::test]
async fn tries_to_connect_have_longer_and_longer_pauses() {
    log::begin();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let store = opened(&format!("zookeeper://127.0.0.1:{port}"));
    let mut begun = Vec::new();
    while begun.len() < 7 {
        let (connection, _) = listener.accept().await.unwrap();
        begun.push(Instant::now());
        drop(connection);
    }
    // There are six pauses, and these are the first ones.
    let least = Duration::from_millis(50 + 100 + 200);
    assert!(begun[6] - begun[0] >= least, "{begun:?}");
    let (key, owner) = (key("none"), owner());
    let error = store.acquire(AcquireRequest::new(&key, owner, TTL)).await;
    let error = error.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unreachable, "{error}");
    assert!(error.has_no_effect(), "{error}");
    let said = log::with("cannot connect to ZooKeeper");
    let port = port.to_string();
    assert!(said.iter().any(|line| line.contains(&port)), "{said:?}");
}

#[tokio::test]
async fn a_watch_for_operators_that_is_refused_is_tried_once_a_second() {
    let tries = Arc::new(AtomicUsize::new(0));
    let count = tries.clone();
    let begun = Instant::now();
    let server = Scripted::start(move |request| {
        let is_notice = request.code == GET_DATA && request.path == "/dlock/notice";
        is_notice.then(|| {
            count.fetch_add(1, Ordering::SeqCst);
            Reply::Refused(UNIMPLEMENTED)
        })
    })
    .await;
    let _store = store(&server.url()).await;
    eventually(LIMIT, "it is tried again", async || {
        tries.load(Ordering::SeqCst) > 2
    })
    .await;
    let count = u64::try_from(tries.load(Ordering::SeqCst)).unwrap();
    let elapsed = begun.elapsed();
    assert!(
        count <= elapsed.as_secs() + 1,
        "{count} times in {elapsed:?}"
    );
}

#[tokio::test]
async fn the_messages_of_operators_are_read_once_until_they_change() {
    // Why they cannot be read, whether their node is there a moment later, and how often they are read.
    for (refusal, is_there, reads) in [(NO_AUTH, true, 1), (NO_NODE, false, 1), (NO_NODE, true, 2)]
    {
        let [tries, beats] = [(); 2].map(|()| Arc::new(AtomicUsize::new(0)));
        let (listed, beaten) = (tries.clone(), beats.clone());
        let server = Scripted::start(move |request| {
            if request.code == SYNC {
                beaten.fetch_add(1, Ordering::SeqCst);
            }
            if request.path != "/dlock/notice" {
                return None;
            }
            match request.code {
                GET_DATA => Some(match listed.fetch_add(1, Ordering::SeqCst) {
                    0 => Reply::Refused(refusal),
                    _ => Reply::data("", 1),
                }),
                EXISTS if is_there => Some(Reply::stat(1)),
                _ => None,
            }
        })
        .await;
        let _store = store(&server.url()).await;
        eventually(LIMIT, "the session goes on", async || {
            beats.load(Ordering::SeqCst) > 2
        })
        .await;
        let tries = tries.load(Ordering::SeqCst);
        assert_eq!(tries, reads, "{refusal}, there: {is_there}");
    }
}

/// A renewal is a write, and proves the session anew.
#[tokio::test]
async fn a_lease_lasts_beyond_the_session_that_its_first_write_proves() {
    let servers = ZooKeepers::shared().await;
    let store = store(&servers.url(Duration::from_secs(10))).await;
    let ttl = Duration::from_secs(6);
    // On a slow machine, a renewal may be too late.
    eventually(2 * LIMIT, "a lease is renewed for long", async || {
        let (key, owner) = (key("for-long"), owner());
        let granted = store.acquire(AcquireRequest::new(&key, owner, ttl)).await;
        let mut is_held = matches!(granted, Ok(AcquireOutcome::Granted { .. }));
        for _ in 0..3 {
            sleep(ttl / 3).await;
            let renewal = RenewRequest::new(&key, owner, ttl);
            is_held &= store.renew_one(renewal).await == Ok(Renewal::Renewed);
        }
        store.release(ReleaseRequest::new(&key, owner)).await.ok();
        is_held
    })
    .await;
}
