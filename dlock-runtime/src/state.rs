//! What this process knows of one key: a plain value, changed by events only.
//!
//! Every task that wants the key makes an *attempt*. One of them at a time is in front and bears the
//! *claim* of this process, which is all that the store sees; the others wait behind it in the order
//! of their arrival. The one in front goes through these phases:
//!
//! ```text
//! Asking ⇄ Waiting         asks the store; if busy, waits for a hint or a time and asks again
//!    └───────┴─► Holding ──► Lost
//!                   └──────────┴──────► Leaving ──► (forgotten)
//! ```
//!
//! When it leaves, the next takes over its claim, be it a lease that is still fresh or a place in the
//! store's queue. What is lost or being given back steps aside for the next one's own claim.
//!
//! [`KeyState::on_event`] takes an event of one attempt and answers with the one thing its driver
//! has to do next. No I/O and no clock is in here; the drivers (the waiting task,
//! the renewer of leases, the releaser) have no decisions to take.

mod attempt;
mod claim;
#[cfg(test)]
mod tests;
mod turns;
mod waiter;

use std::{collections::VecDeque, time::Duration};

use self::attempt::Attempt;
use crate::{
    attempt::AttemptId,
    clock::Moment,
    error::LostCause,
    fence::FencingToken,
    owner::{OwnerId, Owners},
    random::Random,
    store::{AcquireOutcome, Holder, Released, Renewal, StoreError},
};

pub(crate) use self::{claim::Validity, waiter::LocalWaiter};

/// Everything this process knows of one key. `T` is how to wake a task.
#[derive(Debug)]
pub(crate) struct KeyState<T> {
    /// Bears the claim, or was the last to.
    front: Option<Attempt<T>>,
    /// In the order of arrival, which is that of their ids.
    behind: VecDeque<LocalWaiter<T>>,
    /// Lost, or being given back, while somebody else is in front.
    aside: Vec<Attempt<T>>,
}

impl<T> Default for KeyState<T> {
    fn default() -> Self {
        Self {
            front: None,
            behind: VecDeque::new(),
            aside: Vec::new(),
        }
    }
}

/// A lease that is not lost as far as anybody has looked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeldLease {
    pub(crate) token: FencingToken,
    pub(crate) since: Moment,
    pub(crate) deadline: Moment,
}

/// How and when a lease was lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Loss {
    pub(crate) cause: LostCause,
    pub(crate) held_for: Duration,
}

/// What happened to an attempt.
#[derive(Debug)]
pub(crate) enum Event {
    /// The store answered, or failed to, the question sent at `sent`.
    Answered {
        sent: Moment,
        answer: Result<AcquireOutcome, StoreError>,
    },
    /// The waiting task was woken, or its time has come.
    Woken,
    /// The store says that it has handed the lease to the claim.
    Granted { fence: u64 },
    /// The lease may be gone, for all that is known here.
    Doubted,
    /// The store may have had news that nobody heard.
    LookAgain,
    /// The manager takes no new locks: who waits is refused, holders go on.
    Closed,
    /// The manager waits no longer for holders.
    Revoked,
    /// The renewer looks after the lease.
    Tick,
    /// The store answered, or failed to, the renewal sent at `sent`.
    Renewed {
        sent: Moment,
        answer: Result<Renewal, StoreError>,
    },
    /// The body ended, or whoever waited or held was dropped.
    Left,
    /// The store answered the release; `None` if it failed to.
    Released(Option<Released>),
    /// Nobody is left who could send the release, or the store refuses it for good: its TTL has to do.
    Abandoned,
}

/// What the driver of the attempt has to do next.
#[derive(Debug, PartialEq)]
pub(crate) enum Effect {
    /// Ask the store for `owner`, and wait for the answer no longer than `limit`.
    Ask {
        owner: OwnerId,
        limit: Duration,
        queue: bool,
    },
    /// Wait until woken or until then, whichever is first.
    WaitUntil(Moment),
    /// The same behind others of this process.
    Queue(Moment),
    /// The lease is ours.
    Enter {
        /// What the renewer has to know, if it does not yet.
        renew_at: Option<RenewAt>,
    },
    /// Tell the caller that it will not get the lock.
    Refuse(Denial),
    /// Renew the lease of `owner` within `limit`, and look again at `then` in any case.
    Renew {
        owner: OwnerId,
        limit: Duration,
        then: Moment,
    },
    /// Wake the task: its phase has changed without it.
    Wake,
    /// The lease has just been lost: wake the task and report it.
    Lose,
    /// Send the release for `owner`.
    Release { owner: OwnerId },
    /// Nothing of the attempt is left here, and in the store only what the next one has taken over;
    /// the store's last word, if any.
    Forget(Option<Released>),
    /// Nothing.
    Nothing,
}

/// The lease of `owner` is to be looked after at `at`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RenewAt {
    pub(crate) owner: OwnerId,
    pub(crate) at: Moment,
}

/// What follows from an event.
#[derive(Debug)]
pub(crate) struct Outcome<T> {
    pub(crate) effect: Effect,
    /// The task to be woken besides: it is in front now, or was until now.
    pub(crate) next: Option<T>,
}

/// Why an attempt ended without a lease.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Denial {
    Busy {
        waited: Duration,
        holder: Holder,
    },
    Unavailable {
        waited: Duration,
        reason: StoreError,
    },
    Closed,
}

/// What the state does not know by itself.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) now: Moment,
    /// The longest time to wait for one answer.
    pub(crate) response_limit: Duration,
    /// Whether a lease may go from one task of this process to the next.
    pub(crate) handover: bool,
    /// Whether the store makes the first waiter the holder when a lease is given back.
    pub(crate) grants: bool,
    pub(crate) random: &'a dyn Random,
    pub(crate) owners: &'a Owners,
}

impl<T: Clone> KeyState<T> {
    /// A task wants the key. Its driver starts with [`Event::Woken`].
    pub(crate) fn enter(&mut self, waiter: LocalWaiter<T>, context: Context<'_>) {
        if self.front.as_ref().is_some_and(Attempt::is_active) {
            self.behind.push_back(waiter);
        } else {
            let next = Attempt::new(waiter, context);
            self.come_next(next, context);
        }
    }

    /// Whether nobody in this process holds or wants the key.
    pub(crate) fn is_idle(&self) -> bool {
        self.front.is_none() && self.behind.is_empty() && self.aside.is_empty()
    }

    /// How many of this process want the key and have no lease.
    pub(crate) fn waiting(&self) -> usize {
        let front = self.front.as_ref();
        let is_waiting = front.is_some_and(|it| it.is_active() && !it.is_holding());
        self.behind.len() + usize::from(is_waiting)
    }

    /// Until when the store may have something of attempt `id`.
    pub(crate) fn traces_until(&self, id: AttemptId) -> Option<Moment> {
        self.find(id)?.claim.traces_until
    }

    /// The tasks of all attempts.
    pub(crate) fn tasks(&self) -> Vec<T> {
        let attempts = self.front.iter().chain(&self.aside);
        let waiters = attempts.map(|attempt| &attempt.waiter).chain(&self.behind);
        waiters.map(|waiter| waiter.task.clone()).collect()
    }

    /// The lease of attempt `id`, unless it was lost.
    pub(crate) fn lease(&self, id: AttemptId) -> Option<HeldLease> {
        self.find(id)?.lease()
    }

    /// How attempt `id` lost its lease, if it did.
    pub(crate) fn loss(&self, id: AttemptId) -> Option<Loss> {
        self.find(id)?.loss()
    }

    /// For how long from `now` the store has to keep the lease that attempt `id` gives back.
    pub(crate) fn kept_for(&self, id: AttemptId, now: Moment) -> Option<Duration> {
        self.find(id)?.kept_for(now)
    }

    /// Whether the answer to a question of attempt `id` is still of use.
    pub(crate) fn is_asking(&self, id: AttemptId) -> bool {
        let front = self.front.as_ref();
        front.is_some_and(|front| front.id() == id && front.is_asking())
    }

    /// Whether a section has the lease of the claim `owner`, or is about to look at it.
    pub(crate) fn is_held_by(&self, owner: OwnerId) -> bool {
        let front = self.front.as_ref();
        front.is_some_and(|front| front.claim.owner == owner && front.is_holding())
    }

    /// Attempt `id` holds one of several leases, which are all there at `now`; what the renewer has to
    /// know of that.
    pub(crate) fn end_trial(&mut self, id: AttemptId, now: Moment) -> Option<RenewAt> {
        let front = self.front.as_mut().filter(|front| front.id() == id);
        front?.end_trial(now)
    }

    /// The task that bears the claim of `owner`.
    pub(crate) fn bearer(&self, owner: OwnerId) -> Option<T> {
        Some(self.attempt_of(owner)?.waiter.task.clone())
    }

    fn attempt_of(&self, owner: OwnerId) -> Option<&Attempt<T>> {
        let mut attempts = self.front.iter().chain(&self.aside);
        attempts.find(|attempt| attempt.claim.owner == owner)
    }

    fn find(&self, id: AttemptId) -> Option<&Attempt<T>> {
        let mut attempts = self.front.iter().chain(&self.aside);
        attempts.find(|attempt| attempt.id() == id)
    }

    fn place_of(&self, id: AttemptId) -> Option<usize> {
        self.behind
            .binary_search_by_key(&id, |waiter| waiter.id)
            .ok()
    }

    /// Looks whether the lease of attempt `id` is past its deadline, before somebody relies on it.
    pub(crate) fn check(&mut self, id: AttemptId, context: Context<'_>) -> Outcome<T> {
        match self.front.as_mut().filter(|front| front.id() == id) {
            Some(front) => {
                let effect = front.check(context.now);
                self.after_front(effect, context)
            }
            None => Outcome::of(Effect::Nothing),
        }
    }

    /// Takes what happened to attempt `id` and says what to do next.
    pub(crate) fn on_event(
        &mut self,
        id: AttemptId,
        event: Event,
        context: Context<'_>,
    ) -> Outcome<T> {
        if let Some(front) = self.front.as_mut().filter(|front| front.id() == id) {
            if matches!(event, Event::Left) && front.is_active() {
                return self.leave_front(context);
            }
            let effect = front.on_event(event, context);
            return self.after_front(effect, context);
        }
        if let Some(place) = self.place_of(id) {
            return self.on_waiter(place, &event, context);
        }
        let aside = self.aside.iter().position(|attempt| attempt.id() == id);
        let Some(index) = aside else {
            // A late answer or hint for an attempt that is over.
            return Outcome::of(Effect::Nothing);
        };
        let effect = self.aside[index].on_event(event, context);
        let mut next = None;
        if matches!(effect, Effect::Forget(_)) {
            let gone = self.aside.swap_remove(index);
            next = self.others_are_told(gone.claim.owner, context);
        }
        Outcome { effect, next }
    }

    /// Takes what happened to the claim of `owner`, whoever bears it now; `None` if nobody does.
    pub(crate) fn on_claim(
        &mut self,
        owner: OwnerId,
        event: Event,
        context: Context<'_>,
    ) -> Option<(T, Outcome<T>)> {
        let waiter = &self.attempt_of(owner)?.waiter;
        let (id, task) = (waiter.id, waiter.task.clone());
        Some((task, self.on_event(id, event, context)))
    }
}

impl<T> Outcome<T> {
    fn of(effect: Effect) -> Self {
        Self { effect, next: None }
    }
}
