//! Waiters, which are woken by watches.

use std::{sync::Arc, time::Duration};

use dlock_etcd::EtcdStore;
use dlock_runtime::{
    LockKey, LockMode,
    random::SystemRandom,
    store::{
        AcquireOutcome, AcquireRequest, ClientId, Hint, HintReceiver, HintSink, LockStore, OwnerId,
        Queue, ReleaseRequest, RenewRequest, Renewal, StoreOptions,
    },
};
use dlock_testkit::{EtcdMake, EtcdServer, Proxy, eventually, within};
use futures_util::future::join_all;
use tokio::sync::mpsc;

const LONG: Duration = Duration::from_secs(60);
const TTL: Duration = Duration::from_secs(120);

/// Passes on the owner and the fence of each hint.
struct Heard(mpsc::UnboundedSender<(OwnerId, u64)>);

impl HintReceiver for Heard {
    fn hint(&self, hint: &Hint<'_>) -> bool {
        self.0.send((hint.owner, hint.fence)).is_ok()
    }

    fn look_again(&self) -> bool {
        true
    }
}

/// A process that waits once: a message to it may be late.
struct Waiter {
    store: EtcdStore,
    owner: OwnerId,
    heard: mpsc::UnboundedReceiver<(OwnerId, u64)>,
}

impl Waiter {
    fn new(url: &str) -> Self {
        let client = ClientId::new(&SystemRandom);
        let (send, heard) = mpsc::unbounded_channel();
        let store = open(url);
        let hooks = store.properties().hooks.unwrap();
        hooks.attach(client, HintSink::new(Arc::new(Heard(send))));
        Self {
            owner: OwnerId::new(client, 1),
            store,
            heard,
        }
    }

    async fn ask(&self, key: &LockKey, mode: LockMode) -> AcquireOutcome {
        let request = AcquireRequest::new(key, self.owner, TTL);
        let request = request.mode(mode).queue(Queue::ForLease);
        self.store.acquire(request).await.unwrap()
    }
}

fn open(url: &str) -> EtcdStore {
    let mut options = StoreOptions::default();
    options.response_timeout = Duration::from_secs(10);
    EtcdStore::open(url, &options).unwrap()
}

fn key(name: &str) -> LockKey {
    LockKey::new(format!("{name}:{}", ClientId::new(&SystemRandom))).unwrap()
}

/// A holder with the key, and its release.
async fn hold(store: &EtcdStore, key: &LockKey) -> OwnerId {
    let owner = OwnerId::new(ClientId::new(&SystemRandom), 1);
    let answer = store
        .acquire(AcquireRequest::new(key, owner, TTL))
        .await
        .unwrap();
    assert!(
        matches!(answer, AcquireOutcome::Granted { .. }),
        "{answer:?}"
    );
    owner
}

/// Has a waiter wait for a holder, breaks something, releases, and returns whether the waiter was told by a watch. It
/// sends no request meanwhile.
async fn is_told(mut waiter: Waiter, holder: &EtcdStore, breaks: impl AsyncFn()) -> bool {
    let key = key("waiting");
    let owner = hold(holder, &key).await;
    let answer = waiter.ask(&key, LockMode::Exclusive).await;
    assert!(
        matches!(answer, AcquireOutcome::Busy(_)),
        "broken promise: two hold the key: {answer:?}"
    );
    breaks().await;
    holder
        .release(ReleaseRequest::new(&key, owner))
        .await
        .unwrap();
    // The lease of the waiter's key ends without a request: a waiter that was not told in this time never will be.
    let told = within(Duration::from_secs(6), waiter.heard.recv()).await;
    let Some(Some((owner, fence))) = told else {
        return false;
    };
    assert!(owner == waiter.owner && fence > 0);
    let renewed = waiter
        .store
        .renew_one(RenewRequest::new(&key, owner, TTL))
        .await;
    let is_held = renewed == Ok(Renewal::Renewed);
    let answer = waiter.ask(&key, LockMode::Exclusive).await;
    if is_held {
        assert_eq!(
            answer,
            AcquireOutcome::granted(fence),
            "the fence of the message"
        );
    }
    waiter
        .store
        .release(ReleaseRequest::new(&key, owner))
        .await
        .unwrap();
    is_held
}

#[tokio::test]
async fn a_release_wakes_the_waiter_of_another_process_by_a_watch() {
    let server = EtcdServer::shared(EtcdMake::Usual).await;
    let holder = open(&server.url());
    eventually(LONG, "a waiter is told of its grant", async || {
        is_told(Waiter::new(&server.url()), &holder, async || ()).await
    })
    .await;
}

#[tokio::test]
async fn a_watch_whose_connection_was_cut_begins_again() {
    let server = EtcdServer::shared(EtcdMake::Usual).await;
    let proxy = Proxy::start(server.port());
    let url = format!("etcd://127.0.0.1:{}", proxy.port());
    let holder = open(&server.url());
    eventually(LONG, "a waiter is told of its grant", async || {
        is_told(Waiter::new(&url), &holder, async || proxy.cut()).await
    })
    .await;
}

#[tokio::test]
async fn a_watch_that_falls_behind_a_compaction_begins_again() {
    let server = EtcdServer::start().await;
    let proxy = Proxy::start(server.port());
    let url = format!("etcd://127.0.0.1:{}", proxy.port());
    let holder = open(&server.url());
    eventually(LONG, "a waiter is told of its grant", async || {
        let breaks = async || {
            // While the connection is away, etcd forgets the revision at which the watch has to go on.
            proxy.refuse();
            proxy.cut();
            server.put("elsewhere", "1").await;
            server.put("elsewhere", "2").await;
            server.compact().await;
            proxy.accept();
        };
        is_told(Waiter::new(&url), &holder, breaks).await
    })
    .await;
}

#[tokio::test]
async fn readers_behind_a_writer_are_all_told_when_it_leaves() {
    let server = EtcdServer::shared(EtcdMake::Usual).await;
    let holder = open(&server.url());
    eventually(LONG, "both readers are told", async || {
        let mut readers = [Waiter::new(&server.url()), Waiter::new(&server.url())];
        let key = key("readers");
        let owner = hold(&holder, &key).await;
        for reader in &readers {
            let answer = reader.ask(&key, LockMode::Shared).await;
            assert!(
                matches!(answer, AcquireOutcome::Busy(_)),
                "broken promise: two hold the key: {answer:?}"
            );
        }
        holder
            .release(ReleaseRequest::new(&key, owner))
            .await
            .unwrap();
        let mut told = 0;
        for reader in &mut readers {
            told += usize::from(
                within(Duration::from_secs(6), reader.heard.recv())
                    .await
                    .is_some(),
            );
        }
        // Whichever of them asks first: they have one fence.
        let answers = [
            readers[1].ask(&key, LockMode::Shared).await,
            readers[0].ask(&key, LockMode::Shared).await,
        ];
        for reader in &readers {
            let release = ReleaseRequest::new(&key, reader.owner).mode(LockMode::Shared);
            reader.store.release(release).await.unwrap();
        }
        if told == 2 {
            assert_eq!(answers[0], answers[1]);
        }
        told == 2 && matches!(answers[0], AcquireOutcome::Granted { .. })
    })
    .await;
}

/// No request waits inside the server for a key, and none inside the store for that of another key.
#[tokio::test]
async fn a_key_that_many_poll_for_delays_no_other_key() {
    let server = EtcdServer::shared(EtcdMake::Usual).await;
    let (store, other) = (open(&server.url()), open(&server.url()));
    let hot = key("hot");
    hold(&other, &hot).await;
    let waiters: Vec<_> = (0..64)
        .map(|_| OwnerId::new(ClientId::new(&SystemRandom), 1))
        .collect();
    let all_ask = async || {
        let asked = waiters.iter().map(|owner| {
            let request = AcquireRequest::new(&hot, *owner, TTL);
            store.acquire(request.queue(Queue::ForLease))
        });
        for answer in join_all(asked).await {
            assert!(matches!(answer, Ok(AcquireOutcome::Busy(_))), "{answer:?}");
        }
    };
    all_ask().await;
    let polls = async {
        loop {
            all_ask().await;
        }
    };
    let sections = async {
        for _ in 0..50 {
            let free = key("free");
            let owner = hold(&store, &free).await;
            let released = store.release(ReleaseRequest::new(&free, owner)).await;
            released.unwrap();
        }
    };
    tokio::select! {
        () = polls => {}
        ended = within(LONG, sections) => ended.expect("fifty sections of other keys"),
    }
}
