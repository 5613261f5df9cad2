//! The store: starts requests, and answers for its properties.

#[cfg(test)]
mod tests;

use std::{fmt, future::Future, panic::AssertUnwindSafe, sync::Arc};

use dlock_net::Worker;
use dlock_runtime::{
    ConnectError, LockKey,
    clock::{Clock, SystemClock},
    store::{
        AcquireOutcome, AcquireRequest, ClientId, Detaching, HintSink, LockModes, LockStore,
        OwnerId, Queue, ReleaseRequest, Released, RenewBatch, Renewal, StoreError, StoreErrorKind,
        StoreHooks, StoreOptions, StoreProperties,
    },
};
use futures_util::{FutureExt, future::join_all};
use tokio::{sync::oneshot, time::timeout};

use crate::{
    answers::Answers,
    config::Config,
    session,
    shared::{Core, Request},
    sinks::Sinks,
    slots::Slots,
    timers::Timers,
};

/// Locks in a ZooKeeper ensemble.
///
/// A manager makes one from a URL, see [`ZooKeeper`](crate::ZooKeeper). It has one session, and a thread of its own.
pub struct ZooKeeperStore {
    core: Arc<Core>,
    worker: Worker,
}

impl ZooKeeperStore {
    /// Creates the store of `url`, and starts to connect in the background.
    ///
    /// # Errors
    ///
    /// [`ConnectError::InvalidUrl`] if the URL or an option is invalid.
    pub fn open(url: &str, options: &StoreOptions) -> Result<Self, ConnectError> {
        let config = Arc::new(Config::parse(url, options)?);
        let worker =
            Worker::start("dlock-zookeeper").map_err(|error| ConnectError::Unavailable {
                url: config.shown.clone(),
                reason: StoreError::new(StoreErrorKind::Unreachable, format!("no thread: {error}")),
            })?;
        let answers = Arc::new(Answers::default());
        let sinks = Arc::new(Sinks::default());
        let status = session::start(&worker, config.clone(), sinks.clone());
        let core = Arc::new(Core {
            config,
            status,
            slots: Slots::new(answers.clone()),
            timers: Timers::default(),
            answers,
            sinks,
        });
        let (ending, handle) = (core.clone(), worker.handle().clone());
        worker.tasks().spawn(async move {
            ending.end_children(handle).await;
        });
        Ok(Self { core, worker })
    }

    pub(crate) async fn ready(&self) -> Result<(), ConnectError> {
        let unavailable = |reason| ConnectError::Unavailable {
            url: self.core.config.shown.clone(),
            reason,
        };
        session::current(&self.core.status)
            .await
            .map(drop)
            .map_err(unavailable)
    }

    /// Returns the path of the child of a claim that holds its key.
    pub(crate) fn node_of(&self, key: &LockKey, owner: OwnerId) -> Option<String> {
        self.core.slots.held(key, owner)
    }

    /// Runs a request to its end, also if this future is dropped.
    async fn run<T: Send + 'static>(
        &self,
        request: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        let answered = self.worker.handle().spawn(request);
        answered.await.map_err(|_| closed())?
    }
}

fn closed() -> StoreError {
    StoreError::new(StoreErrorKind::Disconnected, "the store was closed")
}

impl fmt::Debug for ZooKeeperStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ZooKeeperStore")
            .field(&self.core.config)
            .finish()
    }
}

impl LockStore for ZooKeeperStore {
    async fn acquire(&self, request: AcquireRequest<'_>) -> Result<AcquireOutcome, StoreError> {
        if !LockModes::ALL.contains(request.mode) {
            let text = format!("ZooKeeper has no locks with `{}`", request.mode);
            return Err(StoreError::new(StoreErrorKind::Unsupported, text).unsent());
        }
        let (core, handle) = (self.core.clone(), self.worker.handle().clone());
        let request = Request {
            key: request.key.clone(),
            owner: request.owner,
            mode: request.mode,
            ttl: request.ttl,
            waits: request.queue == Queue::ForLease,
            label: request.label.to_owned(),
            function: request.function.to_owned(),
            begun: SystemClock.now(),
        };
        self.run(async move { core.acquire(&handle, request).await })
            .await
    }

    async fn renew(&self, batch: RenewBatch<'_>) -> Vec<Result<Renewal, StoreError>> {
        let begun = SystemClock.now();
        let renewals = batch.requests.iter().map(|request| {
            let request = Request {
                key: request.key.clone(),
                owner: request.owner,
                mode: request.mode,
                ttl: request.ttl,
                waits: false,
                label: request.label.to_owned(),
                function: request.function.to_owned(),
                begun,
            };
            let core = self.core.clone();
            let (answer, answered) = oneshot::channel();
            let renewal = async move {
                // A panic is that of one lease, and the hook of the process has told of it.
                let renewed = AssertUnwindSafe(core.renew(request)).catch_unwind().await;
                // The caller may have given up at its time limit.
                renewed.map(|it| answer.send(it).ok()).ok();
            };
            (renewal, answered)
        });
        let (renewals, answers): (Vec<_>, Vec<_>) = renewals.unzip();
        self.worker.handle().spawn(join_all(renewals));
        let answers = answers.into_iter().map(async |answered| {
            let renewal = async { answered.await.map_err(|_| closed())? };
            match batch.limit {
                Some(limit) => match timeout(limit, renewal).await {
                    Ok(answer) => answer,
                    Err(_) => Err(StoreError::timed_out(limit)),
                },
                None => renewal.await,
            }
        });
        join_all(answers).await
    }

    async fn release(&self, request: ReleaseRequest<'_>) -> Result<Released, StoreError> {
        let core = self.core.clone();
        let (key, owner) = (request.key.clone(), request.owner);
        self.run(async move { core.release(&key, owner).await })
            .await
    }

    fn properties(&self) -> StoreProperties<'_> {
        let shortest = dlock_runtime::MIN_TTL;
        StoreProperties::new()
            .grants(true)
            .modes(LockModes::ALL)
            .ttls(shortest, self.core.config.longest_ttl())
            .hooks(self)
            .extension(self)
    }
}

impl StoreHooks for ZooKeeperStore {
    fn attach(&self, client: ClientId, hints: HintSink) {
        self.core.sinks.attach(client, hints);
    }

    fn detach(&self, client: ClientId) -> Detaching<'_> {
        self.core.sinks.detach(client);
        Box::pin(std::future::ready(()))
    }

    /// The tasks of the store outlive the runtimes of its users. A session carries out its requests in their order, so a
    /// later acquire finds the key free.
    fn release_at_once(&self, request: ReleaseRequest<'_>) -> bool {
        let (core, key, owner) = (self.core.clone(), request.key.clone(), request.owner);
        // Without an answer, the child is deleted when the lease ends. One that was never seen is searched for.
        let release = async move { core.release(&key, owner).await };
        self.worker.handle().spawn(release);
        true
    }
}
