//! A store behind a pointer, so that a manager needs no type parameter.

use std::{future::Future, pin::Pin, time::Duration};

use tokio::runtime::Handle;

use super::{
    AcquireRequest, Acquisition, HintSink, LockStore, Raised, Released, RenewRequest, Renewal,
    StoreError,
};
use crate::{
    key::LockKey,
    owner::{ClientId, OwnerId},
};

type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
type Answer<'a, T> = Boxed<'a, Result<T, StoreError>>;

/// [`LockStore`], whose futures are boxed.
pub(crate) trait DynStore: Send + Sync {
    fn acquire<'a>(&'a self, request: AcquireRequest<'a>) -> Answer<'a, Acquisition>;
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
    fn gives_up_after(&self) -> Option<Duration>;
    fn hands_on(&self) -> bool;
    fn drift(&self, ttl: Duration) -> Duration;
}

impl<S: LockStore> DynStore for S {
    fn acquire<'a>(&'a self, request: AcquireRequest<'a>) -> Answer<'a, Acquisition> {
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
