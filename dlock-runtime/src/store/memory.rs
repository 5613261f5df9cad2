//! Locks inside one process. The other stores are tested against this reference.

mod queue;
mod tables;

use std::{
    fmt,
    sync::{Arc, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use self::{
    queue::Awaits,
    tables::{Granted, Tables},
};
use super::{
    AcquireOutcome, AcquireRequest, Detaching, Drift, HintSink, LockModes, LockStore, Proposal,
    Queue, QuorumNode, RaiseRequest, Raised, ReleaseRequest, Released, RenewBatch, Renewal,
    StoreError, StoreHooks, StoreProperties,
};
use crate::{
    options::MAX_TTL,
    owner::ClientId,
    sync::{Mutex, MutexGuard},
};

/// A store in the memory of this process, for tests, examples and services with a single process.
///
/// Clones share their locks. The store uses tokio's clock, so a test can pause it.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use dlock::{LockManager, store::memory::MemoryStore};
///
/// let store = MemoryStore::new();
/// let manager = LockManager::builder().build_with_store(store.clone())?;
/// let guard = manager.lock("order:42").acquire().await?;
/// assert_eq!(store.len(), 1);
/// guard.release().await?;
/// assert!(store.is_empty());
/// # Ok(()) }
/// ```
#[derive(Clone, Default)]
pub struct MemoryStore(Arc<Mutex<Tables>>);

impl MemoryStore {
    /// Creates a store without locks.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the number of keys that are held or waited for.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use dlock::{LockManager, store::memory::MemoryStore};
    ///
    /// let store = MemoryStore::new();
    /// let manager = LockManager::builder().build_with_store(store.clone())?;
    /// let _both = manager.lock_all(["order:7", "order:42"]).acquire().await?;
    /// assert_eq!(store.len(), 2);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn len(&self) -> usize {
        let mut tables = self.tables();
        tables.sweep(Instant::now());
        tables.len()
    }

    /// Returns `true` if no key is held or waited for.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use dlock::{LockManager, store::memory::MemoryStore};
    ///
    /// let store = MemoryStore::new();
    /// let manager = LockManager::builder().build_with_store(store.clone())?;
    /// manager.lock("order:42").run(async |_lease| ()).await?;
    /// assert!(store.is_empty(), "a critical section leaves nothing behind");
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Removes all locks and queues, like a restart of a server without persistence.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use dlock::{LockError, LockManager, store::memory::MemoryStore};
    ///
    /// let store = MemoryStore::new();
    /// let manager = LockManager::builder().build_with_store(store.clone())?;
    /// let guard = manager.lock("order:42").acquire().await?;
    /// store.forget();
    /// assert!(matches!(guard.release().await, Err(LockError::Lost { .. })));
    /// # Ok(()) }
    /// ```
    pub fn forget(&self) {
        self.tables().forget();
    }

    /// Sends the hints after the tables are unlocked, because a hint runs code of the manager.
    fn send_hints(&self, granted: Vec<Granted>) {
        for granted in granted {
            if !granted.send_hint() {
                self.tables().detach(granted.client());
            }
        }
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        // Every change is complete before any code can panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").finish_non_exhaustive()
    }
}

impl LockStore for MemoryStore {
    async fn acquire(&self, request: AcquireRequest<'_>) -> Result<AcquireOutcome, StoreError> {
        let awaits = match request.queue {
            Queue::No => None,
            Queue::ForLease => Some(Awaits::Lease),
        };
        let asked = self.tables().acquire(request, awaits, 0, Instant::now());
        let (answer, granted) = asked;
        self.send_hints(granted);
        Ok(answer)
    }

    async fn renew(&self, batch: RenewBatch<'_>) -> Vec<Result<Renewal, StoreError>> {
        let mut tables = self.tables();
        let now = Instant::now();
        let renewed = batch.requests.iter();
        let renewed = renewed.map(|request| tables.renew(*request, now));
        renewed.map(Ok).collect()
    }

    async fn release(&self, request: ReleaseRequest<'_>) -> Result<Released, StoreError> {
        let ReleaseRequest { key, owner, .. } = request;
        let (answer, granted) = self.tables().release(key, owner, Instant::now());
        self.send_hints(granted);
        Ok(answer)
    }

    /// Holder and store read the same clock.
    fn properties(&self) -> StoreProperties<'_> {
        let properties = StoreProperties::new()
            .grants(true)
            .drift(Drift::NONE)
            .modes(LockModes::ALL);
        properties
            .ttls(Duration::from_millis(1), MAX_TTL)
            .hooks(self)
            .extension(self)
    }
}

impl QuorumNode for MemoryStore {
    async fn propose(&self, proposal: Proposal<'_>) -> Result<AcquireOutcome, StoreError> {
        let Proposal { request, fence, .. } = proposal;
        let awaits = proposal.notice.then_some(Awaits::Notice);
        let asked = self
            .tables()
            .acquire(request, awaits, fence, Instant::now());
        let (answer, granted) = asked;
        self.send_hints(granted);
        Ok(answer)
    }

    async fn raise(&self, request: RaiseRequest<'_>) -> Result<Raised, StoreError> {
        let RaiseRequest {
            key,
            owner,
            from,
            to,
            ..
        } = request;
        Ok(self.tables().raise(key, owner, [from, to], Instant::now()))
    }
}

impl StoreHooks for MemoryStore {
    fn attach(&self, client: ClientId, hints: HintSink) {
        self.tables().attach(client, hints);
    }

    /// The sink of a manager that is gone is removed with the next hint for it.
    fn detach(&self, _client: ClientId) -> Detaching<'_> {
        Box::pin(std::future::ready(()))
    }

    fn release_at_once(&self, request: ReleaseRequest<'_>) -> bool {
        let ReleaseRequest { key, owner, .. } = request;
        let (_, granted) = self.tables().release(key, owner, Instant::now());
        self.send_hints(granted);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{fence::fence_by_the_clock, key::LockKey, owner::OwnerId, random::SystemRandom};

    #[tokio::test]
    async fn a_proposal_of_the_moment_in_which_the_store_was_made_is_counted_as_it_is() {
        let key = LockKey::new("order:42").unwrap();
        let owner = OwnerId::new(ClientId::new(&SystemRandom), 1);
        let (store, moment) = loop {
            let before = fence_by_the_clock();
            let store = MemoryStore::new();
            if fence_by_the_clock() == before {
                break (store, before);
            }
        };
        let request = AcquireRequest::new(&key, owner, Duration::from_secs(30));
        let answer = store.propose(Proposal::new(request, moment)).await;
        assert_eq!(answer, Ok(AcquireOutcome::granted(moment)));
    }
}
