//! Attempts that ask beside the one in front: for permits, and for shared leases that it would not share.
//!
//! The attempt in front has the place of the process in the store's queue. One beside it asks without a place. If the key is
//! busy, it waits behind the others again and has left nothing in the store.
//!
//! The answers decide how many ask at once, like the slow start of TCP: each grant lets two more waiters ask, so that the
//! number doubles with each round trip. After a busy answer or a failure, only the attempt in front asks until it has its lease.

use super::{
    event::{Context, Event},
    key_state::{ASK_BESIDE_AT_FIRST, KeyState},
    waiter::LocalWaiter,
};
use crate::{answer::AcquireOutcome, clock::Moment, mode::LockMode};

impl<T: Clone> KeyState<T> {
    /// Records what an answer of the store shows about further requests.
    pub(super) fn learn(&mut self, event: &Event) {
        let Event::Answered { answer, .. } = event else {
            return;
        };
        self.beside = match answer {
            Ok(AcquireOutcome::Granted { .. }) => {
                let most = ASK_BESIDE_AT_FIRST.max(self.behind.len());
                most.min(self.beside + 2)
            }
            Ok(AcquireOutcome::Busy(_)) | Err(_) => 0,
        };
    }

    /// Returns `true` if `waiter` may ask beside the attempt in front, and counts it.
    pub(super) fn may_ask_beside(&mut self, place: usize, context: Context<'_>) -> bool {
        let waiter = &self.behind[place];
        let may_ask = self.beside > 0
            && waiter.kept.is_none()
            && !self.front_gives_way(context.now)
            && !self.may_share_soon(waiter, context);
        if may_ask {
            self.beside -= 1;
        }
        may_ask
    }

    /// Returns `true` if `waiter` may share the lease of an attempt that has none yet.
    fn may_share_soon(&self, waiter: &LocalWaiter<T>, context: Context<'_>) -> bool {
        let mut attempts = self.front.iter().chain(self.pool.iter());
        waiter.timing.mode == LockMode::Shared
            && attempts
                .any(|it| it.is_active() && it.lease().is_none() && it.may_admit(waiter, context))
    }

    /// Returns the tasks that may ask beside the attempt in front now, without those that were called before and have not
    /// looked.
    pub(super) fn call_beside(&mut self, now: Moment) -> Vec<T> {
        let called = self.behind.iter().filter(|waiter| waiter.is_called).count();
        let more = self.beside.saturating_sub(called);
        let behind = self.behind.iter_mut();
        let next = behind.filter(|waiter| waiter.is_waiting(now) && !waiter.is_called);
        next.take(more)
            .map(|waiter| {
                waiter.is_called = true;
                waiter.task.clone()
            })
            .collect()
    }
}
