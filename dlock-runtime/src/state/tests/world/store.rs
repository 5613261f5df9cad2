//! The store of the model: the rules of the scripts, by the boot clock.

use super::*;
use crate::answer::{ALIVE, GRANT_TTL};

/// The holder of the key and its waiters.
pub(super) struct Store {
    /// The only owner of another process.
    pub(super) rival: OwnerId,
    /// The holder's owner id, its fence, and its end.
    pub(super) held: Option<(OwnerId, u64, Duration)>,
    queue: Vec<(OwnerId, Duration)>,
    last_fence: u64,
}

impl Store {
    pub(super) fn new() -> Self {
        Self {
            rival: OwnerId::new(ClientId::new(&SystemRandom), 0),
            held: None,
            queue: Vec::new(),
            last_fence: 0,
        }
    }

    pub(super) fn expire(&mut self, now: Duration) {
        self.held.take_if(|(_, _, until)| *until <= now);
        self.queue.retain(|(_, alive)| *alive > now);
    }

    pub(super) fn hold(&mut self, owner: OwnerId, until: Duration) -> u64 {
        self.last_fence += 1;
        self.queue.retain(|(other, _)| *other != owner);
        self.held = Some((owner, self.last_fence, until));
        self.last_fence
    }

    pub(super) fn grant(&mut self, now: Duration) -> Option<(OwnerId, u64)> {
        let (owner, _) = *self.queue.first()?;
        Some((owner, self.hold(owner, now + GRANT_TTL)))
    }

    pub(super) fn acquire(
        &mut self,
        owner: OwnerId,
        ttl: Duration,
        queue: bool,
        now: Duration,
    ) -> (AcquireOutcome, Option<(OwnerId, u64)>) {
        self.expire(now);
        if let Some(held) = self.held.as_mut().filter(|held| held.0 == owner) {
            held.2 = now + ttl;
            return (AcquireOutcome::granted(held.1), None);
        }
        let first = self.queue.first().is_none_or(|first| first.0 == owner);
        if self.held.is_none() && first {
            let fence = self.hold(owner, now + ttl);
            return (AcquireOutcome::granted(fence), None);
        }
        let granted = if self.held.is_none() {
            self.grant(now)
        } else {
            None
        };
        if queue {
            match self.queue.iter_mut().find(|place| place.0 == owner) {
                Some(place) => place.1 = now + ALIVE,
                None => self.queue.push((owner, now + ALIVE)),
            }
        }
        let holder = Holder {
            ttl: self.held.map(|(_, _, until)| until.saturating_sub(now)),
            last_fence: self.last_fence,
            ..Holder::default()
        };
        (AcquireOutcome::Busy(holder), granted)
    }

    pub(super) fn renew(&mut self, owner: OwnerId, ttl: Duration, now: Duration) -> Renewal {
        self.expire(now);
        match self.held.as_mut().filter(|held| held.0 == owner) {
            Some(held) => {
                held.2 = now + ttl;
                Renewal::Renewed
            }
            None => Renewal::NotOwner,
        }
    }

    pub(super) fn release(
        &mut self,
        owner: OwnerId,
        now: Duration,
    ) -> (Released, Option<(OwnerId, u64)>) {
        self.expire(now);
        self.queue.retain(|(other, _)| *other != owner);
        if self.held.take_if(|held| held.0 == owner).is_none() {
            return (Released::WasGone, None);
        }
        (Released::WasHeld, self.grant(now))
    }

    pub(super) fn knows(&self, client: ClientId) -> bool {
        let queued = self.queue.iter().map(|(owner, _)| owner);
        let holder = self.held.iter().map(|(owner, ..)| owner);
        queued.chain(holder).any(|owner| owner.client() == client)
    }
}
