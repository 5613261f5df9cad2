//! A server of locks, by the rules of the contract of a store: written a second time, so that no mistake
//! of the stores of the library is repeated here.

use std::{collections::BTreeMap, time::Duration};

use dlock::{
    Holder,
    store::{ALIVE, AcquireOutcome, ClientId, GRANT_TTL, OwnerId, Raised, Released, Renewal},
};

use crate::flaw::Flaw;

/// A question, as it came over the network.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    pub(crate) key: String,
    pub(crate) owner: OwnerId,
    pub(crate) ttl: Duration,
    pub(crate) waits: Waits,
    pub(crate) label: String,
    pub(crate) proposal: Option<u64>,
}

/// What an owner waits for if the key is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waits {
    /// Nothing: it has no place in the queue.
    No,
    /// To be made the holder.
    ForLease,
    /// To be told that the key is free.
    ForNotice,
}

/// A notice that a waiter holds the key, or with a fence of 0 that it should ask.
#[derive(Clone, Debug)]
pub(crate) struct Notice {
    pub(crate) key: String,
    pub(crate) owner: OwnerId,
    pub(crate) fence: u64,
}

/// The data of one server. All times are its own clock's.
#[derive(Debug)]
pub(crate) struct Server {
    locks: BTreeMap<String, Lock>,
    last_fence: u64,
    clock: ServerClock,
    flaw: Flaw,
    /// The last notice of a grant, for a server that repeats old ones as new.
    last_notice: Option<Notice>,
}

/// A clock that ticks a little faster or slower than time, and may be set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServerClock {
    /// In millionths.
    pub(crate) fast_by: i64,
    /// Where it has been set to, beside what it would show.
    pub(crate) set_by_micros: i64,
}

#[derive(Debug, Default)]
struct Lock {
    held: Option<Held>,
    /// In the order of arrival.
    queue: Vec<Waiter>,
}

#[derive(Clone, Debug)]
struct Held {
    owner: OwnerId,
    fence: u64,
    label: Option<String>,
    until: i64,
}

#[derive(Debug)]
struct Waiter {
    owner: OwnerId,
    waits: Waits,
    alive_until: i64,
}

impl ServerClock {
    /// Its time, in microseconds, at this time of the run.
    fn at(self, elapsed: Duration) -> i64 {
        /// A day of 2026, counted from where fences begin.
        const BEGIN: i64 = 80_000_000_000_000;
        let elapsed = i64::try_from(elapsed.as_micros()).expect("a run is not that long");
        BEGIN + elapsed + elapsed / 1000 * self.fast_by / 1000 + self.set_by_micros
    }
}

fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).expect("no time here is that long")
}

impl Server {
    pub(crate) fn new(clock: ServerClock, flaw: Flaw) -> Self {
        Self {
            locks: BTreeMap::new(),
            last_fence: 0,
            clock,
            flaw,
            last_notice: None,
        }
    }

    pub(crate) fn set_clock(&mut self, by: i64) {
        self.clock.set_by_micros += by;
    }

    /// It restarts without its data.
    pub(crate) fn forget(&mut self) {
        self.locks.clear();
        self.last_fence = 0;
    }

    fn next_fence(&mut self, now: i64, proposal: Option<u64>) -> u64 {
        if self.flaw == Flaw::FencesFollowNoCounter {
            self.last_fence = 1 + self.last_fence % 3;
            return self.last_fence;
        }
        let by_clock = u64::try_from(now / 10).unwrap_or(0);
        self.last_fence = (self.last_fence + 1).max(proposal.unwrap_or(by_clock));
        self.last_fence
    }

    pub(crate) fn acquire(
        &mut self,
        question: &Question,
        elapsed: Duration,
    ) -> (AcquireOutcome, Option<Notice>) {
        let now = self.clock.at(elapsed);
        let Question { key, owner, .. } = question;
        let until = now + micros(question.ttl);
        let mut lock = self.locks.remove(key).unwrap_or_default();
        lock.expire(now);
        let mut notice = None;
        if let Some(held) = lock.held.as_mut().filter(|held| held.owner == *owner) {
            if self.flaw != Flaw::AskedAgainKeepsItsTime {
                held.until = until;
            }
            held.label = Some(question.label.clone());
            let fence = held.fence;
            self.locks.insert(key.clone(), lock);
            return (AcquireOutcome::granted(fence), None);
        }
        if lock.held.is_none() || self.flaw == Flaw::GrantsTwice && now % 16 == 0 {
            let first = lock.queue.first();
            let next = first.filter(|it| it.waits == Waits::ForLease && it.owner != *owner);
            match next.map(|it| it.owner) {
                None => {
                    let fence = self.next_fence(now, question.proposal);
                    lock.queue.retain(|it| it.owner != *owner);
                    lock.held = Some(Held {
                        owner: *owner,
                        fence,
                        label: Some(question.label.clone()),
                        until,
                    });
                    self.locks.insert(key.clone(), lock);
                    return (AcquireOutcome::granted(fence), None);
                }
                Some(next) => notice = Some(self.hand_to(&mut lock, key, next, now)),
            }
        }
        if question.waits != Waits::No {
            let alive_until = now + micros(ALIVE);
            match lock.queue.iter_mut().find(|it| it.owner == *owner) {
                Some(known) => {
                    known.waits = question.waits;
                    known.alive_until = alive_until;
                }
                None => lock.queue.push(Waiter {
                    owner: *owner,
                    waits: question.waits,
                    alive_until,
                }),
            }
        }
        let mut holder = Holder::default();
        if let Some(held) = &lock.held {
            holder.label.clone_from(&held.label);
            let rest = u64::try_from(held.until - now).unwrap_or(0);
            holder.ttl = Some(Duration::from_micros(rest));
            holder.fence = held.fence;
        }
        let place = lock.queue.iter().position(|it| it.owner == *owner);
        holder.position = place.and_then(|place| u64::try_from(place).ok());
        holder.last_fence = match self.flaw {
            Flaw::LastFenceIsTooLow => 1,
            _ => self.last_fence,
        };
        self.locks.insert(key.clone(), lock);
        (AcquireOutcome::Busy(holder), notice)
    }

    fn hand_to(&mut self, lock: &mut Lock, key: &str, next: OwnerId, now: i64) -> Notice {
        let fence = self.next_fence(now, None);
        let lasts = match self.flaw {
            Flaw::HandsOnForASecond => Duration::from_secs(1),
            _ => GRANT_TTL,
        };
        lock.queue.retain(|it| it.owner != next);
        lock.held = Some(Held {
            owner: next,
            fence,
            label: None,
            until: now + micros(lasts),
        });
        Notice {
            key: key.to_owned(),
            owner: next,
            fence,
        }
    }

    pub(crate) fn renew(
        &mut self,
        key: &str,
        owner: OwnerId,
        ttl: Duration,
        label: &str,
        elapsed: Duration,
    ) -> Renewal {
        let now = self.clock.at(elapsed);
        let held = self.held_by(key, owner, now, Flaw::RenewsWhosoever);
        let Some(held) = held else {
            return Renewal::NotOwner;
        };
        held.until = now + micros(ttl);
        if !label.is_empty() {
            held.label = Some(label.to_owned());
        }
        Renewal::Renewed
    }

    pub(crate) fn release(
        &mut self,
        key: &str,
        owner: OwnerId,
        elapsed: Duration,
    ) -> (Released, Option<Notice>) {
        let now = self.clock.at(elapsed);
        let is_held = self
            .held_by(key, owner, now, Flaw::ReleasesWhosoever)
            .is_some();
        let Some(mut lock) = self.locks.remove(key) else {
            return (Released::WasGone, None);
        };
        lock.queue.retain(|it| it.owner != owner);
        let mut notice = None;
        let forgets = self.flaw == Flaw::ForgetsReleases && elapsed.as_millis().is_multiple_of(4);
        if is_held && !forgets {
            lock.held = None;
            notice = lock.queue.first().map(|first| first.owner).map(|next| {
                let only_told = lock.queue[0].waits == Waits::ForNotice;
                if only_told {
                    lock.queue.remove(0);
                    return Notice {
                        key: key.to_owned(),
                        owner: next,
                        fence: 0,
                    };
                }
                self.hand_to(&mut lock, key, next, now)
            });
        }
        if lock.held.is_some() || !lock.queue.is_empty() {
            self.locks.insert(key.to_owned(), lock);
        }
        let answer = if is_held {
            Released::WasHeld
        } else {
            Released::WasGone
        };
        (answer, self.told(notice))
    }

    /// The notices that are really sent.
    fn told(&mut self, notice: Option<Notice>) -> Option<Notice> {
        if self.flaw != Flaw::RepeatsOldGrantsAsNew {
            return notice;
        }
        if let Some(notice) = notice.filter(|notice| notice.fence > 0) {
            return self.last_notice.replace(notice.clone()).or(Some(notice));
        }
        let mut old = self.last_notice.clone()?;
        old.fence = self.last_fence + 1;
        Some(old)
    }

    pub(crate) fn raise(
        &mut self,
        key: &str,
        owner: OwnerId,
        [from, to]: [u64; 2],
        elapsed: Duration,
    ) -> Raised {
        let now = self.clock.at(elapsed);
        if self.flaw == Flaw::RaisesNothing {
            return Raised::Raised;
        }
        let last = self.last_fence;
        let Some(held) = self.held_by(key, owner, now, Flaw::None) else {
            return Raised::NotOwner;
        };
        if held.fence != from && held.fence != to {
            return Raised::NotOwner;
        }
        held.fence = held.fence.max(to);
        self.last_fence = last.max(held.fence);
        Raised::Raised
    }

    fn held_by(&mut self, key: &str, owner: OwnerId, now: i64, unless: Flaw) -> Option<&mut Held> {
        let anybodys = unless != Flaw::None && self.flaw == unless;
        let lock = self.locks.get_mut(key)?;
        lock.expire(now);
        let held = lock.held.as_mut();
        held.filter(|held| anybodys || held.owner == owner)
    }

    /// Which client holds the key.
    pub(crate) fn holder(&mut self, key: &str, elapsed: Duration) -> Option<ClientId> {
        let now = self.clock.at(elapsed);
        let lock = self.locks.get_mut(key)?;
        lock.expire(now);
        lock.held.as_ref().map(|held| held.owner.client())
    }

    /// The holders and waiters that are left.
    pub(crate) fn left(&mut self, elapsed: Duration) -> Vec<(String, OwnerId)> {
        let now = self.clock.at(elapsed);
        let mut left = Vec::new();
        for (key, lock) in &mut self.locks {
            lock.expire(now);
            let held = lock.held.iter().map(|held| held.owner);
            let owners = held.chain(lock.queue.iter().map(|it| it.owner));
            left.extend(owners.map(|owner| (key.clone(), owner)));
        }
        left
    }
}

impl Lock {
    /// Forgets the lease that has run out, and the waiters that have died.
    fn expire(&mut self, now: i64) {
        self.held.take_if(|held| held.until <= now);
        self.queue.retain(|it| it.alive_until > now);
    }
}
