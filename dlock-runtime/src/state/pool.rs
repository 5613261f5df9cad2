//! The leases of shared locks and permits: several at a time, each with a claim of its own.
//!
//! One attempt of the process is in front: it asks the store, or waits in its queue. When its body begins, it moves
//! to the pool, and the next waiter comes to the front. Waiters that may share a lease of the pool do so instead.
//! Others may ask beside the attempt in front, see [`beside`](super::beside). A permit is handed over to the next waiter
//! within the turn. A caller that does not wait asks by itself: the attempt in front may wait although the store would let in
//! another one.

use std::mem;

use super::{
    attempt::Attempt,
    event::{Context, Effect, Event, Outcome},
    key_state::KeyState,
    waiter::LocalWaiter,
};
use crate::{attempt::AttemptId, mode::LockMode, owner::OwnerId};

impl<T: Clone> KeyState<T> {
    /// Lets the waiter at `place` use a lease of the pool, or ask beside the attempt in front. Returns `None` if it
    /// has to wait for its turn.
    pub(super) fn join(&mut self, place: usize, context: Context<'_>) -> Option<Outcome<T>> {
        let now = context.now;
        let waiter = &self.behind[place];
        let asks = waiter.is_waiting(now) || waiter.asks_once();
        if waiter.timing.mode.is_exclusive() || !asks {
            return None;
        }
        if let Some(owner) = self.shared_with(waiter, context) {
            self.pool.share(owner, self.behind.remove(place)?, now);
            return Some(Outcome::of(Effect::Enter { renew_at: None }));
        }
        if !waiter.asks_once() && !self.may_ask_beside(place, context) {
            return None;
        }
        let mut attempt = Attempt::beside(self.behind.remove(place)?, context);
        let effect = attempt.on_event(Event::Woken, context);
        self.pool.add(attempt);
        Some(Outcome::of(effect))
    }

    /// Returns the owner of a lease of the pool that `waiter` may use.
    fn shared_with(&self, waiter: &LocalWaiter<T>, context: Context<'_>) -> Option<OwnerId> {
        if waiter.timing.mode != LockMode::Shared {
            return None;
        }
        // The newest first: a lease is shared with tasks that come soon.
        let mut leases = self.pool.iter().rev();
        let lease = leases.find(|it| it.admits(waiter, context))?;
        Some(lease.claim.owner)
    }

    /// Moves the front attempt, whose body begins, to the pool, if it shares the key. Returns its owner and its id.
    pub(super) fn pool_front(&mut self) -> Option<(OwnerId, AttemptId)> {
        let front = self.front.take_if(|it| !it.claim.mode.is_exclusive())?;
        let id = front.id();
        Some((self.pool.add(front), id))
    }

    /// Handles an event of a user of the lease of `owner` in the pool.
    pub(super) fn on_pooled(
        &mut self,
        owner: OwnerId,
        id: AttemptId,
        event: Event,
        context: Context<'_>,
    ) -> Outcome<T> {
        let now = context.now;
        if matches!(event, Event::Left) {
            return self.leave_pool(owner, id, context);
        }
        let Some(attempt) = self.pool.get_mut(owner) else {
            return Outcome::of(Effect::Nothing);
        };
        let is_bearer = attempt.id() == id;
        match event {
            Event::CutShort if is_bearer && attempt.cut_bearer_short(now) => {
                Outcome::of(Effect::Lose)
            }
            Event::CutShort if !is_bearer && attempt.cut_sharer_short(id, now) => {
                Outcome::of(Effect::Lose)
            }
            _ if !is_bearer => Outcome::of(Effect::Nothing),
            _ => {
                let effect = attempt.on_event(event, context);
                self.after_pooled(owner, id, effect, context)
            }
        }
    }

    /// Ends the use of a lease by one task.
    fn leave_pool(&mut self, owner: OwnerId, id: AttemptId, context: Context<'_>) -> Outcome<T> {
        if self.pool.leave(id) {
            return Outcome::of(Effect::Forget(None));
        }
        let now = context.now;
        let Some(attempt) = self.pool.get_mut(owner) else {
            return Outcome::of(Effect::Nothing);
        };
        let next = self.behind.iter().position(|next| next.is_waiting(now));
        let heir = next.filter(|&next| {
            attempt.is_holding() && attempt.can_take_over(&self.behind[next], context)
        });
        let Some(waiter) = heir.and_then(|next| self.behind.remove(next)) else {
            let effect = attempt.on_event(Event::Left, context);
            return self.after_pooled(owner, id, effect, context);
        };
        let task = waiter.task.clone();
        if let Some(attempt) = self.pool.remove(owner) {
            self.pool.add(attempt.hand_over(waiter, now));
        }
        Outcome::and_next(Effect::Forget(None), Some(task))
    }

    /// Does what follows from the effect, on its user `id`, of an event of the attempt in the pool that has the claim `owner`.
    pub(super) fn after_pooled(
        &mut self,
        owner: OwnerId,
        id: AttemptId,
        effect: Effect,
        context: Context<'_>,
    ) -> Outcome<T> {
        let mut outcome = Outcome::of(effect);
        let front_is_active = self.front_is_active();
        let Some(attempt) = self.pool.get_mut(owner) else {
            return outcome;
        };
        match &outcome.effect {
            // The lease that was handed to it has to be confirmed, and the others wait for that.
            Effect::Ask { queue: true, .. } if !front_is_active => {
                let asking = self.pool.remove(owner);
                self.aside.extend(mem::replace(&mut self.front, asking));
            }
            Effect::Enter { .. } if attempt.is_shareable() => {
                attempt.invite(self.behind.back().map(|last| last.id));
                outcome.invited = self.behind.iter().map(|next| next.task.clone()).collect();
            }
            Effect::Enter { .. } => {
                outcome.next = self.next_in_line(context);
                outcome.invited = self.call_beside(context.now);
            }
            Effect::WaitUntil(_) if attempt.is_put_off() => {
                if let Some(attempt) = self.pool.remove(owner) {
                    let place = self.line_up(attempt.waiter);
                    return self.on_waiter(place, &Event::Woken, context);
                }
            }
            Effect::Lose => outcome.also_lost = attempt.lose_sharers(id, context.now),
            Effect::Forget(_) => {
                self.pool.remove(owner);
                outcome.next = self.next_in_line(context);
            }
            _ => {}
        }
        outcome
    }

    /// Returns the first waiter, if no attempt is in front of it.
    pub(super) fn next_in_line(&self, context: Context<'_>) -> Option<T> {
        if self.front_is_active() {
            return None;
        }
        let mut behind = self.behind.iter();
        let next = behind.find(|next| next.is_waiting(context.now))?;
        Some(next.task.clone())
    }
}
