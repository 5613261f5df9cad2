//! A store behind a pointer, so that a manager needs no type parameter, and only in its own process.

use std::{future::Future, pin::Pin, time::Duration};

use tokio::runtime::Handle;

use super::{
    AcquireOutcome, AcquireRequest, HintSink, LockStore, Raised, Released, RenewRequest, Renewal,
    StoreError,
};
use crate::{
    clock::Moment,
    key::LockKey,
    owner::{ClientId, OwnerId},
    process::Process,
};

type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
type Answer<'a, T> = Boxed<'a, Result<T, StoreError>>;

/// [`LockStore`], whose futures are boxed.
pub(crate) trait DynStore: Send + Sync {
    fn acquire<'a>(&'a self, request: AcquireRequest<'a>) -> Answer<'a, AcquireOutcome>;
    fn renew<'a>(&'a self, request: RenewRequest<'a>) -> Answer<'a, Renewal>;
    fn renew_all<'a>(
        &'a self,
        requests: &'a [RenewRequest<'a>],
        limit: Duration,
    ) -> Boxed<'a, Vec<Result<Renewal, StoreError>>>;
    fn prepare_renewals(&self, runtime: &Handle);
    fn release<'a>(&'a self, key: &'a LockKey, owner: OwnerId) -> Answer<'a, Released>;
    fn raise<'a>(
        &'a self,
        key: &'a LockKey,
        owner: OwnerId,
        from: u64,
        to: u64,
    ) -> Answer<'a, Raised>;
    fn release_at_once(&self, key: &LockKey, owner: OwnerId) -> bool;
    fn attach(&self, client: ClientId, hints: HintSink);
    fn detach(&self, client: ClientId) -> Boxed<'_, ()>;
    fn gives_up_after(&self) -> Option<Duration>;
    fn hands_on(&self) -> bool;
    fn drift(&self, ttl: Duration) -> Duration;
}

impl<S: LockStore> DynStore for S {
    fn acquire<'a>(&'a self, request: AcquireRequest<'a>) -> Answer<'a, AcquireOutcome> {
        Box::pin(LockStore::acquire(self, request))
    }

    fn renew<'a>(&'a self, request: RenewRequest<'a>) -> Answer<'a, Renewal> {
        Box::pin(LockStore::renew(self, request))
    }

    fn renew_all<'a>(
        &'a self,
        requests: &'a [RenewRequest<'a>],
        limit: Duration,
    ) -> Boxed<'a, Vec<Result<Renewal, StoreError>>> {
        Box::pin(LockStore::renew_all(self, requests, limit))
    }

    fn prepare_renewals(&self, runtime: &Handle) {
        LockStore::prepare_renewals(self, runtime);
    }

    fn release<'a>(&'a self, key: &'a LockKey, owner: OwnerId) -> Answer<'a, Released> {
        Box::pin(LockStore::release(self, key, owner))
    }

    fn raise<'a>(
        &'a self,
        key: &'a LockKey,
        owner: OwnerId,
        from: u64,
        to: u64,
    ) -> Answer<'a, Raised> {
        Box::pin(LockStore::raise(self, key, owner, from, to))
    }

    fn release_at_once(&self, key: &LockKey, owner: OwnerId) -> bool {
        LockStore::release_at_once(self, key, owner)
    }

    fn attach(&self, client: ClientId, hints: HintSink) {
        LockStore::attach(self, client, hints);
    }

    fn detach(&self, client: ClientId) -> Boxed<'_, ()> {
        Box::pin(LockStore::detach(self, client))
    }

    fn gives_up_after(&self) -> Option<Duration> {
        LockStore::gives_up_after(self)
    }

    fn hands_on(&self) -> bool {
        LockStore::hands_on(self)
    }

    fn drift(&self, ttl: Duration) -> Duration {
        LockStore::drift(self, ttl)
    }
}

/// A manager's store, which takes requests in the process that it was given in only.
pub(crate) struct OwnStore {
    store: Box<dyn DynStore>,
    process: Process,
}

impl OwnStore {
    pub(crate) fn new(store: impl LockStore) -> Self {
        Self {
            store: Box::new(store),
            process: Process::this(),
        }
    }

    /// Where requests are sent to that are made at `now`.
    ///
    /// # Errors
    ///
    /// In a forked child, which would send them over its parent's connections.
    pub(crate) fn at(&self, now: Moment) -> Result<&dyn DynStore, StoreError> {
        self.process.check(now.monotonic)?;
        Ok(&*self.store)
    }

    /// Whether this process may use it, and what was got of it.
    pub(crate) fn is_ours(&self, now: Moment) -> bool {
        self.process.is_this(now.monotonic)
    }

    pub(crate) fn attach(&self, client: ClientId, hints: HintSink) {
        self.store.attach(client, hints);
    }

    pub(crate) fn gives_up_after(&self) -> Option<Duration> {
        self.store.gives_up_after()
    }

    pub(crate) fn hands_on(&self) -> bool {
        self.store.hands_on()
    }

    pub(crate) fn drift(&self, ttl: Duration) -> Duration {
        self.store.drift(ttl)
    }
}
