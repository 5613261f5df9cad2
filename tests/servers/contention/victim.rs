//! A waiter whose store says nothing of grants but what the test says in its name, and when.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use dlock::{
    LockError, LockGuard, LockManager, Wait,
    store::{
        AcquireOutcome, AcquireRequest, ClientId, Detaching, Hint, HintSink, LockStore, OwnerId,
        ReleaseRequest, Released, RenewBatch, Renewal, StoreError, StoreHooks, StoreProperties,
        memory::MemoryStore,
    },
};
use dlock_testkit::eventually;
use tokio::task::JoinHandle;

use crate::common::{Kind, LIMIT, OneKey, TestClock, Wire, soon};

pub(crate) const KEY: &str = "order:42";
/// For how long a stranger's lease lasts.
pub(crate) const TTL: Duration = Duration::from_secs(30);

/// A memory store that keeps its hints to itself.
#[derive(Clone, Default)]
pub(crate) struct Hushed {
    store: MemoryStore,
    sinks: Arc<Mutex<HashMap<ClientId, HintSink>>>,
}

impl Hushed {
    /// Tells `owner` that it was granted the key with `fence`, be it true or not.
    pub(crate) fn hint(&self, owner: OwnerId, fence: u64) {
        let sink = self.sinks.lock().unwrap()[&owner.client()].clone();
        let hint = Hint::new(KEY, owner, fence);
        assert!(sink.hint(&hint), "its manager lives");
    }
}

impl LockStore for Hushed {
    async fn acquire(&self, request: AcquireRequest<'_>) -> Result<AcquireOutcome, StoreError> {
        self.store.acquire(request).await
    }

    async fn renew(&self, batch: RenewBatch<'_>) -> Vec<Result<Renewal, StoreError>> {
        self.store.renew(batch).await
    }

    async fn release(&self, request: ReleaseRequest<'_>) -> Result<Released, StoreError> {
        self.store.release(request).await
    }

    fn properties(&self) -> StoreProperties<'_> {
        StoreProperties::new().grants(true).hooks(self)
    }
}

impl StoreHooks for Hushed {
    fn attach(&self, client: ClientId, hints: HintSink) {
        self.sinks.lock().unwrap().insert(client, hints);
    }

    fn detach(&self, client: ClientId) -> Detaching<'_> {
        self.store.detach(client)
    }

    fn release_at_once(&self, _request: ReleaseRequest<'_>) -> bool {
        false
    }
}

/// A waiter, the owner by which the store knows it, and who holds the key with which fence.
pub(crate) struct Behind {
    pub(crate) waiting: Waiting,
    pub(crate) owner: OwnerId,
    pub(crate) holder: OwnerId,
    pub(crate) fence: u64,
}

/// One manager behind a [`Wire`], and strangers who talk to the store directly.
pub(crate) struct Victim {
    pub(crate) store: Hushed,
    pub(crate) wire: Wire<Hushed>,
    pub(crate) manager: LockManager,
    pub(crate) key: OneKey<MemoryStore>,
}

pub(crate) type Waiting = JoinHandle<Result<LockGuard, LockError>>;

impl Victim {
    pub(crate) fn new() -> Self {
        let store = Hushed::default();
        let wire = Wire::new(store.clone());
        let builder = LockManager::builder().clock(TestClock::new());
        Self {
            manager: builder.build_with_store(wire.clone()).unwrap(),
            key: OneKey::new(store.store.clone(), KEY),
            store,
            wire,
        }
    }

    /// One with a waiter in the queue, behind a stranger who holds the key.
    pub(crate) async fn behind_a_holder() -> (Self, Behind) {
        let victim = Self::new();
        let holder = OneKey::<Hushed>::owner();
        let fence = victim.key.granted(holder, TTL).await;
        let (waiting, owner) = victim.wait().await;
        let behind = Behind {
            waiting,
            owner,
            holder,
            fence,
        };
        (victim, behind)
    }

    /// A waiter in the queue of the store, and the owner by which that knows it.
    pub(crate) async fn wait(&self) -> (Waiting, OwnerId) {
        let asked = self.wire.count(Kind::Acquire);
        let lock = self.manager.lock(KEY).wait(Wait::Forever);
        let waiting = tokio::spawn(lock.acquire());
        self.wire.until_sent(Kind::Acquire, asked + 1).await;
        self.key.until_waiting(1).await;
        (waiting, self.wire.sent().last().unwrap().owner)
    }

    /// The last fence that the store has given.
    pub(crate) async fn last_fence(&self) -> u64 {
        let probe = OneKey::<MemoryStore>::owner();
        match self.key.ask_once(probe, LIMIT).await {
            AcquireOutcome::Busy(holder) => holder.last_fence,
            other => panic!("broken promise: two hold the key: {other:?}"),
        }
    }

    /// Somebody else has the lock as soon as it can be had.
    pub(crate) async fn stranger(&self, ttl: Duration) -> (OwnerId, u64) {
        let stranger = OneKey::<MemoryStore>::owner();
        let fence = Mutex::new(0);
        eventually(LIMIT, "somebody else gets the lock", async || {
            match self.key.ask_once(stranger, ttl).await {
                AcquireOutcome::Granted { fence: granted, .. } => {
                    *fence.lock().unwrap() = granted;
                    true
                }
                _ => false,
            }
        })
        .await;
        let fence = *fence.lock().unwrap();
        (stranger, fence)
    }

    /// The hint makes the waiter ask, and nothing else.
    pub(crate) async fn assert_asks(&self, waiting: &Waiting, hint: (OwnerId, u64)) {
        let asked = self.wire.count(Kind::Acquire);
        self.store.hint(hint.0, hint.1);
        eventually(LIMIT, "the waiter does something", async || {
            self.wire.count(Kind::Acquire) > asked || waiting.is_finished()
        })
        .await;
        assert!(!waiting.is_finished(), "it believed the hint");
    }

    pub(crate) async fn finish(&self, waiting: Waiting, above: u64) {
        let guard = soon(waiting).await.unwrap().unwrap();
        assert!(
            guard.fencing_token().fence() > above,
            "broken promise: the token did not grow"
        );
        soon(guard.release()).await.unwrap();
        self.assert_clean().await;
    }

    pub(crate) async fn assert_clean(&self) {
        crate::common::assert_idle(&[&self.manager]).await;
        assert!(self.key.store.is_empty());
        self.wire.assert_nothing_is_owed();
    }
}
