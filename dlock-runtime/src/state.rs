//! This process's knowledge of one key: a plain value, changed by events only.
//!
//! Every task that wants the key makes an *attempt*. One of them at a time is in front and bears the
//! *claim* of this process, which is all that the store sees; the others wait behind it in the order
//! of their arrival. The one in front goes through these phases:
//!
//! ```text
//! Asking ⇄ Waiting         asks the store; if busy, waits for a hint or a time and asks again
//!    └───────┴─► Holding ──► Lost
//!                   └──────────┴──────► Leaving ──► (forgotten)
//! ```
//!
//! When it leaves, the next takes over its claim, be it a lease that is still fresh or a place in the
//! store's queue. What is lost or being given back steps aside for the next one's own claim.
//!
//! [`KeyState::on_event`] takes an event of one attempt and answers with the one thing its driver
//! has to do next. No I/O and no clock is in here; the drivers (the waiting task,
//! the renewer of leases, the releaser) have no decisions to take.
//!
//! A lost or leaving attempt steps aside, and the next in line makes its own claim. That one asks while the release is
//! under way; over one connection, the release arrives first.
//!
//! A turn is forgotten with the last attempt of the process: the pause after a turn is not a promise of fairness.

mod attempt;
mod claim;
mod event;
mod key_state;
#[cfg(test)]
mod tests;
mod turns;
mod waiter;

pub(crate) use self::{
    claim::Validity,
    event::{Context, Denial, Effect, Event, HeldLease, Loss, Outcome, RenewAt},
    key_state::KeyState,
    waiter::LocalWaiter,
};
