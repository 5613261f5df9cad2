//! The store: a claim on a key is a key in etcd with a lease of its own, and the oldest claim holds.
//!
//! # Rules
//!
//! - **Safety.** Claims are ordered by their create revisions, see `queue.rs`. A fence is a base plus that revision, see
//!   `base.rs`.
//! - **Safety.** Every read is linearizable, and a keep-alive counts only beside a request that a majority answered in the
//!   same term, see `calls.rs`.
//! - **Safety.** A late request changes nothing, see `requests.rs`.
//! - The store's own connection is on a thread of the store. If a request has no answer, the connection is tried, and
//!   replaced by one to the next member if it does not answer either. Callers have another one, see `near.rs`.
//! - Waiters are woken by watches, see `follow.rs`, and holders hear of operators, see `notices.rs`. All waiters of a process
//!   together keep their places by a few requests, see `places.rs`.

use std::{fmt, sync::Arc, time::Duration};

use dlock_net::Worker;
use dlock_runtime::{
    ConnectError, LockKey, MAX_TTL,
    store::{
        AcquireOutcome, AcquireRequest, ClientId, Detaching, HintSink, LockModes, LockStore,
        OwnerId, ReleaseRequest, Released, RenewBatch, Renewal, StoreError, StoreErrorKind,
        StoreHooks, StoreOptions, StoreProperties,
    },
};
use tokio::{sync::watch, time::timeout};

use crate::{
    claims::Claims,
    config::Config,
    core::Core,
    follow::Follow,
    leases::{DRIFT, Leases},
    notices::Notices,
    places::Places,
    session::Session,
};

/// etcd counts TTLs in whole seconds.
const SHORTEST_TTL: Duration = Duration::from_secs(1);

/// Locks in etcd.
///
/// A manager makes one from a URL, see [`Etcd`](crate::Etcd). It has two connections to one of the members: one on a thread of its
/// own, and one on the runtime of the first caller for acquiring and releasing.
///
/// ```no_run
/// use dlock_etcd::EtcdStore;
/// use dlock_runtime::{LockManager, store::StoreOptions};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let store = EtcdStore::open("etcd://etcd-1,etcd-2,etcd-3", &StoreOptions::default())?;
/// let manager = LockManager::builder().build_with_store(store)?;
/// # Ok(()) }
/// ```
pub struct EtcdStore {
    pub(crate) core: Arc<Core>,
    notices: Notices,
    worker: Worker,
}

impl EtcdStore {
    /// Creates the store of `url`, and starts to connect in the background.
    ///
    /// # Errors
    ///
    /// [`ConnectError::InvalidUrl`] if the URL or an option is invalid, and [`ConnectError::InvalidOption`] if a file cannot
    /// be used.
    pub fn open(url: &str, options: &StoreOptions) -> Result<Self, ConnectError> {
        let config = Arc::new(Config::parse(url, options)?);
        let worker = Worker::start("dlock-etcd").map_err(|error| ConnectError::Unavailable {
            url: config.shown.clone(),
            reason: StoreError::new(StoreErrorKind::Unreachable, format!("no thread: {error}")),
        })?;
        let session = Session::start(&worker, config.clone());
        let follow = Follow::new(&worker, config.clone(), session.clone());
        let notices = Notices::new(&worker, config.clone(), session.clone());
        let core = Core {
            config,
            session,
            claims: Claims::default(),
            leases: Leases::default(),
            follow,
            places: Places::default(),
            departing: watch::Sender::new(0),
        };
        let core = Arc::new(core);
        let beating = core.clone();
        let beat = async move { beating.keep_places().await };
        worker.tasks().spawn(beat);
        Ok(Self {
            core,
            notices,
            worker,
        })
    }

    /// Waits until a member answers.
    pub(crate) async fn ready(&self) -> Result<(), ConnectError> {
        let ready = self.core.session.conn().await;
        ready.map(drop).map_err(|reason| ConnectError::Unavailable {
            url: self.core.config.shown.clone(),
            reason,
        })
    }

    /// The name and the create revision of a claim's key in etcd.
    pub(crate) fn place_of(&self, key: &LockKey, owner: OwnerId) -> Option<(Vec<u8>, i64)> {
        let (create, named_by) = self.core.claims.known(key, owner)?;
        let names = self.core.names(key.as_str(), owner);
        Some((names.own(named_by), create))
    }
}

impl fmt::Debug for EtcdStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("EtcdStore").field(&self.core.config).finish()
    }
}

impl LockStore for EtcdStore {
    async fn acquire(&self, request: AcquireRequest<'_>) -> Result<AcquireOutcome, StoreError> {
        // The steps of a request make a large future.
        Box::pin(self.core.acquire(request)).await
    }

    async fn renew(&self, batch: RenewBatch<'_>) -> Vec<Result<Renewal, StoreError>> {
        Box::pin(self.core.renew(batch)).await
    }

    async fn release(&self, request: ReleaseRequest<'_>) -> Result<Released, StoreError> {
        Box::pin(self.core.release(request)).await
    }

    fn properties(&self) -> StoreProperties<'_> {
        StoreProperties::new()
            .grants(true)
            .modes(LockModes::ALL)
            .ttls(SHORTEST_TTL, MAX_TTL)
            .drift(DRIFT)
            .hooks(self)
            .extension(self)
    }
}

impl StoreHooks for EtcdStore {
    fn attach(&self, client: ClientId, hints: HintSink) {
        self.notices.attach(client, hints.clone());
        self.core.follow.attach(client, hints);
    }

    fn detach(&self, client: ClientId) -> Detaching<'_> {
        self.notices.detach(client);
        self.core.follow.detach(client);
        Box::pin(std::future::ready(()))
    }

    /// The thread of the store outlives the runtimes of its users.
    fn release_at_once(&self, request: ReleaseRequest<'_>) -> bool {
        let (core, key, owner) = (self.core.clone(), request.key.clone(), request.owner);
        core.departing.send_modify(|count| *count += 1);
        let work = self.worker.work();
        self.worker.handle().spawn(async move {
            let released = core.release(ReleaseRequest::new(&key, owner));
            // Without an answer, the lease ends by itself.
            timeout(core.config.response_limit, released).await.ok();
            core.departing.send_modify(|count| *count -= 1);
            drop(work);
        });
        true
    }
}
