//! Events of an attempt and their effects: the values that pass between the state and its drivers.

use std::time::Duration;

use crate::{
    answer::{AcquireOutcome, Holder, Released, Renewal},
    clock::Moment,
    error::{LostCause, StoreError},
    fence::FencingToken,
    owner::{OwnerId, Owners},
    random::Random,
};

/// The time within which a healthy store answers, wherever it is.
const ANSWERED_WITHIN: Duration = Duration::from_millis(250);

/// A lease that is not lost at the time of the last check.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeldLease {
    pub(crate) token: FencingToken,
    pub(crate) since: Moment,
    pub(crate) deadline: Moment,
}

/// The cause and the time of a loss.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Loss {
    pub(crate) cause: LostCause,
    pub(crate) held_for: Duration,
}

/// An event of an attempt.
#[derive(Debug)]
pub(crate) enum Event {
    /// The acquire request that was sent at `sent` has ended, with an answer or a failure.
    Answered {
        sent: Moment,
        answer: Result<AcquireOutcome, StoreError>,
    },
    /// The waiting task was woken, or its time has come.
    Woken,
    /// A wake-up message says that the store has granted the lease to the claim.
    Granted { fence: u64, number: u64 },
    /// A message says that the lease may be gone.
    Doubted,
    /// Wake-up messages of the store may have been lost.
    LookAgain,
    /// The manager accepts no new locks: waiters are refused, holders continue.
    Closed,
    /// The manager does not wait for holders any longer.
    CutShort,
    /// The renewer checks the lease.
    Tick,
    /// The renewal that was sent at `sent` has ended, with an answer or a failure.
    Renewed {
        sent: Moment,
        answer: Result<Renewal, StoreError>,
    },
    /// The body ended, or the task that waited or held was dropped.
    Left,
    /// The release has ended: the store's answer, or `None` for a failure.
    Released(Option<Released>),
    /// No runtime is left to send the release, or the store refuses it permanently: its TTL frees the key.
    Abandoned,
}

/// The next action of the attempt's driver.
#[derive(Debug, PartialEq)]
pub(crate) enum Effect {
    /// Send an acquire request for `owner`, and wait for the answer no longer than `limit`.
    Ask {
        owner: OwnerId,
        limit: Duration,
        queue: bool,
    },
    /// Wait until woken or until this time, whichever is first.
    WaitUntil(Moment),
    /// Wait in the same way, behind other attempts of this process.
    Queue(Moment),
    /// The attempt holds the lease.
    Enter {
        /// The entry for the renewer, if it does not have it yet.
        renew_at: Option<RenewAt>,
    },
    /// Return a refusal to the caller.
    Refuse(Denial),
    /// Renew the lease of `owner` within `limit`, and check again at `then` in any case.
    Renew {
        owner: OwnerId,
        limit: Duration,
        then: Moment,
    },
    /// Release the lease of `owner`, which its task has not taken.
    GiveBack { owner: OwnerId },
    /// Wake the task: its phase has changed without it.
    Wake,
    /// The lease has just been lost: wake the task and report the loss.
    Lose,
    /// Send the release for `owner`.
    Release { owner: OwnerId },
    /// The attempt is over here. The store keeps nothing of it, except what the next attempt has taken over.
    /// The value is the store's last answer, if any.
    Forget(Option<Released>),
    /// No action.
    Nothing,
}

/// The lease of `owner` has to be checked at `at`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RenewAt {
    pub(crate) owner: OwnerId,
    pub(crate) at: Moment,
}

/// The consequences of an event.
#[derive(Debug)]
pub(crate) struct Outcome<T> {
    pub(crate) effect: Effect,
    /// Another task to wake: it is in front now, or was until now.
    pub(crate) next: Option<T>,
    /// Tasks to wake: they may share a lease now, ask for one, or wait for the renewal that has confirmed theirs.
    pub(crate) invited: Vec<T>,
    /// Tasks that shared the lease, which is lost for them as well.
    pub(crate) also_lost: Vec<T>,
}

/// The reason why an attempt ended without a lease.
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

/// Facts from outside that the state needs.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) now: Moment,
    /// The maximum time to wait for one answer.
    pub(crate) response_limit: Duration,
    /// `true` if a lease may pass from one task of this process to the next.
    pub(crate) handover: bool,
    /// `true` if the store makes the first waiter the holder at a release.
    pub(crate) grants: bool,
    pub(crate) random: &'a dyn Random,
    pub(crate) owners: &'a Owners,
}

impl Context<'_> {
    /// Returns `true` if a healthy store would have answered a request that was sent at `sent`.
    ///
    /// A wait that ends before that shows nothing about the store: the lock counts as busy.
    pub(super) fn is_answer_due(&self, sent: Moment) -> bool {
        sent.elapsed(self.now) >= ANSWERED_WITHIN.min(self.response_limit / 4)
    }
}

impl<T> Outcome<T> {
    pub(super) fn of(effect: Effect) -> Self {
        Self::and_next(effect, None)
    }

    pub(super) fn and_next(effect: Effect, next: Option<T>) -> Self {
        Self {
            effect,
            next,
            invited: Vec::new(),
            also_lost: Vec::new(),
        }
    }
}
