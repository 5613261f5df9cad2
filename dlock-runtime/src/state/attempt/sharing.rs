//! The tasks of one process that use one shared lease together.
//!
//! One of them bears the claim; the others are *sharers*. The lease is released when the last of them leaves, and
//! a loss is everybody's. **Safety.** A task begins to share only while the lease is valid and nothing says that it may
//! be gone. For the sake of other processes, a lease is shared with tasks that come within [`LONGEST_TURN`], and with
//! those that waited when its body began.

use std::mem;

use super::{Attempt, Phase, handover::LONGEST_TURN, sharer::Sharer};
use crate::{
    attempt::AttemptId,
    clock::Moment,
    error::LostCause,
    mode::LockMode,
    options::Timing,
    state::{
        event::{Context, HeldLease, Loss},
        waiter::LocalWaiter,
    },
};

impl<T> Attempt<T> {
    /// Returns `true` if `next` may use the lease together with the tasks that do so already.
    pub(in crate::state) fn admits(&self, next: &LocalWaiter<T>, context: Context<'_>) -> bool {
        let Phase::Holding(hold) = &self.phase else {
            return false;
        };
        let now = context.now;
        let is_invited = self.invited.is_some_and(|last| next.id <= last);
        self.may_admit(next, context)
            && hold.is_entered()
            && hold.is_trusted()
            && !hold.is_bound
            && next.may_rely_on(hold.known_since)
            && hold.remaining(now) >= self.claim.least()
            && (is_invited || hold.granted_at.elapsed(now) <= LONGEST_TURN)
    }

    /// Returns `true` if `next` may use a lease of this attempt that is good enough.
    pub(in crate::state) fn may_admit(&self, next: &LocalWaiter<T>, context: Context<'_>) -> bool {
        context.handover && self.is_shareable() && is_shareable(&next.timing) && self.suits(next)
    }

    /// Returns `true` if other tasks may use a lease of this attempt.
    pub(in crate::state) fn is_shareable(&self) -> bool {
        self.claim.mode == LockMode::Shared && is_shareable(&self.waiter.timing)
    }

    /// Lets `next` use the lease.
    pub(in crate::state) fn share_with(&mut self, next: LocalWaiter<T>, now: Moment) {
        let sharer = Sharer {
            waiter: next,
            since: now,
            loss: None,
        };
        self.sharers.insert(sharer.waiter.id, sharer);
    }

    /// Invites the waiters up to `last` to use the lease, however late they come.
    pub(in crate::state) fn invite(&mut self, last: Option<AttemptId>) {
        self.invited = last;
    }

    /// Returns the task that bears the claim and those that share its lease.
    pub(in crate::state) fn users(&self) -> impl Iterator<Item = &LocalWaiter<T>> {
        let sharers = self.sharers.values().map(|sharer| &sharer.waiter);
        std::iter::once(&self.waiter).chain(sharers)
    }

    /// Returns the lease as one of its users has it.
    pub(in crate::state) fn lease_of(&self, id: AttemptId) -> Option<HeldLease> {
        let lease = self.lease();
        match self.sharers.get(&id) {
            None => lease,
            Some(sharer) => lease.filter(|_| sharer.loss.is_none()).map(|it| HeldLease {
                since: sharer.since,
                ..it
            }),
        }
    }

    /// Returns the loss of the lease as one of its users has it.
    pub(in crate::state) fn loss_of(&self, id: AttemptId) -> Option<Loss> {
        match self.sharers.get(&id) {
            None => self.loss(),
            Some(sharer) => sharer.loss.clone(),
        }
    }

    /// Records that a sharer's call holds all of its leases.
    pub(in crate::state) fn end_trial_of_sharer(&mut self, id: AttemptId) {
        if let Some(sharer) = self.sharers.get_mut(&id) {
            sharer.waiter.timing.on_trial = false;
        }
    }

    /// Removes a task that has left, if other tasks use the lease too. Returns `false` if none does.
    pub(in crate::state) fn remove_user(&mut self, id: AttemptId) -> bool {
        self.sharers.remove(&id).is_some() || self.pass_on().is_some()
    }

    /// Ends the use of the lease by one sharer. Returns `false` if it had lost the lease already.
    pub(in crate::state) fn cut_sharer_short(&mut self, id: AttemptId, now: Moment) -> bool {
        let sharer = self.sharers.get_mut(&id);
        sharer
            .filter(|sharer| sharer.loss.is_none())
            .map(|sharer| sharer.lose(LostCause::ShutDown, now))
            .is_some()
    }

    /// Makes another user bear the claim, one that has the lease if there is any. Returns the task that bore it,
    /// or `None` if there is no other user.
    fn pass_on(&mut self) -> Option<LocalWaiter<T>> {
        let next = self.last_holder().or_else(|| self.sharers.last_key_value());
        let next = *next?.0;
        let next = self.sharers.remove(&next)?;
        match (&mut self.phase, next.loss) {
            (Phase::Holding(hold), None) => hold.since = next.since,
            (phase, Some(loss)) => *phase = Phase::Lost(loss),
            (_, None) => {}
        }
        Some(mem::replace(&mut self.waiter, next.waiter))
    }

    /// Returns the last sharer that has the lease. A shutdown ends one use after the other in the order of their arrival, so
    /// that from the other end those are passed over that have lost it.
    fn last_holder(&self) -> Option<(&AttemptId, &Sharer<T>)> {
        let mut sharers = self.sharers.iter().rev();
        sharers.find(|(_, sharer)| sharer.loss.is_none())
    }

    /// Ends the use of the lease by the task that bears the claim, if others go on with it.
    pub(in crate::state) fn cut_bearer_short(&mut self, now: Moment) -> bool {
        let others_hold = self.last_holder().is_some();
        let Some(since) = self.holding().map(|hold| hold.since) else {
            return false;
        };
        if !others_hold {
            return false;
        }
        if let Some(waiter) = self.pass_on() {
            let mut cut = Sharer {
                waiter,
                since,
                loss: None,
            };
            cut.lose(LostCause::ShutDown, now);
            self.sharers.insert(cut.waiter.id, cut);
        }
        true
    }

    /// Records that the sharers have lost the lease, which has just been lost. Returns the tasks that have lost it by
    /// this, but for `known`, which the caller notifies.
    pub(in crate::state) fn lose_sharers(&mut self, known: AttemptId, now: Moment) -> Vec<T>
    where
        T: Clone,
    {
        let Some(Loss { cause, .. }) = self.loss() else {
            return Vec::new();
        };
        let holders = self.sharers.values_mut();
        let holders = holders.filter(|sharer| sharer.loss.is_none());
        let sharers = holders.map(|sharer| {
            sharer.lose(cause.clone(), now);
            &sharer.waiter
        });
        let users = std::iter::once(&self.waiter).chain(sharers);
        let others = users.filter(|user| user.id != known);
        others.map(|user| user.task.clone()).collect()
    }
}

/// Returns `true` if a lease with this timing ends with its last user: not later, and not earlier for one of them.
fn is_shareable(timing: &Timing) -> bool {
    timing.renew && timing.min_hold.is_none() && timing.max_hold.is_none()
}
