//! The order of turns: the waiters of one process, and when one of them moves to the front.

use super::{
    attempt::Attempt,
    claim::LastAnswer,
    event::{Context, Effect, Event, Outcome},
    key_state::KeyState,
    waiter::LocalWaiter,
};
use crate::{
    answer::{ALIVE, Holder},
    clock::Moment,
    error::StoreError,
    options::Wait,
    owner::OwnerId,
};

impl<T: Clone> KeyState<T> {
    /// Handles an event of a waiter behind others.
    pub(super) fn on_waiter(
        &mut self,
        place: usize,
        event: &Event,
        context: Context<'_>,
    ) -> Outcome<T> {
        let now = context.now;
        if matches!(event, Event::Woken | Event::Answered { .. }) {
            self.behind[place].is_called = false;
            if let Some(joined) = self.join(place, context) {
                return joined;
            }
        }
        let waiter = &mut self.behind[place];
        Outcome::of(match event {
            // An answer for a task that is not in front any more has no other effect.
            Event::Woken | Event::Answered { .. } => {
                waiter.absent = false;
                let give_up = waiter.give_up;
                // A caller that does not wait sends one request, if no other attempt precedes it.
                let may_ask = waiter.is_waiting(now) || waiter.asks_once();
                if may_ask && self.front_gives_way(now) {
                    return self.step_forward(place, context);
                }
                if self.behind[place].is_waiting(now) {
                    let look_at = now.plus(ALIVE);
                    Effect::Queue(give_up.map_or(look_at, |end| end.earlier(look_at)))
                } else {
                    let known = self.known_in_front(place, context);
                    Effect::Refuse(self.behind[place].denial(&known, now))
                }
            }
            Event::Closed | Event::CutShort => {
                waiter.refused = true;
                Effect::Wake
            }
            Event::Left => {
                let effect = self.leave_from(place, context);
                // It may have been woken as the next one, and has not looked.
                return Outcome::and_next(effect, self.next_in_line(context));
            }
            _ => Effect::Nothing,
        })
    }

    /// Removes the waiter at `place`.
    fn leave_from(&mut self, place: usize, context: Context<'_>) -> Effect {
        let Some(waiter) = self.behind.remove(place) else {
            return Effect::Nothing;
        };
        let mut attempt = Attempt::new(waiter, context);
        let effect = attempt.on_event(Event::Left, context);
        if !matches!(effect, Effect::Forget(_)) {
            self.aside.push(attempt);
        }
        effect
    }

    /// Returns `true` if no attempt is in front, or one whose task does not respond.
    pub(super) fn front_gives_way(&self, now: Moment) -> bool {
        let front = self.front.as_ref().filter(|front| front.is_active());
        front.is_none_or(|front| front.is_absent(now))
    }

    /// Moves the waiter at `place` to the front. An attempt that is there and does not respond waits for its
    /// next turn.
    fn step_forward(&mut self, place: usize, context: Context<'_>) -> Outcome<T> {
        let Some(waiter) = self.behind.remove(place) else {
            return Outcome::of(Effect::Nothing);
        };
        let mut next = None;
        let mut front = match self.front.take() {
            Some(front) if front.is_active() => {
                let (front, absent) = front.yield_to(waiter, context);
                // It may wait for an answer that is irrelevant to it now.
                next = Some(absent.task.clone());
                self.line_up(absent);
                front
            }
            Some(last) => {
                let mut next = Attempt::after_others(waiter, context);
                next.follow(&last, context);
                self.aside.push(last);
                next
            }
            None => Attempt::new(waiter, context),
        };
        let effect = front.on_event(Event::Woken, context);
        self.front = Some(front);
        Outcome::and_next(effect, next)
    }

    /// Gives the waiter its place behind those that came before it.
    pub(super) fn line_up(&mut self, waiter: LocalWaiter<T>) -> usize {
        let place = self.behind.partition_point(|other| other.id < waiter.id);
        self.behind.insert(place, waiter);
        place
    }

    /// Returns the reason why the waiter at `place` does not have the lock yet.
    fn known_in_front(&self, place: usize, context: Context<'_>) -> LastAnswer {
        let Some(front) = self.front.as_ref().filter(|front| front.is_active()) else {
            return LastAnswer::Busy(Holder::here());
        };
        if let Some(ttl) = front.remaining(context.now) {
            return LastAnswer::Busy(Holder {
                ttl: Some(ttl),
                position: u64::try_from(place).ok(),
                ..Holder::here()
            });
        }
        let waits = self.behind[place].timing.wait != Wait::Never;
        let asking_since = front.asking_since().filter(|_| waits);
        match (front.claim.last_answer.clone(), asking_since) {
            // The front attempt's place in the store's queue is not this waiter's.
            (LastAnswer::Busy(holder), _) => LastAnswer::Busy(Holder {
                position: None,
                ..holder
            }),
            (LastAnswer::NotAsked, Some(sent)) if context.is_answer_due(sent) => {
                LastAnswer::Failed(StoreError::timed_out(sent.elapsed(context.now)))
            }
            (other, _) => other,
        }
    }

    /// Removes the front attempt, and passes its claim to the next one if possible.
    pub(super) fn leave_front(&mut self, context: Context<'_>) -> Outcome<T> {
        let Some(front) = &mut self.front else {
            return Outcome::of(Effect::Nothing);
        };
        let now = context.now;
        let next = self.behind.iter().position(|next| next.is_waiting(now));
        let heir = next.filter(|&place| front.can_take_over(&self.behind[place], context));
        if let Some(waiter) = heir.and_then(|place| self.behind.remove(place)) {
            let next = Some(waiter.task.clone());
            let front = self.front.take();
            self.front = front.map(|front| front.hand_over(waiter, now));
            return Outcome::and_next(Effect::Forget(None), next);
        }
        let effect = front.on_event(Event::Left, context);
        let is_gone = matches!(effect, Effect::Forget(_));
        let gone = self.front.take_if(|_| is_gone);
        let next = self.promote(gone.as_ref(), context);
        Outcome::and_next(effect, next)
    }

    /// Moves the next attempt to the front if the one there has just lost the lease or is gone.
    pub(super) fn after_front(&mut self, effect: Effect, context: Context<'_>) -> Outcome<T> {
        if matches!(effect, Effect::Enter { .. })
            && let Some((owner, id)) = self.pool_front()
        {
            return self.after_pooled(owner, id, effect, context);
        }
        if matches!(effect, Effect::Forget(_)) {
            self.front = None;
        }
        let is_over = matches!(effect, Effect::Forget(_) | Effect::Lose);
        let next = if is_over {
            self.promote(None, context)
        } else {
            None
        };
        Outcome::and_next(effect, next)
    }

    /// Moves the next attempt to the front, with its own claim. `gone` was there, and has left nothing to
    /// release.
    pub(super) fn promote(&mut self, gone: Option<&Attempt<T>>, context: Context<'_>) -> Option<T> {
        let now = context.now;
        let next = self.behind.iter().position(|next| next.is_waiting(now))?;
        let waiter = self.behind.remove(next)?;
        let task = waiter.task.clone();
        let mut attempt = Attempt::after_others(waiter, context);
        if let Some(gone) = gone {
            attempt.follow(gone, context);
        }
        self.come_next(attempt, context);
        Some(task)
    }

    /// Moves the front attempt aside: it is over.
    pub(super) fn come_next(&mut self, mut next: Attempt<T>, context: Context<'_>) {
        if let Some(last) = self.front.take() {
            next.follow(&last, context);
            self.aside.push(last);
        }
        self.front = Some(next);
    }

    /// Records the answer to the release of `owner`. Returns the task that has to be woken because of it.
    pub(super) fn others_are_told(&mut self, owner: OwnerId, context: Context<'_>) -> Option<T> {
        let front = self.front.as_mut()?;
        let task = front.waiter.task.clone();
        front.others_are_told(owner, context).then_some(task)
    }
}
