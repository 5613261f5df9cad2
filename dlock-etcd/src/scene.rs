//! Stores over a server, and their claims, for tests that look inside.

use std::{sync::Arc, time::Duration};

use dlock_runtime::{
    LockKey, LockMode,
    clock::{Clock, Moment, SystemClock},
    random::SystemRandom,
    store::{
        AcquireOutcome, AcquireRequest, ClientId, Hint, HintReceiver, HintSink, LockStore, OwnerId,
        Queue, ReleaseRequest, Released, RenewRequest, Renewal, StoreError, StoreOptions,
    },
};
use dlock_testkit::EtcdServer;
use tokio::sync::mpsc;

use crate::{EtcdStore, conn::Conn};

/// Longer than anything takes, also on a busy machine.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// A lease that no test outlasts.
pub(crate) const TTL: Duration = Duration::from_secs(120);

pub(crate) struct Heard(pub(crate) mpsc::UnboundedSender<(OwnerId, u64)>);

impl HintReceiver for Heard {
    fn hint(&self, hint: &Hint<'_>) -> bool {
        self.0.send((hint.owner, hint.fence)).is_ok()
    }

    fn look_again(&self) -> bool {
        true
    }
}

/// A process with its store.
pub(crate) struct Scene {
    pub(crate) store: EtcdStore,
    client: ClientId,
    pub(crate) heard: mpsc::UnboundedReceiver<(OwnerId, u64)>,
}

impl Scene {
    /// Opens a store that gives up no request.
    pub(crate) fn open(port: u16) -> Self {
        Self::with(port, |options| options.response_timeout = 2 * LONG)
    }

    pub(crate) fn with(port: u16, choose: impl FnOnce(&mut StoreOptions)) -> Self {
        let mut options = StoreOptions::default();
        choose(&mut options);
        let store = EtcdStore::open(&format!("etcd://127.0.0.1:{port}"), &options).unwrap();
        let client = ClientId::new(&SystemRandom);
        let (send, heard) = mpsc::unbounded_channel();
        let hooks = store.properties().hooks.unwrap();
        hooks.attach(client, HintSink::new(Arc::new(Heard(send))));
        Self {
            store,
            client,
            heard,
        }
    }

    /// A store without a server.
    pub(crate) fn alone() -> Self {
        Self::open(1)
    }

    pub(crate) fn client(&self) -> ClientId {
        self.client
    }

    pub(crate) fn owner(&self, number: u64) -> OwnerId {
        OwnerId::new(self.client, number)
    }

    pub(crate) async fn conn(&self) -> Arc<Conn> {
        self.store.core.session.conn().await.unwrap()
    }

    pub(crate) async fn ask(
        &self,
        key: &LockKey,
        owner: OwnerId,
    ) -> Result<AcquireOutcome, StoreError> {
        let request = AcquireRequest::new(key, owner, TTL).queue(Queue::ForLease);
        self.store.acquire(request).await
    }

    /// Acquires a free lock, and returns its fence.
    pub(crate) async fn hold(&self, key: &LockKey, owner: OwnerId) -> u64 {
        match self.ask(key, owner).await {
            Ok(AcquireOutcome::Granted { fence, .. }) => fence,
            other => panic!("{key}: {other:?}"),
        }
    }

    pub(crate) async fn share(&self, key: &LockKey, owner: OwnerId) -> u64 {
        let request = AcquireRequest::new(key, owner, TTL).mode(LockMode::Shared);
        match self.store.acquire(request).await {
            Ok(AcquireOutcome::Granted { fence, .. }) => fence,
            other => panic!("{key}: {other:?}"),
        }
    }

    /// Gets a place behind a holder.
    pub(crate) async fn wait(&self, key: &LockKey, owner: OwnerId) {
        let answer = self.ask(key, owner).await;
        assert!(
            matches!(answer, Ok(AcquireOutcome::Busy(_))),
            "broken promise: two hold `{key}`: {answer:?}"
        );
    }

    pub(crate) async fn renew(&self, key: &LockKey, owner: OwnerId) -> Result<Renewal, StoreError> {
        let request = RenewRequest::new(key, owner, TTL);
        self.store.renew_one(request).await
    }

    pub(crate) async fn release(&self, key: &LockKey, owner: OwnerId) -> Released {
        let request = ReleaseRequest::new(key, owner);
        self.store.release(request).await.unwrap()
    }

    /// From now on no watch reports a change of the key.
    pub(crate) fn blind(&self, key: &LockKey) {
        let stopped = self.store.core.follow.with(key, |followed| {
            let task = followed.task.as_ref().expect("the key is watched");
            task.handle.abort();
        });
        assert!(stopped.is_some(), "`{key}` is followed");
    }

    pub(crate) fn is_followed(&self, key: &LockKey) -> bool {
        self.store.core.follow.with(key, |_| ()).is_some()
    }
}

pub(crate) fn key(text: &str) -> LockKey {
    LockKey::new(text).unwrap()
}

/// A moment before now.
pub(crate) fn ago(time: Duration) -> Moment {
    let now = SystemClock.now();
    Moment {
        monotonic: now.monotonic - time,
        boot: now.boot.saturating_sub(time),
    }
}

/// The names of the claims on a key.
pub(crate) async fn claims(server: &EtcdServer, key: &LockKey) -> Vec<String> {
    server.keys(&format!("dlock/{key}/")).await
}

/// The name of the only claim on a key.
pub(crate) async fn claim(server: &EtcdServer, key: &LockKey) -> String {
    let names = claims(server, key).await;
    let [name] = &names[..] else {
        panic!("one claim: {names:?}");
    };
    name.clone()
}
