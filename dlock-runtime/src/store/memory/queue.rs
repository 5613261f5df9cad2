//! The waiters of one key, in the order of their arrival.

use std::{
    collections::{HashMap, VecDeque},
    time::Duration,
};

use tokio::time::Instant;

use crate::{mode::LockMode, owner::OwnerId, store::ALIVE};

/// The longest time for which a waiter counts as alive after it was notified, unless it sends a request.
const TOLD: Duration = Duration::from_secs(1);

/// The event that a waiter waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Awaits {
    /// To be made the holder.
    Lease,
    /// To be notified that the key is free.
    Notice,
}

/// Finds a waiter without a search through the others, of which there may be thousands.
#[derive(Default)]
pub(super) struct Waiters {
    by_owner: HashMap<OwnerId, QueuedWaiter>,
    /// The same waiters by their numbers, which increase.
    order: VecDeque<(u64, OwnerId)>,
    last: u64,
}

struct QueuedWaiter {
    number: u64,
    awaits: Awaits,
    mode: LockMode,
    alive_until: Instant,
}

/// The next waiter, the mode in which it wants the key, and the event that it waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct First {
    pub(super) owner: OwnerId,
    pub(super) awaits: Awaits,
    pub(super) mode: LockMode,
}

impl Waiters {
    /// Adds the waiter, or records that it is still alive.
    pub(super) fn enter(&mut self, owner: OwnerId, awaits: Awaits, mode: LockMode, now: Instant) {
        let alive_until = now + ALIVE;
        let waiter = self.by_owner.entry(owner).or_insert_with(|| {
            self.last += 1;
            self.order.push_back((self.last, owner));
            QueuedWaiter {
                number: self.last,
                awaits,
                mode,
                alive_until,
            }
        });
        waiter.awaits = awaits;
        waiter.mode = mode;
        waiter.alive_until = alive_until;
    }

    pub(super) fn leave(&mut self, owner: OwnerId) {
        if self.order.is_empty() {
            return;
        }
        if let Some(waiter) = self.by_owner.remove(&owner)
            && let Ok(index) = self.index_of(waiter.number)
        {
            self.order.remove(index);
        }
    }

    /// Returns the first living waiter, and removes the dead ones before it.
    pub(super) fn first(&mut self, now: Instant) -> Option<First> {
        while let Some(&(_, first)) = self.order.front() {
            let waiter = self.by_owner.get(&first);
            if let Some(waiter) = waiter.filter(|waiter| waiter.alive_until > now) {
                return Some(First {
                    owner: first,
                    awaits: waiter.awaits,
                    mode: waiter.mode,
                });
            }
            self.by_owner.remove(&first);
            self.order.pop_front();
        }
        None
    }

    /// Returns the waiters at the head of the queue that only wait for a notice and may hold the key together, `most`
    /// of them at most: an exclusive one, or those before the first exclusive one.
    ///
    /// They keep their places. Otherwise others would come before them until their requests arrive.
    pub(super) fn notify_head(&mut self, most: usize, now: Instant) -> Vec<OwnerId> {
        let mut head = Vec::new();
        for (_, owner) in self.order.iter().take(most) {
            let waiter = self.by_owner.get_mut(owner);
            let Some(waiter) = waiter.filter(|it| it.alive_until > now) else {
                continue;
            };
            let is_exclusive = waiter.mode.is_exclusive();
            if waiter.awaits != Awaits::Notice || is_exclusive && !head.is_empty() {
                break;
            }
            waiter.alive_until = waiter.alive_until.min(now + TOLD);
            head.push(*owner);
            if is_exclusive {
                break;
            }
        }
        head
    }

    /// Returns `true` if a living waiter that wants the key exclusively is before `owner`.
    pub(super) fn exclusive_before(&self, owner: OwnerId, now: Instant) -> bool {
        let before = self.order.iter().map(|(_, other)| *other);
        let mut before = before.take_while(|other| *other != owner);
        before.any(|other| {
            let waiter = self.by_owner.get(&other);
            waiter.is_some_and(|it| it.mode.is_exclusive() && it.alive_until > now)
        })
    }

    /// Returns the place of a waiter; 0 is the next. A dead waiter behind the first still counts.
    pub(super) fn position(&self, owner: OwnerId) -> Option<u64> {
        let waiter = self.by_owner.get(&owner)?;
        let index = self.index_of(waiter.number).ok()?;
        u64::try_from(index).ok()
    }

    fn index_of(&self, number: u64) -> Result<usize, usize> {
        self.order.binary_search_by_key(&number, |&(it, _)| it)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{owner::ClientId, random::SystemRandom};

    #[tokio::test(start_paused = true)]
    async fn waiters_keep_their_order_whoever_leaves_or_dies() {
        let mut queue = Waiters::default();
        let first = |queue: &mut Waiters, now| queue.first(now).map(|first| first.owner);
        let owners = [(); 5].map(|()| OwnerId::new(ClientId::new(&SystemRandom), 1));
        let begin = Instant::now();
        for owner in owners {
            queue.enter(owner, Awaits::Lease, LockMode::Exclusive, begin);
        }
        queue.leave(owners[1]);
        queue.leave(owners[1]);
        let later = begin + ALIVE / 2;
        for owner in [owners[4], owners[2]] {
            queue.enter(owner, Awaits::Lease, LockMode::Exclusive, later);
        }
        let places = owners.map(|owner| queue.position(owner));
        assert_eq!(places, [Some(0), None, Some(1), Some(2), Some(3)]);

        let end = begin + ALIVE;
        assert_eq!(
            first(&mut queue, end),
            Some(owners[2]),
            "the first has died"
        );
        queue.leave(owners[2]);
        assert_eq!(first(&mut queue, end), Some(owners[4]));
        assert_eq!(queue.first(later + ALIVE), None);
        assert!(queue.order.is_empty() && queue.by_owner.is_empty());
    }

    /// The others are notified by the release of these.
    #[tokio::test(start_paused = true)]
    async fn waiters_that_are_notified_together_may_hold_the_key_together() {
        const ALL: usize = 64;
        let client = ClientId::new(&SystemRandom);
        let (owner, now) = (|number| OwnerId::new(client, number), Instant::now());
        let alone = (Awaits::Notice, LockMode::Exclusive);
        let shared = (Awaits::Notice, LockMode::Shared);
        let by_grant = (Awaits::Lease, LockMode::Shared);
        for (waiters, most, notified) in [
            (vec![alone, alone], ALL, 1),
            (vec![alone, shared], ALL, 1),
            (vec![shared, shared, alone, shared], ALL, 2),
            (vec![shared, by_grant, shared], ALL, 1),
            (vec![by_grant, shared], ALL, 0),
            (vec![shared, shared, shared], 2, 2),
        ] {
            let mut queue = Waiters::default();
            for (number, &(awaits, mode)) in (1..).zip(&waiters) {
                queue.enter(owner(number), awaits, mode, now);
            }
            let head: Vec<_> = (1..=notified).map(owner).collect();
            assert_eq!(queue.notify_head(most, now), head, "{waiters:?} {most}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_waiter_that_was_notified_is_passed_over_unless_it_asks_within_a_second() {
        let client = ClientId::new(&SystemRandom);
        let [silent, asks, last] = [1, 2, 3].map(|number| OwnerId::new(client, number));
        let mut queue = Waiters::default();
        let begin = Instant::now();
        let enter = |queue: &mut Waiters, owner, now| {
            queue.enter(owner, Awaits::Notice, LockMode::Shared, now);
        };
        for owner in [silent, asks, last] {
            enter(&mut queue, owner, begin);
        }
        assert_eq!(queue.notify_head(2, begin), [silent, asks]);
        enter(&mut queue, asks, begin);
        let next = queue.first(begin + Duration::from_secs(1));
        assert_eq!(next.map(|it| it.owner), Some(asks));
        assert_eq!(queue.position(last), Some(1));

        // A dead waiter is not notified.
        let later = begin + ALIVE;
        enter(&mut queue, last, later);
        assert_eq!(queue.notify_head(2, later), [last]);
    }

    #[tokio::test(start_paused = true)]
    async fn an_exclusive_waiter_keeps_those_behind_it_out_while_it_is_alive() {
        let client = ClientId::new(&SystemRandom);
        let owners = [1, 2, 3].map(|number| OwnerId::new(client, number));
        let mut queue = Waiters::default();
        let begin = Instant::now();
        let modes = [LockMode::Shared, LockMode::Exclusive, LockMode::Shared];
        for (owner, mode) in owners.into_iter().zip(modes) {
            queue.enter(owner, Awaits::Notice, mode, begin);
        }
        let are_kept_out = |now| owners.map(|owner| queue.exclusive_before(owner, now));
        assert_eq!(are_kept_out(begin), [false, false, true]);
        assert_eq!(are_kept_out(begin + ALIVE), [false; 3]);
    }

    #[tokio::test(start_paused = true)]
    async fn thousands_of_waiters_are_found_where_they_are() {
        let mut queue = Waiters::default();
        let client = ClientId::new(&SystemRandom);
        let owner = |number| OwnerId::new(client, number);
        let now = Instant::now();
        for number in 0..10_000 {
            queue.enter(owner(number), Awaits::Lease, LockMode::Exclusive, now);
        }
        for number in (0..10_000).filter(|number| number % 3 == 0) {
            queue.leave(owner(number));
        }
        for number in 0..10_000 {
            queue.enter(owner(number), Awaits::Lease, LockMode::Exclusive, now);
            let before = match number % 3 {
                0 => 6_666 + number / 3,
                rest => number / 3 * 2 + rest - 1,
            };
            assert_eq!(queue.position(owner(number)), Some(before));
        }
    }
}
