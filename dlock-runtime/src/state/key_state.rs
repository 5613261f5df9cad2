//! Everything that this process knows of one key, and the lookup of the attempt that an event concerns.

use std::{collections::VecDeque, time::Duration};

use super::{
    attempt::Attempt,
    event::{Context, Effect, Event, HeldLease, Loss, Outcome, RenewAt},
    leases::Leases,
    waiter::LocalWaiter,
};
use crate::{answer::Renewal, attempt::AttemptId, clock::Moment, owner::OwnerId};

/// Everything that this process knows of one key. `T` is the handle that wakes a task.
#[derive(Debug)]
pub(crate) struct KeyState<T> {
    /// Holds the claim, or was the last to hold it.
    pub(super) front: Option<Attempt<T>>,
    /// In the order of arrival, which is the order of the ids.
    pub(super) behind: VecDeque<LocalWaiter<T>>,
    /// Lost, or being released, while another attempt is in front.
    pub(super) aside: Vec<Attempt<T>>,
    /// Leases of a shared lock or of permits. Empty for an exclusive lock.
    pub(super) pool: Leases<T>,
    /// How many more attempts may ask beside the one in front.
    pub(super) beside: usize,
}

/// How many attempts may ask beside the one in front before the first answer.
pub(super) const ASK_BESIDE_AT_FIRST: usize = 64;

impl<T> Default for KeyState<T> {
    fn default() -> Self {
        Self {
            front: None,
            behind: VecDeque::new(),
            aside: Vec::new(),
            pool: Leases::default(),
            beside: ASK_BESIDE_AT_FIRST,
        }
    }
}

impl<T: Clone> KeyState<T> {
    /// Adds a task that wants the key. Its driver starts with [`Event::Woken`].
    pub(crate) fn enter(&mut self, waiter: LocalWaiter<T>, context: Context<'_>) {
        // A waiter that shares the key may find a lease in the pool.
        let shares = !waiter.timing.mode.is_exclusive();
        if shares || self.front_is_active() {
            self.behind.push_back(waiter);
        } else {
            let next = Attempt::new(waiter, context);
            self.come_next(next, context);
        }
    }

    /// Returns `true` if no task of this process holds or wants the key.
    pub(crate) fn is_idle(&self) -> bool {
        let no_attempt = self.front.is_none() && self.aside.is_empty() && self.pool.is_empty();
        no_attempt && self.behind.is_empty()
    }

    /// Returns `true` if fewer than `bound` attempts of this process want the key and have no lease.
    pub(crate) fn fewer_wait_than(&self, bound: usize) -> bool {
        // Those of a pool are counted only if it matters: most of them have one.
        if self.behind.len() + self.pool.len() + 1 < bound {
            return true;
        }
        let asking = self.front.iter().chain(self.pool.iter());
        let asking = asking.filter(|it| it.is_active() && !it.is_holding());
        self.behind.len() + asking.count() < bound
    }

    /// Returns the time until which the store may keep something of attempt `id`.
    pub(crate) fn traces_until(&self, id: AttemptId) -> Option<Moment> {
        self.find(id)?.claim.traces_until
    }

    /// Returns the tasks of all attempts.
    pub(crate) fn tasks(&self) -> Vec<T> {
        let users = self.attempts().flat_map(Attempt::users);
        let waiters = users.chain(&self.behind);
        waiters.map(|waiter| waiter.task.clone()).collect()
    }

    /// Returns the tasks for which a lost message may matter: those that ask, wait in the store's queue, or release.
    ///
    /// A store tells this on the thread that its other answers need. The tasks that hold or wait behind others may be thousands.
    pub(crate) fn told_by_store(&self) -> Vec<T> {
        let told = self.attempts().filter(|it| !it.is_holding());
        told.map(|attempt| attempt.waiter.task.clone()).collect()
    }

    /// Returns the lease of attempt `id`, unless it was lost.
    pub(crate) fn lease(&self, id: AttemptId) -> Option<HeldLease> {
        self.find(id)?.lease_of(id)
    }

    /// Returns the loss of attempt `id`'s lease, if it was lost.
    pub(crate) fn loss(&self, id: AttemptId) -> Option<Loss> {
        self.find(id)?.loss_of(id)
    }

    /// Returns for how long, from `now`, the store has to keep the lease that attempt `id` releases.
    pub(crate) fn kept_for(&self, id: AttemptId, now: Moment) -> Option<Duration> {
        self.find(id)?.kept_for(now)
    }

    /// Returns `true` if the answer to a request of attempt `id` is still needed.
    pub(crate) fn is_asking(&self, id: AttemptId) -> bool {
        self.find(id).is_some_and(Attempt::is_asking)
    }

    /// Returns `true` if a body has the lease of the claim `owner`, or is about to see it.
    pub(crate) fn is_held_by(&self, owner: OwnerId) -> bool {
        self.attempt_of(owner).is_some_and(Attempt::is_holding)
    }

    /// Records that attempt `id` holds one of several leases, which are all held at `now`. Returns what the
    /// renewer has to know.
    pub(crate) fn end_trial(&mut self, id: AttemptId, now: Moment) -> Option<RenewAt> {
        let attempt = self.find_mut(id)?;
        if attempt.id() == id {
            return attempt.end_trial(now);
        }
        attempt.end_trial_of_sharer(id);
        None
    }

    /// Keeps the lease of attempt `id` from being handed over: something outside this process depends on it, and
    /// perhaps for longer than the body. Returns its owner, or `None` if there is no lease.
    pub(crate) fn bind(&mut self, id: AttemptId) -> Option<OwnerId> {
        self.find_mut(id)?.bind()
    }

    /// Leaves the lease of attempt `id` to the store: it is not released, whichever task uses it last.
    pub(crate) fn leave_to_store(&mut self, id: AttemptId) {
        if let Some(attempt) = self.find_mut(id) {
            attempt.leave_to_store();
        }
    }

    /// Returns `true` if the lease of attempt `id` is left to the store.
    pub(crate) fn is_left_to_store(&self, id: AttemptId) -> bool {
        self.find(id).is_some_and(|it| it.is_left_to_store)
    }

    /// Returns `true` if the lease of attempt `id` may be gone, according to a message or a failed renewal.
    pub(crate) fn is_doubted(&self, id: AttemptId) -> bool {
        self.find(id).is_some_and(Attempt::is_doubted)
    }

    /// Returns the task that holds the claim of `owner`.
    pub(crate) fn bearer(&self, owner: OwnerId) -> Option<T> {
        Some(self.attempt_of(owner)?.waiter.task.clone())
    }

    /// Returns the tasks that use the lease of the claim `owner`.
    pub(crate) fn users(&self, owner: OwnerId) -> Vec<T> {
        let users = self.attempt_of(owner).into_iter().flat_map(Attempt::users);
        users.map(|user| user.task.clone()).collect()
    }

    /// Returns the tasks that have a lease.
    pub(crate) fn holders(&self) -> impl Iterator<Item = &T> {
        let held = self.attempts().filter(|it| it.lease().is_some());
        held.flat_map(Attempt::users).map(|user| &user.task)
    }

    pub(super) fn front_is_active(&self) -> bool {
        self.front.as_ref().is_some_and(Attempt::is_active)
    }

    pub(super) fn attempts(&self) -> impl Iterator<Item = &Attempt<T>> {
        let few = self.front.iter().chain(&self.aside);
        few.chain(self.pool.iter())
    }

    fn attempt_of(&self, owner: OwnerId) -> Option<&Attempt<T>> {
        let mut few = self.front.iter().chain(&self.aside);
        few.find(|attempt| attempt.claim.owner == owner)
            .or_else(|| self.pool.get(owner))
    }

    /// Returns the attempt that `id` bears or shares.
    pub(super) fn find(&self, id: AttemptId) -> Option<&Attempt<T>> {
        let mut few = self.front.iter().chain(&self.aside);
        few.find(|attempt| attempt.id() == id)
            .or_else(|| self.pool.get(self.pool.owner_of(id)?))
    }

    fn find_mut(&mut self, id: AttemptId) -> Option<&mut Attempt<T>> {
        let mut few = self.front.iter_mut().chain(&mut self.aside);
        few.find(|attempt| attempt.id() == id)
            .or_else(|| self.pool.get_mut(self.pool.owner_of(id)?))
    }

    fn place_of(&self, id: AttemptId) -> Option<usize> {
        self.behind
            .binary_search_by_key(&id, |waiter| waiter.id)
            .ok()
    }

    /// Checks whether the lease of attempt `id` is past its deadline, before its caller relies on it.
    pub(crate) fn check(&mut self, id: AttemptId, context: Context<'_>) -> Outcome<T> {
        if let Some(front) = self.front.as_mut().filter(|front| front.id() == id) {
            let effect = front.check(context.now);
            return self.after_front(effect, context);
        }
        let Some(owner) = self.pool.owner_of(id) else {
            return Outcome::of(Effect::Nothing);
        };
        let attempt = self.pool.get_mut(owner);
        let effect = attempt.map_or(Effect::Nothing, |attempt| attempt.check(context.now));
        self.after_pooled(owner, id, effect, context)
    }

    /// Handles an event of attempt `id` and returns the next action.
    pub(crate) fn on_event(
        &mut self,
        id: AttemptId,
        event: Event,
        context: Context<'_>,
    ) -> Outcome<T> {
        self.learn(&event);
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
        if let Some(owner) = self.pool.owner_of(id) {
            return self.on_pooled(owner, id, event, context);
        }
        let aside = self.aside.iter().position(|attempt| attempt.id() == id);
        let Some(index) = aside else {
            // A late answer or message for an attempt that is over.
            return Outcome::of(Effect::Nothing);
        };
        let effect = self.aside[index].on_event(event, context);
        let mut next = None;
        if matches!(effect, Effect::Forget(_)) {
            let gone = self.aside.swap_remove(index);
            next = self.others_are_told(gone.claim.owner, context);
        }
        Outcome::and_next(effect, next)
    }

    /// Handles an event of the claim of `owner`, whichever attempt holds it now. Returns `None` if none does.
    pub(crate) fn on_claim(
        &mut self,
        owner: OwnerId,
        event: Event,
        context: Context<'_>,
    ) -> Option<(T, Outcome<T>)> {
        let waiter = &self.attempt_of(owner)?.waiter;
        let (id, task) = (waiter.id, waiter.task.clone());
        let is_confirmed = matches!(
            event,
            Event::Renewed {
                answer: Ok(Renewal::Renewed),
                ..
            }
        );
        let mut outcome = self.on_event(id, event, context);
        if is_confirmed && let Some(attempt) = self.attempt_of(owner) {
            let waiting = attempt.users().filter(|user| user.timing.on_trial);
            let waiting = waiting.map(|user| user.task.clone());
            outcome.invited.extend(waiting);
        }
        Some((task, outcome))
    }
}
