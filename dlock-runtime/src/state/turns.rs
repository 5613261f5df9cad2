//! Who comes next: the waiters of one process, and when one of them goes to the front.

use super::{Attempt, Effect, Event, KeyState, Outcome, Surroundings, claim::Refusal};
use crate::{
    clock::Moment,
    owner::OwnerId,
    store::{ALIVE, Holder},
};

impl<T: Clone> KeyState<T> {
    /// What happens to somebody who waits behind others.
    pub(super) fn on_waiter(
        &mut self,
        place: usize,
        event: &Event,
        around: Surroundings<'_>,
    ) -> Outcome<T> {
        let now = around.now;
        let waiter = &mut self.behind[place];
        Outcome::of(match event {
            // An answer for who is in front no more says nothing else.
            Event::Woken | Event::Answered { .. } => {
                waiter.absent = false;
                let give_up = waiter.give_up;
                // Who does not wait has one question, if nobody is there before it.
                let may_ask = waiter.is_waiting(now) || waiter.asks_once();
                if may_ask && self.front_gives_way(now) {
                    return self.step_forward(place, around);
                }
                if self.behind[place].is_waiting(now) {
                    let look_at = now.plus(ALIVE);
                    Effect::Queue(give_up.map_or(look_at, |end| end.earlier(look_at)))
                } else {
                    let known = self.known_in_front(place, now);
                    Effect::Refuse(self.behind[place].denial(&known, now))
                }
            }
            Event::Closed | Event::Revoked => {
                waiter.refused = true;
                Effect::Ring
            }
            Event::Left => return Outcome::of(self.leave_from(place, around)),
            _ => Effect::Nothing,
        })
    }

    /// The waiter at `place` waits no longer.
    fn leave_from(&mut self, place: usize, around: Surroundings<'_>) -> Effect {
        let Some(waiter) = self.behind.remove(place) else {
            return Effect::Nothing;
        };
        if waiter.kept.is_none() {
            return Effect::Forget(None);
        }
        let mut attempt = Attempt::new(waiter, around);
        let effect = attempt.on_event(Event::Left, around);
        if !matches!(effect, Effect::Forget(_)) {
            self.aside.push(attempt);
        }
        effect
    }

    /// Whether nobody is in front, or nobody who looks.
    fn front_gives_way(&self, now: Moment) -> bool {
        let front = self.front.as_ref().filter(|front| front.is_active());
        front.is_none_or(|front| front.is_absent(now))
    }

    /// The waiter at `place` goes to the front. Who is there, but does not look, waits for its next
    /// turn.
    fn step_forward(&mut self, place: usize, around: Surroundings<'_>) -> Outcome<T> {
        let Some(waiter) = self.behind.remove(place) else {
            return Outcome::of(Effect::Nothing);
        };
        let mut next = None;
        let mut front = match self.front.take() {
            Some(front) if front.is_active() => {
                let (front, absent) = front.yield_to(waiter, around);
                // It may wait for an answer that concerns it no more.
                next = Some(absent.task.clone());
                let place = self.behind.partition_point(|other| other.id < absent.id);
                self.behind.insert(place, absent);
                front
            }
            last => {
                let mut next = Attempt::after_others(waiter, around);
                if let Some(last) = last {
                    next.follow(&last, around);
                    self.aside.push(last);
                }
                next
            }
        };
        let effect = front.on_event(Event::Woken, around);
        self.front = Some(front);
        Outcome { effect, next }
    }

    /// Why the waiter at `place` does not have the lock yet.
    fn known_in_front(&self, place: usize, now: Moment) -> Refusal {
        let Some(front) = self.front.as_ref().filter(|front| front.is_active()) else {
            return Refusal::Busy(Holder::here());
        };
        match front.remaining(now) {
            Some(ttl) => Refusal::Busy(Holder {
                ttl: Some(ttl),
                position: u64::try_from(place).ok(),
                ..Holder::here()
            }),
            None => match front.claim.refusal.clone() {
                // Its place in the store's queue is not this one's.
                Refusal::Busy(holder) => Refusal::Busy(Holder {
                    position: None,
                    ..holder
                }),
                other => other,
            },
        }
    }

    /// The one in front gives up what it has, if it can to the next one.
    pub(super) fn leave_front(&mut self, around: Surroundings<'_>) -> Outcome<T> {
        let Some(front) = &mut self.front else {
            return Outcome::of(Effect::Nothing);
        };
        let now = around.now;
        let next = self.behind.iter().position(|next| next.is_waiting(now));
        let heir = next.filter(|&place| front.can_pass_to(&self.behind[place], around));
        if let Some(waiter) = heir.and_then(|place| self.behind.remove(place)) {
            let next = Some(waiter.task.clone());
            let front = self.front.take();
            self.front = front.map(|front| front.pass_to(waiter, now));
            let effect = Effect::Forget(None);
            return Outcome { effect, next };
        }
        let effect = front.on_event(Event::Left, around);
        let is_gone = matches!(effect, Effect::Forget(_));
        let gone = self.front.take_if(|_| is_gone);
        let next = self.promote(gone.as_ref(), around);
        Outcome { effect, next }
    }

    /// Lets somebody else to the front if who is there has just lost the lease or has gone.
    pub(super) fn after_front(&mut self, effect: Effect, around: Surroundings<'_>) -> Outcome<T> {
        if matches!(effect, Effect::Forget(_)) {
            self.front = None;
        }
        let is_over = matches!(effect, Effect::Forget(_) | Effect::Lose);
        let next = if is_over {
            self.promote(None, around)
        } else {
            None
        };
        Outcome { effect, next }
    }

    /// Lets the next one to the front, with a claim of its own; `gone` was there, and has left nothing
    /// to be given back.
    fn promote(&mut self, gone: Option<&Attempt<T>>, around: Surroundings<'_>) -> Option<T> {
        let now = around.now;
        let next = self.behind.iter().position(|next| next.is_waiting(now))?;
        let waiter = self.behind.remove(next)?;
        let task = waiter.task.clone();
        let mut attempt = Attempt::after_others(waiter, around);
        if let Some(gone) = gone {
            attempt.follow(gone, around);
        }
        self.come_next(attempt, around);
        Some(task)
    }

    /// Whoever is in front is over, and steps aside.
    pub(super) fn come_next(&mut self, mut next: Attempt<T>, around: Surroundings<'_>) {
        if let Some(last) = self.front.take() {
            next.follow(&last, around);
            self.aside.push(last);
        }
        self.front = Some(next);
    }

    /// The release of `owner` has been answered; whom to ring because of that.
    pub(super) fn others_are_told(
        &mut self,
        owner: OwnerId,
        around: Surroundings<'_>,
    ) -> Option<T> {
        let front = self.front.as_mut()?;
        let task = front.waiter.task.clone();
        front.others_are_told(owner, around).then_some(task)
    }
}
