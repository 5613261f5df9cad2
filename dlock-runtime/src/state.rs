//! What this process knows of one key: a plain value, changed by events only.
//!
//! Every task that wants the key makes an *attempt*, which goes through these phases:
//!
//! ```text
//! Asking ⇄ Waiting         asks the store; if busy, waits for a hint or a time and asks again
//!    └──────► Holding ──► Lost
//!                └──────────┴──────► Leaving ──► (forgotten)
//! ```
//!
//! [`KeyState::on_event`] takes an event of one attempt and answers with the one thing its driver
//! has to do next. No I/O, no clock and no randomness is in here; the drivers (the waiting task,
//! the keeper of leases, the releaser) have no decisions to take.

mod attempt;
#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use tokio::sync::Notify;

use self::attempt::Attempt;
use crate::{
    clock::Moment,
    error::LostCause,
    fence::FencingToken,
    options::Timing,
    owner::OwnerId,
    store::{Acquisition, Holder, Released, Renewal, StoreError},
};

/// Everything this process knows of one key.
#[derive(Debug, Default)]
pub(crate) struct KeyState {
    attempts: Vec<Attempt>,
}

/// A lease that is not lost as far as anybody has looked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    pub(crate) token: FencingToken,
    pub(crate) since: Moment,
    pub(crate) deadline: Moment,
}

/// How and when a lease was lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Loss {
    pub(crate) cause: LostCause,
    pub(crate) held_for: Duration,
}

/// What happened to an attempt.
#[derive(Debug)]
pub(crate) enum Event {
    /// The store answered, or failed to, the question sent at `sent`.
    Answered {
        sent: Moment,
        answer: Result<Acquisition, StoreError>,
    },
    /// The waiting task was woken, or its time has come.
    Woken,
    /// The store says that something happened to the key.
    Hinted,
    /// The manager takes no new locks: who waits is refused, holders go on.
    Closed,
    /// The manager waits no longer for holders.
    Revoked,
    /// The keeper looks after the lease.
    Tick,
    /// The store answered, or failed to, the renewal sent at `sent`.
    Renewed {
        sent: Moment,
        answer: Result<Renewal, StoreError>,
    },
    /// The body ended, or whoever waited or held was dropped.
    Left,
    /// The store answered the release; `None` if it failed to.
    Released(Option<Released>),
    /// Nobody is left who could send the release: the store's TTL has to do.
    Abandoned,
}

/// What the driver of the attempt has to do next.
#[derive(Debug, PartialEq)]
pub(crate) enum Effect {
    /// Ask the store, and wait for the answer no longer than `limit`.
    Ask { limit: Duration, queue: bool },
    /// Wait for the bell or until then, whichever is first.
    WaitUntil(Moment),
    /// The lease is ours.
    Enter,
    /// Tell the caller that it will not get the lock.
    Refuse(Denial),
    /// Renew the lease within `limit`, and look again at `then` in any case.
    Renew { limit: Duration, then: Moment },
    /// Ring the bell: the phase has changed under the task.
    Ring,
    /// The lease has just been lost: ring the bell and report it.
    Lose,
    /// Send the release.
    Release,
    /// Nothing of the attempt is left, here or in the store; the store's last word, if any.
    Forget(Option<Released>),
    /// Nothing.
    Nothing,
}

/// Why an attempt ended without a lease.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Denial {
    Busy {
        waited: Duration,
        holder: Holder,
    },
    Unavailable {
        waited: Duration,
        reason: StoreError,
    },
    Closed,
}

/// Limits of the store's client and a random number, which the state does not make itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Surroundings {
    pub(crate) now: Moment,
    /// The longest time to wait for one answer.
    pub(crate) response_limit: Duration,
    /// Uniformly random.
    pub(crate) random: u64,
}

impl KeyState {
    /// A task wants the key. Its driver starts with [`Event::Woken`].
    pub(crate) fn enter(
        &mut self,
        owner: OwnerId,
        timing: Timing,
        drift: Duration,
        now: Moment,
        bell: Arc<Notify>,
    ) {
        self.attempts
            .push(Attempt::new(owner, timing, drift, now, bell));
    }

    /// Whether nobody in this process holds or wants the key.
    pub(crate) fn is_idle(&self) -> bool {
        self.attempts.is_empty()
    }

    /// All attempts, in order of arrival.
    pub(crate) fn owners(&self) -> Vec<OwnerId> {
        self.attempts.iter().map(|attempt| attempt.owner).collect()
    }

    /// The bell of `owner`.
    pub(crate) fn bell(&self, owner: OwnerId) -> Option<Arc<Notify>> {
        self.find(owner).map(|attempt| attempt.bell.clone())
    }

    /// The lease of `owner`, unless it was lost.
    pub(crate) fn lease(&self, owner: OwnerId) -> Option<Held> {
        self.find(owner)?.lease()
    }

    /// How `owner` lost its lease, if it did.
    pub(crate) fn loss(&self, owner: OwnerId) -> Option<Loss> {
        self.find(owner)?.loss()
    }

    /// Looks whether `owner`'s lease is past its deadline at `now`, before somebody relies on it.
    pub(crate) fn check(&mut self, owner: OwnerId, now: Moment) -> Effect {
        let attempt = self
            .attempts
            .iter_mut()
            .find(|attempt| attempt.owner == owner);
        attempt.map_or(Effect::Nothing, |attempt| attempt.check(now))
    }

    /// For how long from `now` the store has to keep the lease that `owner` gives back.
    pub(crate) fn kept_for(&self, owner: OwnerId, now: Moment) -> Option<Duration> {
        self.find(owner)?.kept_for(now)
    }

    /// Whether `owner` will get no lease because the manager has closed.
    pub(crate) fn is_refused(&self, owner: OwnerId) -> bool {
        self.find(owner).is_some_and(Attempt::is_refused)
    }

    fn find(&self, owner: OwnerId) -> Option<&Attempt> {
        self.attempts.iter().find(|attempt| attempt.owner == owner)
    }

    /// Takes what happened to `owner`'s attempt and says what to do next.
    pub(crate) fn on_event(
        &mut self,
        owner: OwnerId,
        event: Event,
        around: Surroundings,
    ) -> Effect {
        let Some(index) = self
            .attempts
            .iter()
            .position(|attempt| attempt.owner == owner)
        else {
            // A late answer or hint for an attempt that is over.
            return Effect::Nothing;
        };
        let effect = self.attempts[index].on_event(event, around);
        if matches!(effect, Effect::Forget(_)) {
            self.attempts.remove(index);
        }
        effect
    }
}
