//! A quorum of stores in memory, each behind its own simulated network, in paused time.

mod fences;
mod majorities;
mod model;
mod rounds;
mod waiting;

use std::{
    future::pending,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};

use super::Quorum;
use crate::{
    api::manager::LockManager,
    fence::fence_by_the_clock,
    key::LockKey,
    options::Wait,
    owner::{ClientId, OwnerId},
    random::SystemRandom,
    store::{
        AcquireOutcome, AcquireRequest, Detaching, Drift, HintSink, LockStore, Proposal, Queue,
        QuorumNode, RaiseRequest, Raised, ReleaseRequest, Released, RenewBatch, RenewRequest,
        Renewal, StoreError, StoreErrorKind, StoreHooks, StoreProperties, memory::MemoryStore,
        renew_each,
    },
};

const TTL: Duration = Duration::from_secs(30);
const COUNT: usize = 5;

/// The state of the connection to a store.
#[derive(Clone, Copy, Default)]
struct Way {
    /// The time before a request is carried out.
    there: Duration,
    /// The same time for a raise.
    raise: Duration,
    /// The time that the answer takes.
    back: Duration,
    /// No answer arrives.
    mute: bool,
    /// Requests are not carried out, and no answer arrives.
    swallows: bool,
    /// Requests are refused.
    fails: bool,
    /// The additional drift of the clocks.
    drift: Duration,
    /// The number of requests after which the store is unreachable.
    down_after: Option<usize>,
}

/// A store as one process sees it. A request that was sent is carried out even if its caller is dropped.
#[derive(Clone)]
struct View {
    store: MemoryStore,
    way: Arc<Mutex<Way>>,
    asked: Arc<AtomicUsize>,
    releases: Arc<AtomicUsize>,
}

impl View {
    fn of(store: &MemoryStore) -> Self {
        Self {
            store: store.clone(),
            way: Arc::default(),
            asked: Arc::default(),
            releases: Arc::default(),
        }
    }

    fn way(&self) -> Way {
        *self.way.lock().unwrap()
    }

    fn set(&self, change: impl FnOnce(&mut Way)) {
        change(&mut self.way.lock().unwrap());
    }

    async fn go<T: Send + 'static>(
        &self,
        there: Duration,
        work: impl Future<Output = T> + Send + 'static,
    ) -> T {
        let way = self.way();
        if there.is_zero() && way.back.is_zero() && !way.mute {
            return work.await;
        }
        let carried_out = tokio::spawn(async move {
            if !there.is_zero() {
                sleep(there).await;
            }
            work.await
        });
        let answer = carried_out.await.unwrap();
        if way.mute {
            pending::<()>().await;
        }
        if !way.back.is_zero() {
            sleep(way.back).await;
        }
        answer
    }
}

impl View {
    fn is_down(&self) -> Result<(), StoreError> {
        let number = self.asked.fetch_add(1, Ordering::Relaxed);
        if self.way().down_after.is_some_and(|most| number >= most) {
            let kind = StoreErrorKind::Unreachable;
            return Err(StoreError::new(kind, "it is switched off"));
        }
        Ok(())
    }

    async fn renew_one(&self, request: RenewRequest<'_>) -> Result<Renewal, StoreError> {
        let (store, key) = (self.store.clone(), request.key.clone());
        let (label, function) = (request.label.to_owned(), request.function.to_owned());
        let RenewRequest {
            owner, ttl, mode, ..
        } = request;
        let work = async move {
            let request = RenewRequest::new(&key, owner, ttl).mode(mode);
            let request = request.label(&label).function(&function);
            store.renew_one(request).await
        };
        self.go(self.way().there, work).await
    }
}

impl LockStore for View {
    async fn acquire(&self, request: AcquireRequest<'_>) -> Result<AcquireOutcome, StoreError> {
        self.is_down()?;
        let (store, key) = (self.store.clone(), request.key.clone());
        let (label, function) = (request.label.to_owned(), request.function.to_owned());
        let AcquireRequest {
            owner,
            ttl,
            mode,
            queue,
            ..
        } = request;
        let work = async move {
            let request = AcquireRequest::new(&key, owner, ttl).mode(mode);
            let request = request.queue(queue);
            let request = request.label(&label).function(&function);
            store.acquire(request).await
        };
        self.go(self.way().there, work).await
    }

    async fn renew(&self, batch: RenewBatch<'_>) -> Vec<Result<Renewal, StoreError>> {
        renew_each(batch, |request| self.renew_one(request)).await
    }

    async fn release(&self, request: ReleaseRequest<'_>) -> Result<Released, StoreError> {
        let ReleaseRequest {
            key, owner, mode, ..
        } = request;
        self.releases.fetch_add(1, Ordering::Relaxed);
        let way = self.way();
        if way.swallows {
            pending::<()>().await;
        }
        if way.fails {
            let kind = StoreErrorKind::Refused;
            return Err(StoreError::new(kind, "it does nothing just now"));
        }
        let (store, key) = (self.store.clone(), key.clone());
        let work = async move {
            let request = ReleaseRequest::new(&key, owner).mode(mode);
            store.release(request).await
        };
        self.go(self.way().there, work).await
    }

    fn properties(&self) -> StoreProperties<'_> {
        let properties = self.store.properties().hooks(self);
        properties.drift(Drift::new(0, self.way().drift))
    }
}

impl QuorumNode for View {
    async fn propose(&self, proposal: Proposal<'_>) -> Result<AcquireOutcome, StoreError> {
        self.is_down()?;
        let Proposal {
            request,
            fence,
            notice,
        } = proposal;
        let (store, key) = (self.store.clone(), request.key.clone());
        let (label, function) = (request.label.to_owned(), request.function.to_owned());
        let AcquireRequest {
            owner, ttl, mode, ..
        } = request;
        let work = async move {
            let request = AcquireRequest::new(&key, owner, ttl).mode(mode);
            let request = request.label(&label).function(&function);
            let proposal = Proposal::new(request, fence).notice(notice);
            store.propose(proposal).await
        };
        self.go(self.way().there, work).await
    }

    async fn raise(&self, request: RaiseRequest<'_>) -> Result<Raised, StoreError> {
        let RaiseRequest {
            key,
            owner,
            from,
            to,
            ..
        } = request;
        let (store, key) = (self.store.clone(), key.clone());
        let work = async move { store.raise(RaiseRequest::new(&key, owner, from, to)).await };
        self.go(self.way().raise, work).await
    }
}

impl StoreHooks for View {
    fn attach(&self, client: ClientId, hints: HintSink) {
        self.store.attach(client, hints);
    }

    fn detach(&self, client: ClientId) -> Detaching<'_> {
        self.store.detach(client)
    }

    fn release_at_once(&self, _request: ReleaseRequest<'_>) -> bool {
        false
    }
}

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

fn stores() -> [MemoryStore; COUNT] {
    [(); COUNT].map(|()| MemoryStore::new())
}

/// Returns the stores as another process sees them.
fn views(stores: &[MemoryStore; COUNT]) -> [View; COUNT] {
    stores.each_ref().map(View::of)
}

fn owner() -> OwnerId {
    OwnerId::new(ClientId::new(&SystemRandom), 1)
}

fn key() -> LockKey {
    LockKey::new("order:42").unwrap()
}

async fn ask(quorum: &Quorum, owner: OwnerId) -> Result<AcquireOutcome, StoreError> {
    LockStore::acquire(quorum, AcquireRequest::new(&key(), owner, TTL)).await
}

/// Returns the fence of a grant.
#[track_caller]
fn granted(answer: Result<AcquireOutcome, StoreError>) -> u64 {
    match answer {
        Ok(AcquireOutcome::Granted { fence, .. }) => fence,
        other => panic!("{other:?}"),
    }
}

/// Makes each store count further than any clock, by a different number.
async fn diverge(stores: &[MemoryStore; COUNT], by: [u64; COUNT]) {
    let key = LockKey::new("elsewhere").unwrap();
    let far = fence_by_the_clock() + 1_000_000_000_000;
    for (store, by) in stores.iter().zip(by) {
        let owner = owner();
        let proposal = Proposal::new(AcquireRequest::new(&key, owner, TTL), far + by);
        assert_eq!(granted(store.propose(proposal).await), far + by);
        store
            .release(ReleaseRequest::new(&key, owner))
            .await
            .unwrap();
    }
}
