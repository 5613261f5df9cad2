//! Locks inside one process: the reference the other stores are tested against.

mod queue;

use std::{
    collections::{HashMap, hash_map::Entry},
    fmt,
    sync::{Arc, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use self::queue::{Awaits, First, Waiters};
use super::{
    AcquireOutcome, AcquireRequest, Detaching, Drift, GRANT_TTL, Hint, HintSink, Holder, LockStore,
    Proposal, Queue, QuorumNode, RaiseRequest, Raised, ReleaseRequest, Released, RenewBatch,
    RenewRequest, Renewal, StoreError, StoreHooks, StoreProperties,
};
use crate::{
    fence::fence_by_the_clock,
    key::LockKey,
    options::MAX_TTL,
    owner::{ClientId, OwnerId},
    sync::{Mutex, MutexGuard},
};

/// A store in this process's memory, for tests, examples and services of one process.
///
/// Clones share their locks. Time is tokio's, so a test can pause it.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use dlock::{LockManager, store::memory::MemoryStore};
///
/// let store = MemoryStore::new();
/// let manager = LockManager::builder().store(store.clone())?;
/// let guard = manager.lock("order:42").acquire().await?;
/// assert_eq!(store.len(), 1);
/// guard.release().await?;
/// assert!(store.is_empty());
/// # Ok(()) }
/// ```
#[derive(Clone, Default)]
pub struct MemoryStore(Arc<Mutex<Tables>>);

impl MemoryStore {
    /// A store without any lock.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// How many keys are held or waited for.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use dlock::{LockManager, store::memory::MemoryStore};
    ///
    /// let store = MemoryStore::new();
    /// let manager = LockManager::builder().store(store.clone())?;
    /// let _both = manager.lock_all(["order:7", "order:42"]).acquire().await?;
    /// assert_eq!(store.len(), 2);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn len(&self) -> usize {
        let mut tables = self.tables();
        tables.sweep(Instant::now());
        tables.locks.len()
    }

    /// Whether no key is held or waited for.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use dlock::{LockManager, store::memory::MemoryStore};
    ///
    /// let store = MemoryStore::new();
    /// let manager = LockManager::builder().store(store.clone())?;
    /// manager.lock("order:42").run(async |_lease| ()).await?;
    /// assert!(store.is_empty(), "a section leaves nothing behind");
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Forgets all locks and queues, as a server without persistence does when it restarts.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use dlock::{LockError, LockManager, store::memory::MemoryStore};
    ///
    /// let store = MemoryStore::new();
    /// let manager = LockManager::builder().store(store.clone())?;
    /// let guard = manager.lock("order:42").acquire().await?;
    /// store.forget();
    /// assert!(matches!(guard.release().await, Err(LockError::Lost { .. })));
    /// # Ok(()) }
    /// ```
    pub fn forget(&self) {
        self.tables().locks.clear();
    }

    /// Sends the hint once the tables are unlocked: it runs code of the manager.
    fn tell(&self, granted: Option<Granted>) {
        let Some(granted) = granted else { return };
        if !granted.tell() {
            self.tables().sinks.remove(&granted.owner.client());
        }
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        // Every change is complete before anything can panic.
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
        self.tell(granted);
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
        self.tell(granted);
        Ok(answer)
    }

    /// Holder and store read the same clock.
    fn properties(&self) -> StoreProperties<'_> {
        let properties = StoreProperties::new().grants(true).drift(Drift::NONE);
        properties
            .ttls(Duration::from_millis(1), MAX_TTL)
            .hooks(self)
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
        self.tell(granted);
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
        self.tables().sinks.insert(client, hints);
    }

    /// The sink of a manager that is gone goes with the next hint for it.
    fn detach(&self, _client: ClientId) -> Detaching<'_> {
        Box::pin(std::future::ready(()))
    }

    fn release_at_once(&self, request: ReleaseRequest<'_>) -> bool {
        let ReleaseRequest { key, owner, .. } = request;
        let (_, granted) = self.tables().release(key, owner, Instant::now());
        self.tell(granted);
        true
    }
}

struct Tables {
    locks: HashMap<LockKey, Lock>,
    last_fence: u64,
    sinks: HashMap<ClientId, HintSink>,
    /// The number of locks at which expired ones are looked for, so that they do not pile up.
    sweep_at: usize,
}

#[derive(Default)]
struct Lock {
    held: Option<Held>,
    queue: Waiters,
}

struct Held {
    owner: OwnerId,
    fence: u64,
    label: Option<String>,
    function: Option<String>,
    until: Instant,
}

/// A waiter that is to be told of its grant, or with a fence of 0 that it should ask.
struct Granted {
    sink: HintSink,
    key: LockKey,
    owner: OwnerId,
    fence: u64,
}

impl Granted {
    /// `None` if nobody listens for that waiter.
    fn new(
        sinks: &HashMap<ClientId, HintSink>,
        key: &LockKey,
        owner: OwnerId,
        fence: u64,
    ) -> Option<Self> {
        Some(Self {
            sink: sinks.get(&owner.client())?.clone(),
            key: key.clone(),
            owner,
            fence,
        })
    }

    /// Tells the waiter; `false` once its manager is gone.
    fn tell(&self) -> bool {
        self.sink.hint(&Hint {
            key: self.key.as_str(),
            owner: self.owner,
            fence: self.fence,
        })
    }
}

impl Default for Tables {
    fn default() -> Self {
        // Fences go on growing over restarts of the process, as those of a server do. The first is
        // the clock's and not one more: several stores that are nodes of a quorum count what is
        // proposed to them in the same moment, or one would be ahead of the others by itself.
        Self {
            locks: HashMap::new(),
            last_fence: fence_by_the_clock().saturating_sub(1),
            sinks: HashMap::new(),
            sweep_at: 64,
        }
    }
}

impl Tables {
    fn acquire(
        &mut self,
        request: AcquireRequest<'_>,
        awaits: Option<Awaits>,
        proposed_fence: u64,
        now: Instant,
    ) -> (AcquireOutcome, Option<Granted>) {
        if self.locks.len() >= self.sweep_at {
            self.sweep(now);
            self.sweep_at = 2 * self.locks.len().max(32);
        }
        let AcquireRequest {
            key,
            owner,
            label,
            function,
            ..
        } = request;
        let lock = self.locks.entry(key.clone()).or_default();
        let until = now + request.ttl;

        if let Some(held) = lock.held_by(owner, now) {
            held.until = until;
            held.name(label, function);
            return (AcquireOutcome::granted(held.fence), None);
        }
        let mut granted = None;
        if lock.held.is_none() {
            let fence = (self.last_fence + 1).max(proposed_fence);
            self.last_fence = fence;
            // A waiter for a notice has no precedence.
            let next = match lock.queue.first(now) {
                Some(First {
                    owner: next,
                    awaits: Awaits::Lease,
                }) if next != owner => Some(next),
                _ => None,
            };
            lock.queue.leave(next.unwrap_or(owner));
            let Some(next) = next else {
                lock.held = Some(Held {
                    owner,
                    fence,
                    label: Some(label.to_owned()),
                    function: named(function),
                    until,
                });
                return (AcquireOutcome::granted(fence), None);
            };
            lock.hand_to(next, fence, now);
            granted = Granted::new(&self.sinks, key, next, fence);
        }
        if let Some(awaits) = awaits {
            lock.queue.enter(owner, awaits, now);
            // For the place: the dead before it do not count.
            lock.queue.first(now);
        }
        let held = lock.held.as_ref();
        let holder = Holder {
            label: held.and_then(|held| held.label.clone()),
            function: held.and_then(|held| held.function.clone()),
            ttl: held.map(|held| held.until - now),
            position: lock.queue.position(owner),
            fence: held.map_or(0, |held| held.fence),
            last_fence: self.last_fence,
            is_here: false,
        };
        (AcquireOutcome::Busy(holder), granted)
    }

    fn renew(&mut self, request: RenewRequest<'_>, now: Instant) -> Renewal {
        let lock = self.locks.get_mut(request.key);
        match lock.and_then(|lock| lock.held_by(request.owner, now)) {
            Some(held) => {
                held.until = now + request.ttl;
                held.name(request.label, request.function);
                Renewal::Renewed
            }
            None => Renewal::NotOwner,
        }
    }

    fn raise(&mut self, key: &LockKey, owner: OwnerId, fences: [u64; 2], now: Instant) -> Raised {
        let lock = self.locks.get_mut(key);
        match lock.and_then(|lock| lock.held_by(owner, now)) {
            Some(held) if fences.contains(&held.fence) => {
                held.fence = held.fence.max(fences[1]);
                self.last_fence = self.last_fence.max(held.fence);
                Raised::Raised
            }
            _ => Raised::NotOwner,
        }
    }

    fn release(
        &mut self,
        key: &LockKey,
        owner: OwnerId,
        now: Instant,
    ) -> (Released, Option<Granted>) {
        let Entry::Occupied(mut entry) = self.locks.entry(key.clone()) else {
            return (Released::WasGone, None);
        };
        let lock = entry.get_mut();
        lock.queue.leave(owner);
        let mut answer = Released::WasGone;
        let mut granted = None;
        if lock.held_by(owner, now).is_some() {
            answer = Released::WasHeld;
            lock.held = None;
            if let Some(next) = lock.queue.first(now) {
                lock.queue.leave(next.owner);
                let mut fence = 0;
                if next.awaits == Awaits::Lease {
                    self.last_fence += 1;
                    fence = self.last_fence;
                    lock.hand_to(next.owner, fence, now);
                }
                granted = Granted::new(&self.sinks, key, next.owner, fence);
            }
        }
        if lock.is_idle(now) {
            entry.remove();
        }
        (answer, granted)
    }

    /// Forgets the locks whose holders and waiters are gone without a word.
    fn sweep(&mut self, now: Instant) {
        self.locks.retain(|_, lock| !lock.is_idle(now));
    }
}

impl Lock {
    /// What `owner` holds; a lease that has run out is forgotten.
    fn held_by(&mut self, owner: OwnerId, now: Instant) -> Option<&mut Held> {
        self.held.take_if(|held| held.until <= now);
        self.held.as_mut().filter(|held| held.owner == owner)
    }

    /// Makes a waiter the holder, who has yet to be heard of.
    fn hand_to(&mut self, owner: OwnerId, fence: u64, now: Instant) {
        self.held = Some(Held {
            owner,
            fence,
            label: None,
            function: None,
            until: now + GRANT_TTL,
        });
    }

    fn is_idle(&mut self, now: Instant) -> bool {
        self.held.take_if(|held| held.until <= now);
        self.held.is_none() && self.queue.first(now).is_none()
    }
}

impl Held {
    /// Sets the label and the function, unless there is no label.
    fn name(&mut self, label: &str, function: &str) {
        if label.is_empty() {
            return;
        }
        if self.label.as_deref() != Some(label) {
            self.label = Some(label.to_owned());
        }
        if self.function.as_deref().unwrap_or_default() != function {
            self.function = named(function);
        }
    }
}

/// The name of a function, if there is one.
fn named(function: &str) -> Option<String> {
    (!function.is_empty()).then(|| function.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    use crate::random::SystemRandom;

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
