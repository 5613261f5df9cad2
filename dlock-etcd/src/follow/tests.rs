//! Tests of watches that end and begin again, with a server.

use dlock_runtime::{
    random::SystemRandom,
    store::{
        AcquireOutcome, AcquireRequest, LockStore, Queue as Queueing, ReleaseRequest, StoreError,
    },
};
use dlock_testkit::{EtcdServer, eventually, log, within};
use tokio::sync::mpsc;

use super::*;
use crate::{
    EtcdStore,
    beat::tests::{Heard, LONG, TTL, open},
    keys::{Stage, Value},
    proto::KeyValue,
    scene::{Scene, key},
};

const KEY: &str = "order:42";

/// A process with two waiters for one key.
struct Waiters {
    store: EtcdStore,
    owners: [OwnerId; 2],
    heard: mpsc::UnboundedReceiver<u64>,
    key: LockKey,
}

impl Waiters {
    fn new(server: &EtcdServer) -> Self {
        let store = open(server);
        let client = ClientId::new(&SystemRandom);
        let (send, heard) = mpsc::unbounded_channel();
        let hooks = store.properties().hooks.unwrap();
        hooks.attach(client, HintSink::new(Arc::new(Heard(send))));
        Self {
            store,
            owners: [1, 2].map(|number| OwnerId::new(client, number)),
            heard,
            key: LockKey::new(KEY).unwrap(),
        }
    }

    async fn ask(&self, owner: OwnerId) -> Result<AcquireOutcome, StoreError> {
        let request = AcquireRequest::new(&self.key, owner, TTL).queue(Queueing::ForLease);
        self.store.acquire(request).await
    }

    /// Returns `None` if the process has no place in the queue of the key.
    fn is_watched(&self) -> Option<bool> {
        let follow = &self.store.core.follow;
        follow.with(&self.key, |followed| followed.is_watched())
    }

    async fn is_told(&mut self) -> bool {
        let told = within(Duration::from_secs(3), self.heard.recv()).await;
        told.flatten().is_some_and(|fence| fence > 0)
    }
}

async fn release(store: &EtcdStore, key: &LockKey, owner: OwnerId) {
    let released = store.release(ReleaseRequest::new(key, owner)).await;
    released.unwrap();
}

#[tokio::test]
async fn a_holder_watches_its_key_no_longer() {
    let server = EtcdServer::start().await;
    eventually(LONG, "all before a place ends", async || {
        ends_and_begins_again(&server).await
    })
    .await;
}

#[tokio::test]
async fn a_waiter_beyond_the_watches_is_woken_by_a_beat() {
    let server = EtcdServer::start().await;
    eventually(LONG, "it is told before its place ends", async || {
        is_told_by_a_beat(&server).await
    })
    .await;
}

/// Returns `false` if the machine was so slow that the place ended.
async fn is_told_by_a_beat(server: &EtcdServer) -> bool {
    let holder = open(server);
    let mut waiters = Waiters::new(server);
    let conn = waiters.store.core.session.conn().await.unwrap();
    let all = conn.watches.available_permits();
    let (first, second) = (waiters.key.clone(), LockKey::new("order:43").unwrap());
    let held = OwnerId::new(ClientId::new(&SystemRandom), 1);
    for key in [&first, &second] {
        let granted = holder.acquire(AcquireRequest::new(key, held, TTL)).await;
        assert!(matches!(granted, Ok(AcquireOutcome::Granted { .. })));
    }
    let watched = waiters.ask(waiters.owners[0]).await;
    eventually(LONG, "its watch is counted", async || {
        conn.watches.available_permits() == all - 1
    })
    .await;
    // No other one may be open.
    conn.watches.forget_permits(all);
    waiters.key = second.clone();
    let waits = waiters.ask(waiters.owners[1]).await;
    let are_busy = matches!(
        [&watched, &waits],
        [Ok(AcquireOutcome::Busy(_)), Ok(AcquireOutcome::Busy(_))]
    );
    release(&holder, &second, held).await;
    let is_told = are_busy && waiters.is_told().await;
    for (key, owner) in [&first, &second].into_iter().zip(waiters.owners) {
        release(&waiters.store, key, owner).await;
    }
    release(&holder, &first, held).await;
    is_told
}

/// Returns `false` if the machine was so slow that a place ended.
async fn ends_and_begins_again(server: &EtcdServer) -> bool {
    let holder = open(server);
    let mut waiters = Waiters::new(server);
    let [first, second] = waiters.owners;
    let key = waiters.key.clone();
    let held = OwnerId::new(ClientId::new(&SystemRandom), 1);
    let request = AcquireRequest::new(&key, held, TTL);
    if !matches!(
        holder.acquire(request).await,
        Ok(AcquireOutcome::Granted { .. })
    ) {
        return false;
    }
    let waits = matches!(waiters.ask(first).await, Ok(AcquireOutcome::Busy(_)))
        && waiters.is_watched() == Some(true);
    release(&holder, &key, held).await;
    let is_over = waits
        && waiters.is_told().await
        && within(Duration::from_secs(3), async {
            while waiters.is_watched() == Some(true) {
                sleep(Duration::from_millis(1)).await;
            }
        })
        .await
        .is_some()
        && waiters.is_watched() == Some(false)
        // Another one of the same process is told as well.
        && matches!(waiters.ask(second).await, Ok(AcquireOutcome::Busy(_)))
        && waiters.is_watched() == Some(true);
    release(&waiters.store, &key, first).await;
    let is_told = is_over && waiters.is_told().await;
    release(&waiters.store, &key, second).await;
    is_told
}

/// The claims of these owners, one behind the other.
fn queue(owners: &[OwnerId]) -> Queue {
    let kvs: Vec<_> = (4..)
        .zip(owners)
        .map(|(create, owner)| KeyValue {
            key: keys::claim("dlock", KEY, *owner),
            create_revision: create,
            mod_revision: create,
            value: Value::plain(100, Stage::waits_now(None)).to_bytes(),
            lease: 7,
        })
        .collect();
    Queue::read(&kvs)
}

fn wait(scene: &Scene, owner: OwnerId, queue: Queue, revision: i64) {
    let (key, now) = (key(KEY), SystemClock.now());
    let follow = &scene.store.core.follow;
    follow.wait((&key, owner), 7, (queue, revision), now, now);
}

#[tokio::test]
async fn a_waiter_whose_grant_is_read_before_its_watch_begins_is_notified_at_once() {
    let mut scene = Scene::alone();
    let [first, second] = [scene.owner(1), scene.owner(2)];
    wait(&scene, first, queue(&[first, second]), 5);
    assert_eq!(scene.heard.try_recv(), Ok((first, 104)));
    wait(&scene, second, queue(&[first, second]), 5);
    assert!(scene.heard.try_recv().is_err(), "it waits");
    wait(&scene, second, queue(&[first, second]), 5);
    assert!(
        scene.heard.try_recv().is_err(),
        "the first is notified once"
    );
    wait(&scene, second, Queue::read(&[]), 6);
    assert!(scene.heard.try_recv().is_err(), "its key is gone");
}

#[tokio::test]
async fn a_key_is_followed_as_long_as_a_claim_waits_for_it() {
    let scene = Scene::alone();
    let follow = &scene.store.core.follow;
    let [first, second] = [scene.owner(1), scene.owner(2)];
    let holder = scene.owner(3);
    assert!(follow.each(|_, _| ()).is_empty());
    wait(&scene, first, queue(&[holder, first]), 5);
    wait(&scene, second, queue(&[holder, first, second]), 6);
    let task = |followed: &mut Followed| followed.task.as_ref().map(|it| it.handle.clone());
    let key = key(KEY);
    let watch = follow.with(&key, task).flatten().unwrap();
    follow.leave(&key, first);
    follow.leave(&key, holder);
    assert_eq!(follow.each(|it, _| *it == key), [true]);
    assert!(!watch.is_finished());
    follow.leave(&key, second);
    assert!(!scene.is_followed(&key));
    eventually(LONG, "its watch ends", async || watch.is_finished()).await;
    follow.leave(&key, second);
}

#[tokio::test]
async fn a_manager_that_has_ended_gets_no_more_hints() {
    let mut scene = Scene::alone();
    let [first, second] = [scene.owner(1), scene.owner(2)];
    let hooks = scene.store.properties().hooks.unwrap();
    hooks.detach(scene.client()).await;
    wait(&scene, first, queue(&[first]), 5);
    assert!(scene.heard.try_recv().is_err());

    // One that does not take a hint has ended as well.
    let (follow, client) = (&scene.store.core.follow, scene.client());
    let (send, heard) = mpsc::unbounded_channel();
    follow.attach(client, HintSink::new(Arc::new(Heard(send))));
    drop(heard);
    assert!(locked(&follow.shared.sinks).contains_key(&client));
    follow.leave(&key(KEY), first);
    wait(&scene, second, queue(&[second]), 6);
    assert!(!locked(&follow.shared.sinks).contains_key(&client));
}

#[tokio::test]
async fn a_watch_that_ends_is_in_the_log_with_its_reason() {
    log::begin();
    let scene = Scene::alone();
    let key = key("order:unwatched");
    let (owner, now) = (scene.owner(1), SystemClock.now());
    let follow = &scene.store.core.follow;
    let began = Instant::now();
    follow.wait((&key, owner), 7, (Queue::default(), 5), now, now);
    eventually(LONG, "the reason is in the log", async || {
        let lines = log::with("key=order:unwatched");
        let told = lines.iter().filter(|line| {
            line.starts_with("DEBUG a watch ended, and begins again") && line.contains("refused")
        });
        told.count() >= 5
    })
    .await;
    let took = began.elapsed();
    assert!(took >= PAUSE * 4, "there are pauses: {took:?}");
}

#[tokio::test]
async fn a_watch_that_etcd_ends_is_in_the_log_with_its_reason() {
    log::begin();
    let server = EtcdServer::start().await;
    let scene = Scene::open(server.port());
    scene.conn().await;
    let key = key("order:compacted");
    for number in 0..5 {
        server.put("elsewhere", &number.to_string()).await;
    }
    server.compact().await;
    let (owner, now) = (scene.owner(1), SystemClock.now());
    let follow = &scene.store.core.follow;
    follow.wait((&key, owner), 7, (Queue::default(), 1), now, now);
    eventually(LONG, "the reason is in the log", async || {
        let lines = log::with("key=order:compacted");
        lines
            .iter()
            .any(|line| line.starts_with("DEBUG etcd ended a watch") && line.contains("compacted="))
    })
    .await;
    // It begins again, behind a read.
    eventually(LONG, "it is watched", async || {
        let revision = follow.with(&key, |followed| followed.revision());
        revision > Some(1)
    })
    .await;
}
