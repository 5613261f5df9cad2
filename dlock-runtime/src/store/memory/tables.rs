//! The locks and queues of a memory store: plain tables that change by one request at a time.
//!
//! The hint of a grant is returned and not sent. A hint runs code of a manager, which may send a request to the
//! store, so the caller must unlock the tables first.

use std::collections::{HashMap, hash_map::Entry};

use tokio::time::Instant;

use super::queue::{Awaits, First, Waiters};
use crate::{
    fence::fence_by_the_clock,
    key::LockKey,
    owner::{ClientId, OwnerId},
    store::{
        AcquireOutcome, AcquireRequest, GRANT_TTL, Hint, HintSink, Holder, Raised, Released,
        RenewRequest, Renewal,
    },
};

pub(super) struct Tables {
    locks: HashMap<LockKey, Lock>,
    last_fence: u64,
    sinks: HashMap<ClientId, HintSink>,
    /// The number of locks at which expired locks are removed, so that they do not accumulate.
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

/// A waiter to notify of its grant; with a fence of 0, to notify that it should send a request.
pub(super) struct Granted {
    sink: HintSink,
    key: LockKey,
    owner: OwnerId,
    fence: u64,
}

impl Granted {
    /// `None` if no manager receives hints for that waiter.
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

    /// Returns the manager of the waiter.
    pub(super) fn client(&self) -> ClientId {
        self.owner.client()
    }

    /// Notifies the waiter. Returns `false` once its manager is gone.
    pub(super) fn tell(&self) -> bool {
        self.sink.hint(&Hint {
            key: self.key.as_str(),
            owner: self.owner,
            fence: self.fence,
        })
    }
}

impl Default for Tables {
    fn default() -> Self {
        // Fences continue to increase after a restart of the process, like those of a server. The first fence
        // is the clock's value and not one more. Otherwise, of several stores that are nodes of a quorum and
        // count a proposal of the same moment, one could be ahead of the others.
        Self {
            locks: HashMap::new(),
            last_fence: fence_by_the_clock().saturating_sub(1),
            sinks: HashMap::new(),
            sweep_at: 64,
        }
    }
}

impl Tables {
    /// Returns the number of keys that have a holder or waiters. Some of them may have expired.
    pub(super) fn len(&self) -> usize {
        self.locks.len()
    }

    /// Removes all locks and queues, but keeps the last fence and the managers.
    pub(super) fn forget(&mut self) {
        self.locks.clear();
    }

    pub(super) fn attach(&mut self, client: ClientId, hints: HintSink) {
        self.sinks.insert(client, hints);
    }

    pub(super) fn detach(&mut self, client: ClientId) {
        self.sinks.remove(&client);
    }

    pub(super) fn acquire(
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
            // Removes dead waiters at the front, which do not count for the place.
            lock.queue.first(now);
        }
        let held = lock.held.as_ref();
        let holder = Holder {
            label: held.and_then(|held| held.label.clone()),
            function: held.and_then(|held| held.function.clone()),
            ttl: held.map(|held| held.until - now),
            never_ends: false,
            position: lock.queue.position(owner),
            fence: held.map_or(0, |held| held.fence),
            last_fence: self.last_fence,
            is_here: false,
        };
        (AcquireOutcome::Busy(holder), granted)
    }

    pub(super) fn renew(&mut self, request: RenewRequest<'_>, now: Instant) -> Renewal {
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

    pub(super) fn raise(
        &mut self,
        key: &LockKey,
        owner: OwnerId,
        fences: [u64; 2],
        now: Instant,
    ) -> Raised {
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

    pub(super) fn release(
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

    /// Removes the locks whose holders and waiters have expired.
    pub(super) fn sweep(&mut self, now: Instant) {
        self.locks.retain(|_, lock| !lock.is_idle(now));
    }
}

impl Lock {
    /// Returns the lease of `owner`, and removes a lease that has expired.
    fn held_by(&mut self, owner: OwnerId, now: Instant) -> Option<&mut Held> {
        self.held.take_if(|held| held.until <= now);
        self.held.as_mut().filter(|held| held.owner == owner)
    }

    /// Makes a waiter the holder. Its first request sets the label.
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

/// Returns the name of a function, if it is not empty.
fn named(function: &str) -> Option<String> {
    (!function.is_empty()).then(|| function.to_owned())
}
