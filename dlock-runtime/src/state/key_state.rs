//! All that this process knows of one key, and how an event finds the attempt it is about.

use std::{collections::VecDeque, time::Duration};

use super::{
    attempt::Attempt,
    event::{Context, Effect, Event, HeldLease, Loss, Outcome, RenewAt},
    waiter::LocalWaiter,
};
use crate::{attempt::AttemptId, clock::Moment, owner::OwnerId};

/// Everything this process knows of one key. `T` is how to wake a task.
#[derive(Debug)]
pub(crate) struct KeyState<T> {
    /// Bears the claim, or was the last to.
    pub(super) front: Option<Attempt<T>>,
    /// In the order of arrival, which is that of their ids.
    pub(super) behind: VecDeque<LocalWaiter<T>>,
    /// Lost, or being given back, while another attempt is in front.
    pub(super) aside: Vec<Attempt<T>>,
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

    /// `true` if no task of this process holds or wants the key.
    pub(crate) fn is_idle(&self) -> bool {
        self.front.is_none() && self.behind.is_empty() && self.aside.is_empty()
    }

    /// The number of attempts of this process that want the key and have no lease.
    pub(crate) fn waiting(&self) -> usize {
        let front = self.front.as_ref();
        let is_waiting = front.is_some_and(|it| it.is_active() && !it.is_holding());
        self.behind.len() + usize::from(is_waiting)
    }

    /// The time until which the store may have something of attempt `id`.
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

    /// The loss of attempt `id`'s lease, if it was lost.
    pub(crate) fn loss(&self, id: AttemptId) -> Option<Loss> {
        self.find(id)?.loss()
    }

    /// The time from `now` for which the store has to keep the lease that attempt `id` releases.
    pub(crate) fn kept_for(&self, id: AttemptId, now: Moment) -> Option<Duration> {
        self.find(id)?.kept_for(now)
    }

    /// `true` if the answer to a question of attempt `id` is still of use.
    pub(crate) fn is_asking(&self, id: AttemptId) -> bool {
        let front = self.front.as_ref();
        front.is_some_and(|front| front.id() == id && front.is_asking())
    }

    /// `true` if a body has the lease of the claim `owner`, or is about to look at it.
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

    /// Looks whether the lease of attempt `id` is past its deadline, before its caller relies on it.
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

    /// Takes what happened to the claim of `owner`, whichever attempt bears it now; `None` if none does.
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
