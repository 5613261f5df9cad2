//! A lease that a task of this process was given, and does not take: it goes back to the store.
//!
//! A lease reaches a waiting task by a hand-over or by a wake-up message. A task that is busy with another future, such as
//! another arm of `select!`, does not poll its acquire. The lease would then exclude all other processes until it ends,
//! although no body runs. The renewer therefore looks whether the task has taken it, and returns it to the store.

use super::{
    attempt::Attempt,
    event::{Context, Event, Outcome, RenewAt},
    key_state::KeyState,
    waiter::LocalWaiter,
};
use crate::{attempt::AttemptId, owner::OwnerId};

impl<T: Clone> KeyState<T> {
    /// Returns when the renewer has to look whether attempt `id` has taken the lease that it was given.
    pub(crate) fn untaken(&self, id: AttemptId) -> Option<RenewAt> {
        let attempt = self.find(id)?;
        let (owner, at) = (attempt.claim.owner, attempt.give_back_at()?);
        Some(RenewAt { owner, at })
    }

    /// Passes the claim of `owner` to `releaser`, which releases it, if its task has not taken the lease in time. The task is
    /// absent until it is polled, and asks with a claim of its own then.
    pub(crate) fn give_back(
        &mut self,
        owner: OwnerId,
        releaser: LocalWaiter<T>,
        context: Context<'_>,
    ) -> Option<Outcome<T>> {
        let is_untaken = |it: &Attempt<T>| {
            let at = it.give_back_at().filter(|_| it.claim.owner == owner);
            at.is_some_and(|at| at.is_reached(context.now))
        };
        let front = self.front.take_if(|it| is_untaken(it));
        let was_in_front = front.is_some();
        let mut attempt = if let Some(front) = front {
            front
        } else {
            self.pool.get(owner).filter(|it| is_untaken(it))?;
            self.pool.remove(owner)?
        };
        let mut absent = attempt.pass_to(releaser);
        absent.absent = true;
        self.line_up(absent);
        let effect = attempt.on_event(Event::Left, context);
        let next = if was_in_front {
            self.promote(Some(&attempt), context)
        } else {
            self.next_in_line(context)
        };
        self.aside.push(attempt);
        Some(Outcome::and_next(effect, next))
    }
}
