//! Events of an attempt and their effects: the values between the state and its drivers.

use std::time::Duration;

use crate::{
    answer::{AcquireOutcome, Holder, Released, Renewal},
    clock::Moment,
    error::{LostCause, StoreError},
    fence::FencingToken,
    owner::{OwnerId, Owners},
    random::Random,
};

/// A lease that is not lost as far as anybody has looked.
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
    /// The store answered, or failed to, the question sent at `sent`.
    Answered {
        sent: Moment,
        answer: Result<AcquireOutcome, StoreError>,
    },
    /// The waiting task was woken, or its time has come.
    Woken,
    /// The store says that it has handed the lease to the claim.
    Granted { fence: u64 },
    /// The lease may be gone, for all that is known here.
    Doubted,
    /// Hints of the store may have been lost.
    LookAgain,
    /// The manager takes no new locks: waiters are refused, holders go on.
    Closed,
    /// The manager waits no longer for holders.
    CutShort,
    /// The renewer looks after the lease.
    Tick,
    /// The store answered, or failed to, the renewal sent at `sent`.
    Renewed {
        sent: Moment,
        answer: Result<Renewal, StoreError>,
    },
    /// The body ended, or the task that waited or held was dropped.
    Left,
    /// The store answered the release; `None` if it failed to.
    Released(Option<Released>),
    /// No runtime is left that could send the release, or the store refuses it for good: its TTL has to do.
    Abandoned,
}

/// The next work of the attempt's driver.
#[derive(Debug, PartialEq)]
pub(crate) enum Effect {
    /// Ask the store for `owner`, and wait for the answer no longer than `limit`.
    Ask {
        owner: OwnerId,
        limit: Duration,
        queue: bool,
    },
    /// Wait until woken or until then, whichever is first.
    WaitUntil(Moment),
    /// The same behind others of this process.
    Queue(Moment),
    /// The lease is ours.
    Enter {
        /// The note for the renewer, if it does not have it yet.
        renew_at: Option<RenewAt>,
    },
    /// Tell the caller that it will not get the lock.
    Refuse(Denial),
    /// Renew the lease of `owner` within `limit`, and look again at `then` in any case.
    Renew {
        owner: OwnerId,
        limit: Duration,
        then: Moment,
    },
    /// Wake the task: its phase has changed without it.
    Wake,
    /// The lease has just been lost: wake the task and report it.
    Lose,
    /// Send the release for `owner`.
    Release { owner: OwnerId },
    /// Nothing of the attempt is left here, and in the store only what the next one has taken over;
    /// the store's last word, if any.
    Forget(Option<Released>),
    /// Nothing.
    Nothing,
}

/// The lease of `owner` is to be looked after at `at`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RenewAt {
    pub(crate) owner: OwnerId,
    pub(crate) at: Moment,
}

/// The consequences of an event.
#[derive(Debug)]
pub(crate) struct Outcome<T> {
    pub(crate) effect: Effect,
    /// The task to be woken besides: it is in front now, or was until now.
    pub(crate) next: Option<T>,
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

/// The facts that the state does not know by itself.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) now: Moment,
    /// The longest time to wait for one answer.
    pub(crate) response_limit: Duration,
    /// `true` if a lease may go from one task of this process to the next.
    pub(crate) handover: bool,
    /// `true` if the store makes the first waiter the holder at a release.
    pub(crate) grants: bool,
    pub(crate) random: &'a dyn Random,
    pub(crate) owners: &'a Owners,
}

impl<T> Outcome<T> {
    pub(super) fn of(effect: Effect) -> Self {
        Self { effect, next: None }
    }
}
