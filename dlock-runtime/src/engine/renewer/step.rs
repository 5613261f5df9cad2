//! One step in the life of a lease: an event goes to its state, and the renewer does what the state decides.
//!
//! A renewal, from top to bottom:
//!
//! 1. The [task](super) takes a lease that is due from the [schedule](super::schedule), with the event `Tick`.
//! 2. [`renewal_on_event`] passes the event to the state of the key. `KeyState::on_claim` finds the attempt that has the lease,
//!    and its `on_tick` decides, in `state/attempt/holding.rs`: wait, renew, or give the lease up.
//! 3. [`renewal_on_effect`] does that. Before a renewal it notes the deadline of the lease as the time of the next step, so a
//!    renewal without an answer needs no other timer.
//! 4. The [`queue`](super::queue) groups what is due, and [`renewals`] sends each group to the store, on a task of its own.
//! 5. The answer is the event `Renewed`, and takes the same way from 2 on: `on_renewed` counts the lease from the time at
//!    which the request was sent, and says when the next step is due.

use std::sync::Arc;

use super::{queue::Due, renewals, start};
use crate::{
    clock::Moment,
    engine::{acquisition::Acquisition, release},
    owner::OwnerId,
    state::{Effect, Event, RenewAt},
};

/// Passes an event about the lease of `owner` to its state, does what that decides, and sends the renewal that is due.
pub(super) fn on_event(acquisition: &Acquisition, owner: OwnerId, event: Event) {
    let due = renewal_on_event(acquisition, owner, event);
    renewals::renew(&acquisition.core, due.into_iter().collect());
}

/// Does the same after an event that `bearer` has received from elsewhere.
pub(crate) fn on_effect(bearer: Arc<Acquisition>, owner: OwnerId, effect: &Effect) {
    let core = bearer.core.clone();
    let due = renewal_on_effect(bearer, owner, effect);
    renewals::renew(&core, due.into_iter().collect());
}

/// Passes an event to the state, does what that decides, and returns the renewal that is due.
pub(super) fn renewal_on_event(
    acquisition: &Acquisition,
    owner: OwnerId,
    event: Event,
) -> Option<Due<Acquisition>> {
    let (bearer, effect) = acquisition.event_of_claim(owner, event)?;
    renewal_on_effect(bearer, owner, &effect)
}

/// Does what the state has decided, and returns the renewal that is due.
fn renewal_on_effect(
    bearer: Arc<Acquisition>,
    owner: OwnerId,
    effect: &Effect,
) -> Option<Due<Acquisition>> {
    let (at, limit) = match *effect {
        Effect::WaitUntil(at) => (at, None),
        Effect::Renew { limit, then, .. } => (then, Some(limit)),
        Effect::GiveBack { owner } => {
            release::give_back(&bearer, owner);
            return None;
        }
        // By a message: its task may not be polled.
        Effect::Wake => (bearer.untaken()?.at, None),
        _ => return None,
    };
    let now = bearer.now();
    if !note_while_held(&bearer, RenewAt { owner, at }, now) {
        start(&bearer);
    }
    let limit = limit?;
    for user in bearer.users(owner) {
        user.look_at_body(now);
    }
    Some(Due {
        acquisition: bearer,
        owner,
        limit,
        deadline: now.monotonic + at.remaining(now),
    })
}

/// Schedules the next step of a lease that `acquisition` has held, for as long as its claim holds it. Returns `false` if no task
/// of the renewer runs.
pub(crate) fn note_while_held(
    acquisition: &Arc<Acquisition>,
    renew_at: RenewAt,
    now: Moment,
) -> bool {
    let RenewAt { owner, .. } = renew_at;
    let renewer = &acquisition.core.renewer;
    let runs = renewer.note(acquisition, renew_at, now);
    if acquisition.is_held_by(owner) {
        return runs;
    }
    // It was released between the event and this entry.
    renewer.remove(owner);
    // An acquisition that entered in the meantime has lost its own entry by this removal.
    !acquisition.is_held_by(owner) || renewer.note(acquisition, RenewAt { owner, at: now }, now)
}
