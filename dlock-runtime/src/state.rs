//! The state of one key in this process: a plain value that only events change.
//!
//! Every task that wants the key makes an *attempt*. One attempt at a time is in front. It holds the *claim*
//! of this process, which is all that the store sees of an exclusive lock. The other attempts wait behind it in the order of
//! their arrival. The attempt in front goes through these phases:
//!
//! ```text
//! Asking ⇄ Waiting         sends a request; if busy, waits for a message or a time and repeats it
//!    └───────┴─► Holding ──► Lost
//!                   └──────────┴──────► Leaving ──► (forgotten)
//! ```
//!
//! When the front attempt leaves, the next attempt takes over its claim: a lease that is still fresh, or a
//! place in the store's queue. A claim whose lease is lost or being released is moved aside, and the next
//! attempt makes its own claim.
//!
//! Shared locks and permits have several leases at a time, see `pool`, and several requests, see `beside`. A key has one
//! state for each kind of mode.
//!
//! [`KeyState::on_event`] takes an event of one attempt and returns the one action that its driver has to
//! take next. This module has no I/O and no clock. The drivers (the waiting task, the renewer, the releaser)
//! make no decisions.
//!
//! If the next attempt makes its own claim, it sends its request while the release is in flight. Over one
//! connection, the release arrives first.
//!
//! The end of the last attempt of the process ends a turn as well: the pause after a turn is not a guarantee
//! of fairness.

mod attempt;
mod beside;
mod claim;
mod event;
mod key_state;
mod leases;
mod pool;
#[cfg(test)]
mod tests;
mod turns;
mod untaken;
mod waiter;

pub(crate) use self::{
    claim::Validity,
    event::{Context, Denial, Effect, Event, HeldLease, Loss, Outcome, RenewAt},
    key_state::KeyState,
    waiter::LocalWaiter,
};
