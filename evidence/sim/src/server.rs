//! A server of locks, by the rules of the contract of a store: written a second time, so that no mistake
//! of the stores of the library is repeated here.

use std::{collections::BTreeMap, time::Duration};

use dlock::{
    Holder, LockMode,
    store::{ALIVE, AcquireOutcome, ClientId, GRANT_TTL, OwnerId, Raised, Released, Renewal},
};

use crate::flaw::Flaw;

/// A question, as it came over the network.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    pub(crate) key: String,
    pub(crate) owner: OwnerId,
    pub(crate) ttl: Duration,
    pub(crate) mode: LockMode,
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
    /// By which the waiter dates its grant.
    pub(crate) number: u64,
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

/// So many waiters are granted the key by one request.
const MOST_GRANTS: usize = 64;

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
    /// An exclusive one alone, or any number of those that share the key.
    holders: Vec<Held>,
    are_shared: bool,
    /// The fence of all that share the key.
    epoch: u64,
    /// In the order of arrival.
    queue: Vec<Waiter>,
    /// Leases that have run out, kept only for a flaw.
    ended: Vec<Held>,
}

#[derive(Clone, Debug)]
struct Held {
    owner: OwnerId,
    fence: u64,
    label: Option<String>,
    until: i64,
}

#[derive(Clone, Copy, Debug)]
struct Waiter {
    owner: OwnerId,
    mode: LockMode,
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
    ) -> (AcquireOutcome, Vec<Notice>) {
        let now = self.clock.at(elapsed);
        let Question { key, owner, .. } = question;
        let until = now + micros(question.ttl);
        let mut lock = self.locks.remove(key).unwrap_or_default();
        lock.expire(now, self.flaw);
        let mut notices = Vec::new();
        let mut holders = lock.holders.iter_mut();
        if let Some(held) = holders.find(|held| held.owner == *owner) {
            if self.flaw != Flaw::AskedAgainKeepsItsTime {
                held.until = until;
            }
            held.label = Some(question.label.clone());
            let fence = held.fence;
            self.locks.insert(key.clone(), lock);
            return (AcquireOutcome::granted(fence), notices);
        }
        if self.flaw == Flaw::GrantsTwice && now % 16 == 0 {
            lock.holders.clear();
        }
        let is_next = self.reach(&mut lock, question, now, &mut notices);
        if is_next && self.admits(&lock, question.mode, now) {
            lock.queue.retain(|it| it.owner != *owner);
            let fence = self.count(&mut lock, question.mode, false, now, question.proposal);
            lock.holders.push(Held {
                owner: *owner,
                fence,
                label: Some(question.label.clone()),
                until,
            });
            if !question.mode.is_exclusive() {
                self.grant_waiters(&mut lock, key, now, &mut notices);
            }
            self.locks.insert(key.clone(), lock);
            return (AcquireOutcome::granted(fence), notices);
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
                    mode: question.mode,
                    waits: question.waits,
                    alive_until,
                }),
            }
        }
        let holder = self.describe(&lock, question, now);
        self.locks.insert(key.clone(), lock);
        (AcquireOutcome::Busy(holder), notices)
    }

    /// Grants the key to those that are before a newcomer and may have it. Whether the newcomer is next.
    fn reach(
        &mut self,
        lock: &mut Lock,
        question: &Question,
        now: i64,
        notices: &mut Vec<Notice>,
    ) -> bool {
        let shares = !question.mode.is_exclusive();
        if self.flaw == Flaw::SharersOvertake && shares {
            return true;
        }
        while let Some(first) = lock.queue.first().copied() {
            if first.owner == question.owner {
                return true;
            }
            if first.waits != Waits::ForLease {
                // Those that wait for a notice come before nobody, but an exclusive one keeps new sharers out.
                let mut before = lock.queue.iter();
                let mut before = before.by_ref().take_while(|it| it.owner != question.owner);
                return !shares || !before.any(|it| it.mode.is_exclusive());
            }
            if !self.admits(lock, first.mode, now) || notices.len() == MOST_GRANTS {
                return false;
            }
            notices.push(self.hand_to(lock, &question.key, first, now));
        }
        true
    }

    /// The holder, to one that wants the key as well.
    fn describe(&self, lock: &Lock, question: &Question, now: i64) -> Holder {
        let mut holder = Holder::default();
        let ends = lock.holders.iter().map(|held| held.until);
        let until = match question.mode {
            LockMode::Permits(_) => ends.min(),
            _ => ends.max(),
        };
        if let (Some(held), Some(until)) = (lock.holders.last(), until) {
            holder.label.clone_from(&held.label);
            let rest = u64::try_from(until - now).unwrap_or(0);
            holder.ttl = Some(Duration::from_micros(rest));
            holder.fence = held.fence;
            holder.others = u64::try_from(lock.holders.len() - 1).unwrap_or(0);
        }
        let mut queue = lock.queue.iter();
        let place = queue.position(|it| it.owner == question.owner);
        holder.position = place.and_then(|place| u64::try_from(place).ok());
        holder.last_fence = match self.flaw {
            Flaw::LastFenceIsTooLow => 1,
            _ => self.last_fence,
        };
        holder
    }

    /// Whether the holders let in one more.
    fn admits(&self, lock: &Lock, mode: LockMode, now: i64) -> bool {
        let is_free = lock.holders.is_empty();
        match mode {
            LockMode::Exclusive => {
                let errs = self.flaw == Flaw::AdmitsBesideSharers && now % 4 == 0;
                is_free || errs && lock.are_shared
            }
            LockMode::Permits(most) => {
                let most = usize::try_from(most).expect("there are few permits");
                let most = most + usize::from(self.flaw == Flaw::CountsOnePermitTooMany);
                is_free || lock.are_shared && lock.holders.len() < most
            }
            _ => is_free || lock.are_shared,
        }
    }

    /// The fence of one more holder: all that share the key have that of the first.
    fn count(
        &mut self,
        lock: &mut Lock,
        mode: LockMode,
        has_waited: bool,
        now: i64,
        proposal: Option<u64>,
    ) -> u64 {
        let joins = lock.are_shared && !lock.holders.is_empty() && !mode.is_exclusive();
        let is_counted = has_waited && self.flaw != Flaw::JoinsAreNotCounted;
        if !joins || is_counted {
            self.next_fence(now, proposal);
        }
        if !joins || self.flaw == Flaw::EachSharerHasItsFence {
            lock.epoch = self.last_fence;
        }
        if !joins {
            lock.are_shared = !mode.is_exclusive();
        }
        lock.epoch
    }

    fn hand_to(&mut self, lock: &mut Lock, key: &str, next: Waiter, now: i64) -> Notice {
        let joins = !lock.holders.is_empty();
        let fence = self.count(lock, next.mode, true, now, None);
        let lasts = match self.flaw {
            Flaw::HandsOnForASecond => Duration::from_secs(1),
            _ => GRANT_TTL,
        };
        lock.queue.retain(|it| it.owner != next.owner);
        lock.holders.push(Held {
            owner: next.owner,
            fence,
            label: None,
            until: now + micros(lasts),
        });
        let number = match self.flaw {
            Flaw::JoinsAreNotCounted if joins => self.last_fence + 1,
            _ => self.last_fence,
        };
        Notice {
            key: key.to_owned(),
            owner: next.owner,
            fence,
            number,
        }
    }

    /// Grants the key to the first waiters that may have it together; who waits for a notice is told.
    fn grant_waiters(&mut self, lock: &mut Lock, key: &str, now: i64, notices: &mut Vec<Notice>) {
        let mut sharers_are_told = false;
        for _ in 0..MOST_GRANTS {
            let first = lock.queue.first().copied();
            let Some(first) = first.filter(|first| self.admits(lock, first.mode, now)) else {
                return;
            };
            if first.waits == Waits::ForLease {
                notices.push(self.hand_to(lock, key, first, now));
                if self.flaw == Flaw::GrantsOneWaiter {
                    return;
                }
                continue;
            }
            let is_exclusive = first.mode.is_exclusive();
            if is_exclusive && sharers_are_told {
                return;
            }
            lock.queue.remove(0);
            notices.push(Notice {
                key: key.to_owned(),
                owner: first.owner,
                fence: 0,
                number: 0,
            });
            if is_exclusive {
                return;
            }
            sharers_are_told = true;
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
        self.revive(key, owner, now);
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

    /// A lease that has ended goes on beside those that have come since.
    fn revive(&mut self, key: &str, owner: OwnerId, now: i64) {
        if self.flaw != Flaw::RevivesEndedSharers {
            return;
        }
        let Some(lock) = self.locks.get_mut(key) else {
            return;
        };
        lock.expire(now, self.flaw);
        let ended = lock.ended.iter().position(|held| held.owner == owner);
        if let Some(place) = ended {
            let held = lock.ended.remove(place);
            (lock.are_shared, lock.epoch) = (true, held.fence);
            lock.holders.push(held);
        }
    }

    pub(crate) fn release(
        &mut self,
        key: &str,
        owner: OwnerId,
        elapsed: Duration,
    ) -> (Released, Vec<Notice>) {
        let now = self.clock.at(elapsed);
        let is_held = self
            .held_by(key, owner, now, Flaw::ReleasesWhosoever)
            .is_some();
        let Some(mut lock) = self.locks.remove(key) else {
            return (Released::WasGone, Vec::new());
        };
        lock.queue.retain(|it| it.owner != owner);
        lock.ended.retain(|it| it.owner != owner);
        let forgets = self.flaw == Flaw::ForgetsReleases && elapsed.as_millis().is_multiple_of(4);
        let mut notices = Vec::new();
        if is_held && !forgets {
            let frees_all = match self.flaw {
                Flaw::ReleasesWhosoever => true,
                Flaw::ReleasesAllSharers => lock.are_shared,
                _ => false,
            };
            lock.holders.retain(|it| !frees_all && it.owner != owner);
        }
        // An exclusive waiter that leaves lets in those behind it.
        let is_shared = lock.are_shared && !lock.holders.is_empty();
        if is_held && !forgets || is_shared {
            self.grant_waiters(&mut lock, key, now, &mut notices);
        }
        if !lock.holders.is_empty() || !lock.queue.is_empty() || !lock.ended.is_empty() {
            self.locks.insert(key.to_owned(), lock);
        }
        let answer = if is_held {
            Released::WasHeld
        } else {
            Released::WasGone
        };
        (answer, self.told(notices))
    }

    /// The notices that are really sent.
    fn told(&mut self, notices: Vec<Notice>) -> Vec<Notice> {
        if self.flaw != Flaw::RepeatsOldGrantsAsNew {
            return notices;
        }
        let notice = notices.into_iter().find(|notice| notice.fence > 0);
        if let Some(notice) = notice {
            return vec![self.last_notice.replace(notice.clone()).unwrap_or(notice)];
        }
        let old = self.last_notice.clone().into_iter();
        let anew = |old| Notice {
            fence: self.last_fence + 1,
            number: self.last_fence + 1,
            ..old
        };
        old.map(anew).collect()
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
        lock.expire(now, self.flaw);
        let mut holders = lock.holders.iter_mut();
        holders.find(|held| anybodys || held.owner == owner)
    }

    /// Whether this client holds the key; with a fence, by that one.
    pub(crate) fn is_held_by(
        &mut self,
        key: &str,
        client: ClientId,
        fence: Option<u64>,
        elapsed: Duration,
    ) -> bool {
        let now = self.clock.at(elapsed);
        let Some(lock) = self.locks.get_mut(key) else {
            return false;
        };
        lock.expire(now, self.flaw);
        let mut holders = lock.holders.iter();
        holders.any(|held| {
            held.owner.client() == client && fence.is_none_or(|fence| held.fence == fence)
        })
    }

    /// Whether the first waiter of a key could share it with those that do: a release has just let in no more.
    pub(crate) fn keeps_out(&mut self, key: &str, elapsed: Duration) -> bool {
        let now = self.clock.at(elapsed);
        let Some(lock) = self.locks.get_mut(key) else {
            return false;
        };
        lock.expire(now, self.flaw);
        let first = lock.queue.first();
        let Some(first) = first.filter(|it| it.waits == Waits::ForLease) else {
            return false;
        };
        let has_room = match first.mode {
            LockMode::Exclusive => false,
            LockMode::Permits(most) => {
                usize::try_from(most).is_ok_and(|it| lock.holders.len() < it)
            }
            _ => true,
        };
        has_room && lock.are_shared && !lock.holders.is_empty()
    }

    /// The holders and waiters that are left.
    pub(crate) fn left(&mut self, elapsed: Duration) -> Vec<(String, OwnerId)> {
        let now = self.clock.at(elapsed);
        let mut left = Vec::new();
        for (key, lock) in &mut self.locks {
            lock.expire(now, self.flaw);
            let held = lock.holders.iter().map(|held| held.owner);
            let owners = held.chain(lock.queue.iter().map(|it| it.owner));
            left.extend(owners.map(|owner| (key.clone(), owner)));
        }
        left
    }
}

impl Lock {
    /// Forgets the leases that have run out, and the waiters that have died.
    fn expire(&mut self, now: i64, flaw: Flaw) {
        if flaw == Flaw::RevivesEndedSharers && self.are_shared {
            let ended = self.holders.iter().filter(|held| held.until <= now);
            self.ended.extend(ended.cloned());
        }
        self.holders.retain(|held| held.until > now);
        self.queue.retain(|it| it.alive_until > now);
    }
}
