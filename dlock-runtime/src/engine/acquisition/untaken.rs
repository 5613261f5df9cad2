//! A lease that a task was given and may not take, because its future is not polled.

use std::sync::{Arc, atomic::Ordering};

use super::Acquisition;
use crate::{
    clock::Moment, engine::renewer::note_while_held, options::Timing, owner::OwnerId,
    state::RenewAt,
};

impl Acquisition {
    /// Returns when the renewer has to look whether the task has taken its lease, if it has not yet.
    pub(crate) fn untaken(&self) -> Option<RenewAt> {
        self.entry.state().untaken(self.id)
    }

    /// Lets the renewer, which knows the lease already, look whether the task takes the lease that was handed to it.
    pub(super) fn is_given_lease(self: &Arc<Self>, now: Moment) {
        if let Some(renew_at) = self.untaken() {
            note_while_held(self, renew_at, now);
        }
    }

    /// Takes the lease of `owner` from this attempt, whose task has not taken it in time. Returns the attempt that releases it.
    pub(crate) fn give_back(&self, owner: OwnerId) -> Option<Arc<Self>> {
        let core = &self.core;
        let timing = Timing {
            min_hold: None,
            ..self.timing
        };
        let (function, runtime) = (self.function.clone(), self.runtime.clone());
        let (entry, trail, now) = (&self.entry, &self.trail, self.now());
        let (releaser, waiter) = Self::new(core, entry, timing, trail, function, runtime, now);
        releaser.waits.store(false, Ordering::Relaxed);
        let mut state = self.entry.state();
        let outcome = state.give_back(owner, waiter, core.context(now))?;
        drop(state);
        releaser.settle(outcome, false, now);
        Some(releaser)
    }
}
