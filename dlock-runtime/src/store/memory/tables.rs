//! The locks and queues of a memory store: plain tables that change by one request at a time.
//!
//! The hints of grants are returned and not sent. A hint runs code of a manager, which may send a request to the
//! store, so the caller must unlock the tables first.

use std::collections::{HashMap, hash_map::Entry};

use tokio::time::Instant;

use super::queue::{Awaits, First, Waiters};
use crate::{
    fence::fence_by_the_clock,
    key::LockKey,
    mode::LockMode,
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

/// The maximum number of waiters that one request grants. The next request grants the rest.
const MOST_GRANTS: usize = 64;

#[derive(Default)]
struct Lock {
    /// One exclusive holder, or any number of those that share the key.
    holders: Vec<Held>,
    are_shared: bool,
    /// The fence of the holder, or of all who share the key.
    epoch: u64,
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
    grant: Dated,
}

/// The fence of a grant, and the number by which a waiter dates it.
#[derive(Clone, Copy, Default)]
struct Dated {
    fence: u64,
    number: u64,
}

impl Granted {
    /// `None` if no manager receives hints for that waiter.
    fn new(
        sinks: &HashMap<ClientId, HintSink>,
        key: &LockKey,
        owner: OwnerId,
        grant: Dated,
    ) -> Option<Self> {
        Some(Self {
            sink: sinks.get(&owner.client())?.clone(),
            key: key.clone(),
            owner,
            grant,
        })
    }

    /// Returns the manager of the waiter.
    pub(super) fn client(&self) -> ClientId {
        self.owner.client()
    }

    /// Notifies the waiter. Returns `false` once its manager is gone.
    pub(super) fn send_hint(&self) -> bool {
        let Dated { fence, number } = self.grant;
        let hint = Hint::new(self.key.as_str(), self.owner, fence);
        self.sink.hint(&hint.number(number))
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
    ) -> (AcquireOutcome, Vec<Granted>) {
        if self.locks.len() >= self.sweep_at {
            self.sweep(now);
            self.sweep_at = 2 * self.locks.len().max(32);
        }
        let AcquireRequest {
            key,
            owner,
            mode,
            label,
            function,
            ..
        } = request;
        let lock = self.locks.entry(key.clone()).or_default();
        let until = now + request.ttl;

        if let Some(held) = lock.held_by(owner, now) {
            held.until = until;
            held.name(label, function);
            return (AcquireOutcome::granted(held.fence), Vec::new());
        }
        let mut granted = Vec::new();
        let is_next = loop {
            match lock.queue.first(now) {
                Some(first) if first.owner == owner => break true,
                Some(first) if first.awaits == Awaits::Lease => {
                    if !lock.admits(first.mode) || granted.len() == MOST_GRANTS {
                        break false;
                    }
                    let grant = lock.hand_to(first, &mut self.last_fence, now);
                    granted.extend(Granted::new(&self.sinks, key, first.owner, grant));
                }
                // A waiter for a notice has no precedence, but an exclusive one keeps new sharers out.
                Some(_) => break mode.is_exclusive() || !lock.queue.exclusive_before(owner, now),
                None => break true,
            }
        };
        if is_next && lock.admits(mode) {
            lock.queue.leave(owner);
            let grant = lock.grant(mode, false, proposed_fence, &mut self.last_fence);
            lock.holders.push(Held {
                owner,
                fence: grant.fence,
                label: Some(label.to_owned()),
                function: named(function),
                until,
            });
            if !mode.is_exclusive() {
                lock.grant_waiters(false, &mut self.last_fence, now, |next, grant| {
                    granted.extend(Granted::new(&self.sinks, key, next, grant));
                });
            }
            return (AcquireOutcome::granted(grant.fence), granted);
        }
        if let Some(awaits) = awaits {
            lock.queue.enter(owner, awaits, mode, now);
            // Removes dead waiters at the front, which do not count for the place.
            lock.queue.first(now);
        }
        let busy = Holder {
            position: lock.queue.position(owner),
            last_fence: self.last_fence,
            ..lock.holder(mode, now)
        };
        (AcquireOutcome::Busy(busy), granted)
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
        let Some(lock) = self.locks.get_mut(key) else {
            return Raised::NotOwner;
        };
        if lock.held_by(owner, now).is_none() || !fences.contains(&lock.epoch) {
            return Raised::NotOwner;
        }
        // All who share the key have one fence.
        lock.epoch = lock.epoch.max(fences[1]);
        for held in &mut lock.holders {
            held.fence = lock.epoch;
        }
        self.last_fence = self.last_fence.max(lock.epoch);
        Raised::Raised
    }

    pub(super) fn release(
        &mut self,
        key: &LockKey,
        owner: OwnerId,
        now: Instant,
    ) -> (Released, Vec<Granted>) {
        let Entry::Occupied(mut entry) = self.locks.entry(key.clone()) else {
            return (Released::WasGone, Vec::new());
        };
        let lock = entry.get_mut();
        lock.queue.leave(owner);
        let mut granted = Vec::new();
        let was_held = lock.held_by(owner, now).is_some();
        lock.holders.retain(|held| held.owner != owner);
        // An exclusive waiter that leaves lets in those behind it.
        if was_held || lock.is_shared() {
            lock.grant_waiters(true, &mut self.last_fence, now, |next, grant| {
                granted.extend(Granted::new(&self.sinks, key, next, grant));
            });
        }
        if lock.is_idle(now) {
            entry.remove();
        }
        let answer = if was_held {
            Released::WasHeld
        } else {
            Released::WasGone
        };
        (answer, granted)
    }

    /// Removes the locks whose holders and waiters have expired.
    pub(super) fn sweep(&mut self, now: Instant) {
        self.locks.retain(|_, lock| !lock.is_idle(now));
    }
}

impl Lock {
    /// Returns the lease of `owner`, and removes all leases that have expired: a late renewal must not bring one
    /// back beside those that were granted since.
    fn held_by(&mut self, owner: OwnerId, now: Instant) -> Option<&mut Held> {
        self.holders.retain(|held| held.until > now);
        self.holders.iter_mut().find(|held| held.owner == owner)
    }

    fn is_shared(&self) -> bool {
        self.are_shared && !self.holders.is_empty()
    }

    /// Returns `true` if the living holders let in one more in this mode.
    fn admits(&self, mode: LockMode) -> bool {
        let below = |most: u32| u32::try_from(self.holders.len()).is_ok_and(|living| living < most);
        match mode {
            LockMode::Exclusive => self.holders.is_empty(),
            LockMode::Shared => self.holders.is_empty() || self.are_shared,
            LockMode::Permits(most) => (self.holders.is_empty() || self.are_shared) && below(most),
        }
    }

    /// Counts the fence of a new holder, whose lease has to be added. All who share the key have the same.
    fn grant(
        &mut self,
        mode: LockMode,
        is_waiter: bool,
        proposed_fence: u64,
        last_fence: &mut u64,
    ) -> Dated {
        let joins = self.is_shared();
        if !joins || is_waiter {
            *last_fence = (*last_fence + 1).max(proposed_fence);
        }
        if !joins {
            (self.are_shared, self.epoch) = (!mode.is_exclusive(), *last_fence);
        }
        Dated {
            fence: self.epoch,
            number: *last_fence,
        }
    }

    /// Makes the first waiter a holder. Its first request sets the label.
    fn hand_to(&mut self, first: First, last_fence: &mut u64, now: Instant) -> Dated {
        self.queue.leave(first.owner);
        let grant = self.grant(first.mode, true, 0, last_fence);
        self.holders.push(Held {
            owner: first.owner,
            fence: grant.fence,
            label: None,
            function: None,
            until: now + GRANT_TTL,
        });
        grant
    }

    /// Grants the waiters at the head of the queue that may hold the key together, and, if it `notifies`, notifies
    /// those that only wait for a notice.
    fn grant_waiters(
        &mut self,
        notifies: bool,
        last_fence: &mut u64,
        now: Instant,
        mut tell: impl FnMut(OwnerId, Dated),
    ) {
        for _ in 0..MOST_GRANTS {
            let first = self.queue.first(now);
            let Some(first) = first.filter(|first| self.admits(first.mode)) else {
                return;
            };
            if first.awaits == Awaits::Notice {
                if notifies {
                    for owner in self.queue.notify_head(MOST_GRANTS, now) {
                        tell(owner, Dated::default());
                    }
                }
                return;
            }
            let grant = self.hand_to(first, last_fence, now);
            tell(first.owner, grant);
        }
    }

    /// Describes the holders to a caller that wants the key in this mode.
    fn holder(&self, mode: LockMode, now: Instant) -> Holder {
        let latest = self.holders.iter().max_by_key(|held| held.until);
        let Some(latest) = latest else {
            return Holder::default();
        };
        let earliest = self.holders.iter().map(|held| held.until).min();
        let until = match mode {
            // The first holder to leave makes room.
            LockMode::Permits(_) => earliest.unwrap_or(latest.until),
            LockMode::Exclusive | LockMode::Shared => latest.until,
        };
        let others = u64::try_from(self.holders.len() - 1);
        Holder {
            label: latest.label.clone(),
            function: latest.function.clone(),
            ttl: Some(until - now),
            fence: latest.fence,
            others: others.unwrap_or(u64::MAX),
            ..Holder::default()
        }
    }

    fn is_idle(&mut self, now: Instant) -> bool {
        self.holders.retain(|held| held.until > now);
        self.holders.is_empty() && self.queue.first(now).is_none()
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
