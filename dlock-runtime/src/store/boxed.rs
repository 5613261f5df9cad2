//! A store behind a pointer, so that a manager needs no type parameter. It accepts requests only in its own
//! process.

use std::{future::Future, pin::Pin, time::Duration};

use super::{
    AcquireOutcome, AcquireRequest, HintSink, LockStore, Proposal, QuorumNode, RaiseRequest,
    Raised, ReleaseRequest, Released, RenewBatch, RenewRequest, Renewal, StoreError, StoreHooks,
    StoreProperties, contract,
};
use crate::{
    clock::Moment, error::ConnectError, options::Timing, owner::ClientId, process::Process,
};

type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
type Answer<'a, T> = Boxed<'a, Result<T, StoreError>>;

/// [`LockStore`] with boxed futures.
pub(crate) trait DynStore: Send + Sync {
    fn acquire<'a>(&'a self, request: AcquireRequest<'a>) -> Answer<'a, AcquireOutcome>;
    fn renew<'a>(&'a self, batch: RenewBatch<'a>) -> Boxed<'a, Vec<Result<Renewal, StoreError>>>;
    fn release<'a>(&'a self, request: ReleaseRequest<'a>) -> Answer<'a, Released>;
    fn properties(&self) -> StoreProperties<'_>;
}

impl dyn DynStore + '_ {
    pub(crate) async fn renew_one(&self, request: RenewRequest<'_>) -> Result<Renewal, StoreError> {
        let requests = [request];
        contract::only(self.renew(RenewBatch::new(&requests)).await)
    }

    pub(crate) fn release_at_once(&self, request: ReleaseRequest<'_>) -> bool {
        let hooks = self.properties().hooks;
        hooks.is_some_and(|hooks| hooks.release_at_once(request))
    }

    pub(crate) async fn detach(&self, client: ClientId) {
        if let Some(hooks) = self.properties().hooks {
            hooks.detach(client).await;
        }
    }
}

impl<S: LockStore> DynStore for S {
    fn acquire<'a>(&'a self, request: AcquireRequest<'a>) -> Answer<'a, AcquireOutcome> {
        Box::pin(LockStore::acquire(self, request))
    }

    fn renew<'a>(&'a self, batch: RenewBatch<'a>) -> Boxed<'a, Vec<Result<Renewal, StoreError>>> {
        Box::pin(LockStore::renew(self, batch))
    }

    fn release<'a>(&'a self, request: ReleaseRequest<'a>) -> Answer<'a, Released> {
        Box::pin(LockStore::release(self, request))
    }

    fn properties(&self) -> StoreProperties<'_> {
        LockStore::properties(self)
    }
}

/// [`QuorumNode`] with boxed futures.
pub(crate) trait DynNode: DynStore {
    fn propose<'a>(&'a self, proposal: Proposal<'a>) -> Answer<'a, AcquireOutcome>;
    fn raise<'a>(&'a self, request: RaiseRequest<'a>) -> Answer<'a, Raised>;
}

impl dyn DynNode + '_ {
    pub(crate) fn hooks(&self) -> Option<&dyn StoreHooks> {
        self.properties().hooks
    }

    pub(crate) fn release_at_once(&self, request: ReleaseRequest<'_>) -> bool {
        let hooks = self.hooks();
        hooks.is_some_and(|hooks| hooks.release_at_once(request))
    }
}

impl<S: QuorumNode> DynNode for S {
    fn propose<'a>(&'a self, proposal: Proposal<'a>) -> Answer<'a, AcquireOutcome> {
        Box::pin(QuorumNode::propose(self, proposal))
    }

    fn raise<'a>(&'a self, request: RaiseRequest<'a>) -> Answer<'a, Raised> {
        Box::pin(QuorumNode::raise(self, request))
    }
}

/// A manager's store. It accepts requests only in the process that created it.
pub(crate) struct OwnStore {
    store: Box<dyn DynStore>,
    /// All properties except the hooks.
    properties: StoreProperties<'static>,
    process: Process,
}

impl OwnStore {
    pub(crate) fn new(store: impl LockStore) -> Self {
        Self {
            properties: LockStore::properties(&store).without_hooks(),
            store: Box::new(store),
            process: Process::this(),
        }
    }

    /// Returns the store for requests at the time `now`.
    ///
    /// # Errors
    ///
    /// In a forked child, because it would send them over its parent's connections.
    pub(crate) fn at(&self, now: Moment) -> Result<&dyn DynStore, StoreError> {
        self.process.check(now.monotonic)?;
        Ok(&*self.store)
    }

    /// Returns `true` unless this process is a fork of the one that created the store.
    pub(crate) fn is_ours(&self, now: Moment) -> bool {
        self.process.is_this(now.monotonic)
    }

    pub(crate) fn attach(&self, client: ClientId, hints: HintSink) {
        if let Some(hooks) = self.store.properties().hooks {
            hooks.attach(client, hints);
        }
    }

    /// Returns the store's extension, if it has this type.
    pub(crate) fn extension<T: 'static>(&self) -> Option<&T> {
        self.store.properties().extension?.downcast_ref()
    }

    pub(crate) fn gives_up_after(&self) -> Option<Duration> {
        self.properties.gives_up_after
    }

    pub(crate) fn hands_on(&self) -> bool {
        self.properties.grants
    }

    /// Checks that a manager with these defaults can use the store.
    ///
    /// # Errors
    ///
    /// [`ConnectError::InvalidOption`] if the store cannot keep their leases, or does not support exclusive
    /// leases.
    pub(crate) fn check(&self, defaults: &Timing) -> Result<(), ConnectError> {
        self.fault(defaults).map_or(Ok(()), |(option, reason)| {
            let reason = reason.into();
            Err(ConnectError::InvalidOption { option, reason })
        })
    }

    /// Returns the option that the store cannot support, and the reason.
    pub(crate) fn fault(&self, timing: &Timing) -> Option<(&'static str, String)> {
        self.properties.fault(timing)
    }

    pub(crate) fn shortest_ttl(&self) -> Duration {
        self.properties.shortest_ttl
    }

    pub(crate) fn drift(&self, ttl: Duration) -> Duration {
        self.properties.drift.of(ttl)
    }
}
