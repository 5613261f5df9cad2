//! One key that claims of this process wait for: its queue, as far as it is known, and the waiters.
//!
//! # Rules
//!
//! - **Safety.** A change is applied once and in order: an event that is older than the last read is left out. An old event
//!   could remove a key that has been created again, and a claim behind it would seem to hold.
//! - The queue is the one at a revision. It does not count as known while a change of this process is missing, so a request
//!   finds what an earlier request of the same process has done.

use std::{collections::HashMap, time::Duration};

use dlock_runtime::{
    LockMode,
    clock::Moment,
    store::{Holder, OwnerId},
};
use tokio::{sync::watch, task::AbortHandle};

use crate::{
    claims::Place,
    holder, keys,
    proto::{EventType, WatchResponse},
    queue::{Epoch, Queue},
};

/// A rest that is not known is asked for this often.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// One key, and those that wait for it.
pub(crate) struct Followed {
    waiters: HashMap<OwnerId, Waiter>,
    queue: Queue,
    /// That of the queue.
    revision: i64,
    /// That of the last change by this process.
    needed: i64,
    /// The moment before the last read of the queue.
    seen: Moment,
    /// The rests of the holders' leases, each at its moment. They only inform.
    rests: HashMap<i64, (Moment, Duration)>,
    /// The task that watches the key. `None` while every waiter knows that it holds.
    pub(crate) task: Option<Task>,
    changed: watch::Sender<()>,
}

/// The task that watches a key.
pub(crate) struct Task {
    /// A task that is about to end must not change the queue of its successor.
    pub(crate) number: u64,
    pub(crate) handle: AbortHandle,
}

/// A claim that waits.
struct Waiter {
    /// The lease of its key.
    lease: i64,
    /// The create revision of its last hint.
    told: i64,
    /// Its last request; `None` if it is leaving.
    asked: Option<Moment>,
}

/// A hint for a waiter.
pub(crate) struct News {
    pub(crate) owner: OwnerId,
    pub(crate) fence: u64,
}

/// The queue as a waiter sees it.
pub(crate) enum View {
    /// The claim holds, or its key is not as it was: etcd has to be asked.
    Changed,
    /// The claim waits, as far as a read at this moment and later events say.
    Waits { holder: Holder, seen: Moment },
    /// A change of this process is missing.
    IsBehind,
}

impl Followed {
    pub(crate) fn new((queue, revision): (Queue, i64), seen: Moment) -> Self {
        Self {
            waiters: HashMap::new(),
            queue,
            revision,
            needed: 0,
            seen,
            rests: HashMap::new(),
            task: None,
            changed: watch::Sender::new(()),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }

    pub(crate) fn revision(&self) -> i64 {
        self.revision
    }

    pub(crate) fn is_watched(&self) -> bool {
        self.task.is_some()
    }

    pub(crate) fn is_watched_by(&self, number: u64) -> bool {
        self.task.as_ref().is_some_and(|task| task.number == number)
    }

    /// Ends the task, if there is one.
    pub(crate) fn stop(&mut self) {
        if let Some(task) = self.task.take() {
            task.handle.abort();
        }
    }

    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// Notes a request of a waiter whose key has, or is about to have, this lease.
    pub(crate) fn ask(&mut self, owner: OwnerId, lease: i64, asked: Moment) {
        let waiter = self.waiters.entry(owner).or_insert(Waiter {
            lease,
            told: 0,
            asked: None,
        });
        waiter.lease = lease;
        waiter.asked = Some(asked);
    }

    /// Notes a request that may not reach etcd, of a waiter that has asked before.
    pub(crate) fn ask_again(&mut self, owner: OwnerId, asked: Moment) {
        let waiter = self.waiters.get_mut(&owner);
        if let Some(last) = waiter.and_then(|waiter| waiter.asked.as_mut()) {
            *last = last.later(asked);
        }
    }

    /// Returns the lease of a waiter's key.
    pub(crate) fn lease_of(&self, owner: OwnerId) -> Option<i64> {
        self.waiters.get(&owner).map(|waiter| waiter.lease)
    }

    /// Returns `true` if the waiter has been released.
    pub(crate) fn has_quit(&self, owner: OwnerId) -> bool {
        let waiter = self.waiters.get(&owner);
        waiter.is_some_and(|waiter| waiter.asked.is_none())
    }

    /// Tells the waiter nothing more. Its key is still to be deleted.
    pub(crate) fn quit(&mut self, owner: OwnerId) {
        if let Some(waiter) = self.waiters.get_mut(&owner) {
            waiter.asked = None;
        }
    }

    pub(crate) fn remove(&mut self, owner: OwnerId) {
        self.waiters.remove(&owner);
    }

    pub(crate) fn leases(&self) -> impl Iterator<Item = i64> {
        self.waiters.values().map(|waiter| waiter.lease)
    }

    /// The waiters that have not asked for so long, or are leaving.
    pub(crate) fn silent(&self, now: Moment, limit: Duration) -> impl Iterator<Item = OwnerId> {
        let is_silent = move |waiter: &Waiter| {
            let asked = waiter.asked;
            asked.is_none_or(|asked| asked.elapsed(now) > limit)
        };
        let silent = self.waiters.iter().filter(move |(_, it)| is_silent(it));
        silent.map(|(owner, _)| *owner)
    }

    /// Notes that this process has changed the queue at a revision.
    pub(crate) fn wrote(&mut self, revision: i64) {
        self.needed = self.needed.max(revision);
    }

    /// Takes the queue as it was read at a revision, by a request that was sent after `seen`.
    pub(crate) fn read(&mut self, queue: Queue, revision: i64, seen: Moment) {
        if revision >= self.revision {
            self.queue = queue;
            self.revision = revision;
        }
        // Events that are later than the read say what it does, and more.
        self.seen = self.seen.later(seen);
        self.changed.send_replace(());
    }

    /// Returns `true` if more is known than the queue at this revision, or if that is from before a restore.
    pub(crate) fn is_ahead(&self, revision: i64) -> bool {
        revision < self.revision.max(self.needed)
    }

    /// Takes the queue from which a watch begins again. After a restore, revisions are smaller than before.
    pub(crate) fn begin_again(&mut self, queue: Queue, revision: i64, seen: Moment) {
        self.queue = queue;
        self.revision = revision;
        self.needed = 0;
        self.seen = self.seen.later(seen);
        self.changed.send_replace(());
    }

    pub(crate) fn apply(&mut self, answer: &WatchResponse) {
        let known = self.revision;
        for event in &answer.events {
            // The header may have a later revision than the last event, with more events to come.
            let Some(kv) = event.kv.as_ref().filter(|kv| kv.mod_revision > known) else {
                continue;
            };
            self.queue.apply(event);
            self.revision = self.revision.max(kv.mod_revision);
            // A waiter whose key is gone has left, or makes another key with its next request.
            let is_gone = event.kind == EventType::Delete as i32;
            if let Some(owner) = keys::owner_in(&kv.key).filter(|_| is_gone) {
                self.waiters.remove(&owner);
            }
        }
        self.changed.send_replace(());
    }

    /// The hints for those that hold the key, once for each place in the queue. While the database is full, they ask: it
    /// refuses the lease that a holder needs.
    pub(crate) fn news(&mut self, namespace: &str, key: &str, is_full: bool) -> Vec<News> {
        let mut news = Vec::new();
        for (owner, waiter) in &mut self.waiters {
            let name = keys::claim(namespace, key, *owner);
            let Some(own) = self.queue.get(&name) else {
                continue;
            };
            let is_leaving = waiter.asked.is_none();
            if is_leaving || waiter.told == own.create || !self.queue.holds(&name) {
                continue;
            }
            waiter.told = own.create;
            // One that joins others asks, since it has to write their epoch.
            let fence = match self.queue.epoch(&name) {
                Some(Epoch::Own(fence)) if fence == own.own_fence() && !is_full => fence,
                _ => 0,
            };
            news.push(News {
                owner: *owner,
                fence,
            });
        }
        news
    }

    /// Returns `true` if the claim of this name and create revision has been seen to hold the key. It does until its own key
    /// is deleted, so changes that are missing do not matter.
    pub(crate) fn has_seen_held(&self, name: &[u8], create: i64) -> bool {
        self.queue.get(name).is_some_and(|own| own.create == create) && self.queue.holds(name)
    }

    /// Returns `true` if each waiter has been notified that it holds. Nothing that others do changes that.
    pub(crate) fn has_told_all(&self, namespace: &str, key: &str) -> bool {
        self.waiters.iter().all(|(owner, waiter)| {
            let name = keys::claim(namespace, key, *owner);
            self.has_seen_held(&name, waiter.told)
        })
    }

    /// The queue as the claim with this name and place sees it at `now`.
    pub(crate) fn view(&self, name: &[u8], place: &Place, mode: LockMode, now: Moment) -> View {
        // Without a watch, it is not known whether it waits still.
        if self.task.is_none() || self.has_seen_held(name, place.create) {
            return View::Changed;
        }
        if self.revision < self.needed {
            return View::IsBehind;
        }
        let own = self.queue.get(name);
        let is_same =
            own.is_some_and(|own| own.create == place.create && own.lease == place.lease.id);
        if !is_same {
            return View::Changed;
        }
        let rest = |lease| {
            let (at, rest) = self.rests.get(&lease)?;
            let rest = rest.saturating_sub(at.elapsed(now));
            (!rest.is_zero()).then_some(rest)
        };
        let holder = holder::describe(&self.queue, rest, Some(name), mode);
        let seen = self.seen;
        View::Waits { holder, seen }
    }

    /// The leases of holders whose rest is to be asked for. Until the answer is there, or for a second, no other caller asks.
    pub(crate) fn unknown_rests(&mut self, now: Moment) -> Vec<i64> {
        let mut leases = holder::leases(&self.queue);
        self.rests.retain(|lease, _| leases.contains(lease));
        leases.retain(|lease| {
            self.rests.get(lease).is_none_or(|(at, rest)| {
                let age = at.elapsed(now);
                age > ASK_AGAIN && age >= *rest
            })
        });
        for lease in &leases {
            self.rests.insert(*lease, (now, Duration::ZERO));
        }
        leases
    }

    pub(crate) fn note_rests(&mut self, rests: &[(i64, Duration)], asked: Moment) {
        for (lease, rest) in rests {
            self.rests.insert(*lease, (asked, *rest));
        }
    }
}

#[cfg(test)]
mod tests;
