//! Tests of watches that end and begin again, with a server.

use dlock_runtime::{
    random::SystemRandom,
    store::{
        AcquireOutcome, AcquireRequest, LockStore, Queue as Queueing, ReleaseRequest, StoreError,
    },
};
use dlock_testkit::{EtcdServer, eventually, within};
use tokio::sync::mpsc;

use super::*;
use crate::{
    EtcdStore,
    beat::tests::{Heard, LONG, TTL, open},
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
