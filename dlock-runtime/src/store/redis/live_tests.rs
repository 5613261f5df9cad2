//! Hints from a real server, and what the store keeps for them: parts that nothing outside of it sees.

mod scripts;

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use dlock_testkit::{Proxy, RedisServer, eventually};

use super::{RedisConfig, RedisStore};
use crate::{
    key::LockKey,
    owner::{ClientId, OwnerId},
    random::SystemRandom,
    store::{
        AcquireOutcome, AcquireRequest, Hint, HintReceiver, HintSink, LockStore, Queue,
        ReleaseRequest, RenewRequest, StoreErrorKind, StoreHooks,
    },
};

const DEADLINE: Duration = Duration::from_secs(15);

/// A manager as the store sees it.
#[derive(Default)]
struct Heard {
    hints: Mutex<Vec<(String, OwnerId, u64)>>,
    looked: AtomicU64,
}

impl Heard {
    fn hints(&self) -> Vec<(String, OwnerId, u64)> {
        self.hints.lock().unwrap().clone()
    }

    fn looked(&self) -> u64 {
        self.looked.load(Ordering::Acquire)
    }
}

impl HintReceiver for Heard {
    fn hint(&self, hint: &Hint<'_>) -> bool {
        self.hints
            .lock()
            .unwrap()
            .push((hint.key.to_owned(), hint.owner, hint.fence));
        true
    }

    fn look_again(&self) -> bool {
        self.looked.fetch_add(1, Ordering::Release);
        true
    }
}

/// Attaches a client and waits until it hears of the server.
async fn attach(store: &RedisStore) -> (OwnerId, Arc<Heard>) {
    let (client, heard) = (ClientId::new(&SystemRandom), Arc::new(Heard::default()));
    store.attach(client, HintSink::new(heard.clone()));
    eventually(DEADLINE, "it is subscribed", async || heard.looked() > 0).await;
    (OwnerId::new(client, 1), heard)
}

async fn ask(store: &RedisStore, key: &LockKey, owner: OwnerId) -> AcquireOutcome {
    let ttl = Duration::from_secs(30);
    store
        .acquire(
            AcquireRequest::new(key, owner, ttl)
                .queue(Queue::ForLease)
                .label("x"),
        )
        .await
        .unwrap()
}

#[tokio::test]
async fn a_grant_is_told_to_the_waiter_alone() {
    let server = RedisServer::start().await;
    let config = || RedisConfig {
        namespace: "my:locks".into(),
        ..RedisConfig::new(server.url())
    };
    let store = RedisStore::connect(config()).await.unwrap();
    let elsewhere = RedisStore::connect(config()).await.unwrap();
    let key = LockKey::new("a key: with spaces é").unwrap();
    let (holder, silent) = attach(&store).await;
    let (waiter, heard) = attach(&elsewhere).await;
    let (next, also_heard) = attach(&store).await;

    assert!(matches!(
        ask(&store, &key, holder).await,
        AcquireOutcome::Granted { .. }
    ));
    assert!(
        matches!(ask(&elsewhere, &key, waiter).await, AcquireOutcome::Busy(_)),
        "broken promise: two hold the key"
    );
    assert!(
        matches!(ask(&store, &key, next).await, AcquireOutcome::Busy(_)),
        "broken promise: two hold the key"
    );
    store
        .release(ReleaseRequest::new(&key, holder))
        .await
        .unwrap();
    eventually(DEADLINE, "the hint arrives", async || {
        !heard.hints().is_empty()
    })
    .await;
    let AcquireOutcome::Granted { fence, .. } = ask(&elsewhere, &key, waiter).await else {
        panic!("it was granted")
    };
    assert_eq!(heard.hints(), [(key.to_string(), waiter, fence)]);

    elsewhere
        .release(ReleaseRequest::new(&key, waiter))
        .await
        .unwrap();
    eventually(DEADLINE, "the hint arrives", async || {
        !also_heard.hints().is_empty()
    })
    .await;
    assert!(
        also_heard.hints()[0].2 > fence,
        "broken promise: the token did not grow"
    );
    assert!(silent.hints().is_empty());
}

#[tokio::test]
async fn who_asks_for_a_free_lock_wakes_the_first_waiter() {
    let server = RedisServer::start().await;
    let store = RedisStore::connect(RedisConfig::new(server.url()))
        .await
        .unwrap();
    let key = LockKey::new("k").unwrap();
    let (waiter, heard) = attach(&store).await;
    let stranger = OwnerId::new(ClientId::new(&SystemRandom), 1);
    ask(&store, &key, stranger).await;
    ask(&store, &key, waiter).await;
    let mut behind = server.connection().await;
    redis::cmd("DEL")
        .arg("dlock:{k}")
        .exec_async(&mut behind)
        .await
        .unwrap();
    let AcquireOutcome::Busy(busy) = ask(&store, &key, stranger).await else {
        panic!("queue jumped")
    };
    eventually(DEADLINE, "the hint arrives", async || {
        !heard.hints().is_empty()
    })
    .await;
    assert_eq!(heard.hints(), [("k".to_owned(), waiter, busy.last_fence)]);
}

#[tokio::test]
async fn waiters_look_again_when_hints_may_have_been_missed() {
    let server = RedisServer::start().await;
    let proxy = Proxy::start(server.port());
    let store = RedisStore::connect(RedisConfig::new(proxy.url()))
        .await
        .unwrap();
    let (waiter, heard) = attach(&store).await;
    let key = LockKey::new("k").unwrap();
    let stranger = OwnerId::new(ClientId::new(&SystemRandom), 1);

    for restart in [false, true] {
        let before = heard.looked();
        if restart {
            server.restart().await;
        } else {
            proxy.cut();
        }
        // Without anybody asking for anything.
        eventually(DEADLINE, "it is told to look again", async || {
            heard.looked() > before
        })
        .await;
        let before = heard.hints().len();
        ask(&store, &key, stranger).await;
        ask(&store, &key, waiter).await;
        store
            .release(ReleaseRequest::new(&key, stranger))
            .await
            .unwrap();
        eventually(DEADLINE, "hints arrive again", async || {
            heard.hints().len() > before
        })
        .await;
        store
            .release(ReleaseRequest::new(&key, waiter))
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn foreign_messages_do_no_harm() {
    let server = RedisServer::start().await;
    let store = RedisStore::connect(RedisConfig::new(server.url()))
        .await
        .unwrap();
    let (waiter, heard) = attach(&store).await;
    let channel = format!("dlock:wake:{}", waiter.client());
    let mut behind = server.connection().await;
    for message in ["", "hello", "a b c", "\u{0}", &"x".repeat(100_000)] {
        let publish = redis::cmd("PUBLISH").arg(&channel).arg(message).to_owned();
        publish.exec_async(&mut behind).await.unwrap();
    }
    let last = format!("{waiter} 7 k");
    redis::cmd("PUBLISH")
        .arg(&channel)
        .arg(last)
        .exec_async(&mut behind)
        .await
        .unwrap();
    eventually(DEADLINE, "the hint arrives", async || {
        !heard.hints().is_empty()
    })
    .await;
    assert_eq!(heard.hints(), [("k".to_owned(), waiter, 7)]);
    assert_eq!(heard.looked(), 1, "the connection is still the first");
}

#[tokio::test]
async fn a_missing_channel_is_named() {
    let server = RedisServer::start().await;
    let mut behind = server.connection().await;
    let rules = "on >s3cret +@all ~dlock:* resetchannels";
    redis::cmd("ACL")
        .arg("SETUSER")
        .arg("me")
        .arg(rules.split(' ').collect::<Vec<_>>())
        .exec_async(&mut behind)
        .await
        .unwrap();
    let url = format!("redis://me:s3cret@127.0.0.1:{}", server.port());
    let store = RedisStore::connect_lazy(RedisConfig::new(url)).unwrap();
    let client = ClientId::new(&SystemRandom);
    let heard = Arc::new(Heard::default());
    store.attach(client, HintSink::new(heard.clone()));
    let (key, owner) = (LockKey::new("k").unwrap(), OwnerId::new(client, 1));
    eventually(DEADLINE, "the failure is named", async || {
        let renewal = RenewRequest::new(&key, owner, Duration::from_secs(1)).label("x");
        let renewal = store.renew_one(renewal).await;
        renewal.is_err_and(|error| {
            error.kind() == StoreErrorKind::Denied && error.to_string().contains("`dlock:wake:*`")
        })
    })
    .await;

    let grant = redis::cmd("ACL")
        .arg(&["SETUSER", "me", "&dlock:*"])
        .to_owned();
    grant.exec_async(&mut behind).await.unwrap();
    eventually(DEADLINE, "it is subscribed", async || heard.looked() > 0).await;
}
