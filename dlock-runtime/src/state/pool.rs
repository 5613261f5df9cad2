//! The leases of shared locks and permits: several at a time, each with a claim of its own.
//!
//! One attempt of the process is in front: it asks the store, or waits in its queue. When its body begins, it moves
//! to the pool, and the next waiter comes to the front. Waiters that may share a lease of the pool do so instead.
//! Others may ask beside the attempt in front, see [`beside`](super::beside). A permit is handed over to the next waiter
//! within the turn. A caller that does not wait asks by itself: the attempt in front may wait although the store would let in
//! another one.

use super::{
    attempt::Attempt,
    event::{Context, Effect, Event, Outcome},
    key_state::KeyState,
};
use crate::attempt::AttemptId;

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
        let mut pool = self.pool.iter_mut();
        if let Some(lease) = pool.find(|it| it.admits(waiter, context)) {
            lease.share_with(self.behind.remove(place)?, now);
            return Some(Outcome::of(Effect::Enter { renew_at: None }));
        }
        if !waiter.asks_once() && !self.may_ask_beside(place, context) {
            return None;
        }
        let mut attempt = Attempt::beside(self.behind.remove(place)?, context);
        let effect = attempt.on_event(Event::Woken, context);
        self.pool.push(attempt);
        Some(Outcome::of(effect))
    }

    /// Moves the front attempt, whose body begins, to the pool. Returns its place there, if it shares the key.
    pub(super) fn pool_front(&mut self) -> Option<usize> {
        let front = self.front.take_if(|it| !it.claim.mode.is_exclusive())?;
        self.pool.push(front);
        Some(self.pool.len() - 1)
    }

    /// Returns the attempt of the pool that `id` bears or shares.
    pub(super) fn pooled(&self, id: AttemptId) -> Option<usize> {
        self.pool.iter().position(|attempt| attempt.is_used_by(id))
    }

    /// Handles an event of a user of the attempt at `place` of the pool.
    pub(super) fn on_pooled(
        &mut self,
        place: usize,
        id: AttemptId,
        event: Event,
        context: Context<'_>,
    ) -> Outcome<T> {
        let now = context.now;
        let attempt = &mut self.pool[place];
        if attempt.id() != id {
            return Outcome::of(match event {
                Event::Left => {
                    attempt.remove_sharer(id);
                    Effect::Forget(None)
                }
                Event::CutShort if attempt.cut_sharer_short(id, now) => Effect::Lose,
                _ => Effect::Nothing,
            });
        }
        match event {
            Event::Left => self.leave_pool(place, context),
            Event::CutShort if attempt.cut_bearer_short(now) => Outcome::of(Effect::Lose),
            _ => {
                let effect = attempt.on_event(event, context);
                self.after_pooled(place, id, effect, context)
            }
        }
    }

    /// Ends the use of a lease by the task that bears its claim.
    fn leave_pool(&mut self, place: usize, context: Context<'_>) -> Outcome<T> {
        let now = context.now;
        if self.pool[place].pass_on().is_some() {
            return Outcome::of(Effect::Forget(None));
        }
        let attempt = &mut self.pool[place];
        let next = self.behind.iter().position(|next| next.is_waiting(now));
        let heir = next.filter(|&next| {
            attempt.is_holding() && attempt.can_take_over(&self.behind[next], context)
        });
        if let Some(waiter) = heir.and_then(|next| self.behind.remove(next)) {
            let task = waiter.task.clone();
            let attempt = self.pool.swap_remove(place);
            self.pool.push(attempt.hand_over(waiter, now));
            return Outcome::and_next(Effect::Forget(None), Some(task));
        }
        let id = attempt.id();
        let effect = attempt.on_event(Event::Left, context);
        self.after_pooled(place, id, effect, context)
    }

    /// Does what follows from the effect, on its user `id`, of an event of the attempt at `place` of the pool.
    pub(super) fn after_pooled(
        &mut self,
        place: usize,
        id: AttemptId,
        effect: Effect,
        context: Context<'_>,
    ) -> Outcome<T> {
        let mut outcome = Outcome::of(effect);
        match &outcome.effect {
            // The lease that was handed to it has to be confirmed, and the others wait for that.
            Effect::Ask { queue: true, .. } if !self.front_is_active() => {
                let asking = self.pool.swap_remove(place);
                self.aside.extend(self.front.replace(asking));
            }
            Effect::Enter { .. } if self.pool[place].is_shareable() => {
                self.pool[place].invite(self.behind.back().map(|last| last.id));
                outcome.invited = self.behind.iter().map(|next| next.task.clone()).collect();
            }
            Effect::Enter { .. } => {
                outcome.next = self.next_in_line(context);
                outcome.invited = self.call_beside(context.now);
            }
            Effect::WaitUntil(_) if self.pool[place].is_put_off() => {
                let waiter = self.pool.swap_remove(place).waiter;
                let place = self.line_up(waiter);
                return self.on_waiter(place, &Event::Woken, context);
            }
            Effect::Lose => outcome.also_lost = self.pool[place].lose_sharers(id, context.now),
            Effect::Forget(_) => {
                self.pool.swap_remove(place);
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
