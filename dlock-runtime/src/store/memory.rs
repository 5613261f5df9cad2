//! Locks inside one process: the reference the other stores are tested against.

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use tokio::time::Instant;

use super::{
    ALIVE, AcquireRequest, Acquisition, GRANT_TTL, Hint, HintSink, Holder, LockStore, Released,
    Renewal, StoreError,
};
use crate::{
    key::LockKey,
    owner::{ClientId, OwnerId},
};

/// Seconds from 1970 to 2024, where fences start to count.
const FENCE_EPOCH: u64 = 1_704_067_200;

/// A store in this process's memory, for tests, examples and services of one process.
///
/// Clones share their locks. Time is tokio's, so a test can pause it.
#[derive(Clone, Default)]
pub struct MemoryStore(Arc<Mutex<Tables>>);

impl MemoryStore {
    /// A store without any lock.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// How many keys are held or waited for.
    #[must_use]
    pub fn len(&self) -> usize {
        let mut tables = self.tables();
        tables.sweep(Instant::now());
        tables.locks.len()
    }

    /// Whether no key is held or waited for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Forgets all locks and queues, as a server without persistence does when it restarts.
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
    async fn acquire(&self, request: AcquireRequest<'_>) -> Result<Acquisition, StoreError> {
        let (answer, granted) = self.tables().acquire(request, Instant::now());
        self.tell(granted);
        Ok(answer)
    }

    async fn renew(
        &self,
        key: &LockKey,
        owner: OwnerId,
        ttl: Duration,
    ) -> Result<Renewal, StoreError> {
        Ok(self.tables().renew(key, owner, ttl, Instant::now()))
    }

    async fn release(&self, key: &LockKey, owner: OwnerId) -> Result<Released, StoreError> {
        let (answer, granted) = self.tables().release(key, owner, Instant::now());
        self.tell(granted);
        Ok(answer)
    }

    fn release_at_once(&self, key: &LockKey, owner: OwnerId) -> bool {
        let (_, granted) = self.tables().release(key, owner, Instant::now());
        self.tell(granted);
        true
    }

    fn attach(&self, client: ClientId, hints: HintSink) {
        self.tables().sinks.insert(client, hints);
    }

    /// Holder and store read the same clock.
    fn drift(&self, _ttl: Duration) -> Duration {
        Duration::ZERO
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
    queue: VecDeque<Waiter>,
}

struct Held {
    owner: OwnerId,
    fence: u64,
    label: Option<String>,
    until: Instant,
}

struct Waiter {
    owner: OwnerId,
    alive_until: Instant,
}

/// A grant whose waiter is to be told.
struct Granted {
    sink: HintSink,
    key: LockKey,
    owner: OwnerId,
    fence: u64,
}

impl Granted {
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
        // Fences go on growing over restarts of the process, as those of a server do.
        let since_1970 = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let since_epoch = since_1970.saturating_sub(Duration::from_secs(FENCE_EPOCH));
        Self {
            locks: HashMap::new(),
            last_fence: u64::try_from(since_epoch.as_micros() / 10).unwrap_or(0),
            sinks: HashMap::new(),
            sweep_at: 64,
        }
    }
}

impl Tables {
    fn acquire(
        &mut self,
        request: AcquireRequest<'_>,
        now: Instant,
    ) -> (Acquisition, Option<Granted>) {
        if self.locks.len() >= self.sweep_at {
            self.sweep(now);
            self.sweep_at = 2 * self.locks.len().max(32);
        }
        let owner = request.owner;
        let lock = self.locks.entry(request.key.clone()).or_default();
        lock.expire(now);

        if let Some(held) = lock.held.as_mut().filter(|held| held.owner == owner) {
            held.until = now + request.ttl;
            held.label = Some(request.label.to_owned());
            return (Acquisition::Granted { fence: held.fence }, None);
        }
        if lock.held.is_none() && lock.queue.front().is_none_or(|first| first.owner == owner) {
            lock.queue.pop_front();
            self.last_fence += 1;
            lock.held = Some(Held {
                owner,
                fence: self.last_fence,
                label: Some(request.label.to_owned()),
                until: now + request.ttl,
            });
            let fence = self.last_fence;
            return (Acquisition::Granted { fence }, None);
        }
        let granted = self.grant(request.key, now);
        let lock = self.locks.entry(request.key.clone()).or_default();
        if request.queue {
            lock.enqueue(owner, now);
        }
        let held = lock.held.as_ref();
        let holder = Holder {
            label: held.and_then(|held| held.label.clone()),
            ttl: held.map(|held| held.until - now),
            position: lock.position(owner),
            last_fence: self.last_fence,
            is_here: false,
        };
        (Acquisition::Busy(holder), granted)
    }

    fn renew(&mut self, key: &LockKey, owner: OwnerId, ttl: Duration, now: Instant) -> Renewal {
        let Some(lock) = self.locks.get_mut(key) else {
            return Renewal::NotOwner;
        };
        lock.expire(now);
        match lock.held.as_mut().filter(|held| held.owner == owner) {
            Some(held) => {
                held.until = now + ttl;
                Renewal::Renewed
            }
            None => Renewal::NotOwner,
        }
    }

    fn release(
        &mut self,
        key: &LockKey,
        owner: OwnerId,
        now: Instant,
    ) -> (Released, Option<Granted>) {
        let Some(lock) = self.locks.get_mut(key) else {
            return (Released::WasGone, None);
        };
        lock.expire(now);
        lock.queue.retain(|waiter| waiter.owner != owner);
        let answer = match lock.held.take_if(|held| held.owner == owner) {
            Some(_) => Released::WasHeld,
            None => Released::WasGone,
        };
        let granted = match answer {
            Released::WasHeld => self.grant(key, now),
            Released::WasGone => None,
        };
        if self.locks.get(key).is_some_and(Lock::is_idle) {
            self.locks.remove(key);
        }
        (answer, granted)
    }

    /// Makes the first living waiter of a free key its holder.
    fn grant(&mut self, key: &LockKey, now: Instant) -> Option<Granted> {
        let lock = self.locks.get_mut(key).filter(|lock| lock.held.is_none())?;
        let owner = lock.queue.pop_front()?.owner;
        self.last_fence += 1;
        let fence = self.last_fence;
        lock.held = Some(Held {
            owner,
            fence,
            label: None,
            until: now + GRANT_TTL,
        });
        let sink = self.sinks.get(&owner.client())?.clone();
        let key = key.clone();
        Some(Granted {
            sink,
            key,
            owner,
            fence,
        })
    }

    /// Forgets the locks whose holders and waiters are gone without a word.
    fn sweep(&mut self, now: Instant) {
        self.locks.retain(|_, lock| {
            lock.expire(now);
            !lock.is_idle()
        });
    }
}

impl Lock {
    fn expire(&mut self, now: Instant) {
        self.held.take_if(|held| held.until <= now);
        self.queue.retain(|waiter| waiter.alive_until > now);
    }

    fn is_idle(&self) -> bool {
        self.held.is_none() && self.queue.is_empty()
    }

    /// Enters the queue, or shows that the waiter is still alive.
    fn enqueue(&mut self, owner: OwnerId, now: Instant) {
        let alive_until = now + ALIVE;
        match self.queue.iter_mut().find(|waiter| waiter.owner == owner) {
            Some(waiter) => waiter.alive_until = alive_until,
            None => self.queue.push_back(Waiter { owner, alive_until }),
        }
    }

    fn position(&self, owner: OwnerId) -> Option<u64> {
        let place = self.queue.iter().position(|waiter| waiter.owner == owner)?;
        u64::try_from(place).ok()
    }
}
