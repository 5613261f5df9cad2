//! The store of the model: the rules of the scripts, by the boot clock.

use super::*;
use crate::answer::{ALIVE, GRANT_TTL};

/// The holders of the key and its waiters.
pub(super) struct Store {
    /// The only owner of another process, which wants the key exclusively.
    pub(super) rival: OwnerId,
    pub(super) held: Vec<Kept>,
    are_shared: bool,
    epoch: u64,
    queue: Vec<Waits>,
    last_fence: u64,
}

/// A lease, as the store keeps it.
#[derive(Clone, Copy)]
pub(super) struct Kept {
    pub(super) owner: OwnerId,
    pub(super) fence: u64,
    until: Duration,
}

#[derive(Clone, Copy)]
struct Waits {
    owner: OwnerId,
    mode: LockMode,
    alive: Duration,
}

/// A grant to a waiter: its owner, its fence and its number.
pub(super) type Granted = (OwnerId, u64, u64);

impl Store {
    pub(super) fn new() -> Self {
        Self {
            rival: OwnerId::new(ClientId::new(&SystemRandom), 0),
            held: Vec::new(),
            are_shared: false,
            epoch: 0,
            queue: Vec::new(),
            last_fence: 0,
        }
    }

    pub(super) fn expire(&mut self, now: Duration) {
        self.held.retain(|kept| kept.until > now);
        self.queue.retain(|waits| waits.alive > now);
    }

    fn admits(&self, mode: LockMode) -> bool {
        let is_free = self.held.is_empty();
        match mode {
            LockMode::Exclusive => is_free,
            LockMode::Shared => is_free || self.are_shared,
            LockMode::Permits(most) => {
                let has_room = self.held.len() < usize::try_from(most).unwrap();
                is_free || self.are_shared && has_room
            }
        }
    }

    fn hold(&mut self, owner: OwnerId, mode: LockMode, is_waiter: bool, until: Duration) -> u64 {
        let joins = !self.held.is_empty();
        if !joins || is_waiter {
            self.last_fence += 1;
        }
        if !joins {
            self.epoch = self.last_fence;
            self.are_shared = !mode.is_exclusive();
        }
        self.queue.retain(|waits| waits.owner != owner);
        let fence = self.epoch;
        self.held.push(Kept {
            owner,
            fence,
            until,
        });
        fence
    }

    /// Grants the key to the first waiters that may hold it together.
    fn grant(&mut self, now: Duration) -> Vec<Granted> {
        let mut granted = Vec::new();
        while let Some(&first) = self.queue.first() {
            if !self.admits(first.mode) {
                break;
            }
            let fence = self.hold(first.owner, first.mode, true, now + GRANT_TTL);
            granted.push((first.owner, fence, self.last_fence));
        }
        granted
    }

    pub(super) fn acquire(
        &mut self,
        owner: OwnerId,
        mode: LockMode,
        ttl: Duration,
        queue: bool,
        now: Duration,
    ) -> (AcquireOutcome, Vec<Granted>) {
        self.expire(now);
        if let Some(held) = self.held.iter_mut().find(|held| held.owner == owner) {
            held.until = now + ttl;
            return (AcquireOutcome::granted(held.fence), Vec::new());
        }
        let mut granted = Vec::new();
        let is_first = |waits: &Waits| waits.owner == owner;
        if !self.queue.first().is_none_or(is_first) {
            granted = self.grant_before(owner, now);
        }
        if self.queue.first().is_none_or(is_first) && self.admits(mode) {
            let fence = self.hold(owner, mode, false, now + ttl);
            granted.extend(self.grant(now));
            return (AcquireOutcome::granted(fence), granted);
        }
        if queue {
            let alive = now + ALIVE;
            match self.queue.iter_mut().find(|waits| waits.owner == owner) {
                Some(waits) => waits.alive = alive,
                None => self.queue.push(Waits { owner, mode, alive }),
            }
        }
        let until = self.held.iter().map(|held| held.until).max();
        let holder = Holder {
            ttl: until.map(|until| until.saturating_sub(now)),
            last_fence: self.last_fence,
            ..Holder::default()
        };
        (AcquireOutcome::Busy(holder), granted)
    }

    /// The same for those before `owner`, which gets its lease with its own TTL.
    fn grant_before(&mut self, owner: OwnerId, now: Duration) -> Vec<Granted> {
        let place = self.queue.iter().position(|waits| waits.owner == owner);
        let behind = place.map_or_else(Vec::new, |place| self.queue.split_off(place));
        let granted = self.grant(now);
        self.queue.extend(behind);
        granted
    }

    pub(super) fn renew(&mut self, owner: OwnerId, ttl: Duration, now: Duration) -> Renewal {
        self.expire(now);
        match self.held.iter_mut().find(|held| held.owner == owner) {
            Some(held) => {
                held.until = now + ttl;
                Renewal::Renewed
            }
            None => Renewal::NotOwner,
        }
    }

    pub(super) fn release(&mut self, owner: OwnerId, now: Duration) -> (Released, Vec<Granted>) {
        self.expire(now);
        self.queue.retain(|waits| waits.owner != owner);
        let before = self.held.len();
        self.held.retain(|held| held.owner != owner);
        let was_held = self.held.len() < before;
        // An exclusive waiter that leaves lets in those behind it.
        let granted = if was_held || !self.held.is_empty() {
            self.grant(now)
        } else {
            Vec::new()
        };
        let answer = if was_held {
            Released::WasHeld
        } else {
            Released::WasGone
        };
        (answer, granted)
    }

    /// Ends a lease by force.
    pub(super) fn unlock(&mut self, owner: OwnerId, now: Duration) -> Vec<Granted> {
        self.held.retain(|held| held.owner != owner);
        self.grant(now)
    }

    pub(super) fn knows(&self, client: ClientId) -> bool {
        let queued = self.queue.iter().map(|waits| waits.owner);
        let holders = self.held.iter().map(|held| held.owner);
        queued.chain(holders).any(|owner| owner.client() == client)
    }
}
