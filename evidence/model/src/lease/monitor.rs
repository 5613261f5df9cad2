//! The view from outside, by other means than those of the server and the processes.

use super::state::{ALIVE, Phase, Place, Reply, Request, State, What};

/// The order of the waiters, and whether another process has got the lock. The answers to waiters count, not
/// the contents of the queue.
pub(super) fn carried_out(state: &mut State, request: Request, reply: Option<Reply>, grants: u8) {
    let arrivals = &mut state.arrivals;
    let granted = state.server.lock.filter(|_| state.server.grants != grants);
    if let Some(lock) = granted {
        let first = arrivals.get(0).map(|first| first.owner);
        state.faults.waiter_passed_over |= first.is_some_and(|first| first != lock.grant.owner);
        arrivals.retain(|place| place.owner != lock.grant.owner);
        state.orphaned = 0;
    }
    match (request.what, reply) {
        (What::Release, _) => arrivals.retain(|place| place.owner != request.owner),
        (_, Some(Reply::Busy { .. })) => {
            let owner = request.owner;
            if let Some(place) = arrivals.iter_mut().find(|place| place.owner == owner) {
                place.alive = ALIVE;
            } else {
                arrivals.push(Place {
                    owner,
                    alive: ALIVE,
                });
            }
        }
        _ => {}
    }
}

/// Waiters that no longer ask are not waited for.
pub(super) fn time_passed(state: &mut State) {
    state.arrivals.iter_mut().for_each(|place| place.alive -= 1);
    state.arrivals.retain(|place| place.alive > 0);
}

/// Whether a process believes again in a lease that it had lost.
pub(super) fn stepped(before: &State, after: &mut State) {
    let clients = before.clients.iter().zip(&after.clients);
    after.faults.lost_came_back |= clients
        .filter_map(|(old, new)| match (old.phase, new.phase) {
            (Phase::Holding(old), Phase::Holding(new)) => Some((old, new)),
            _ => None,
        })
        .any(|(old, new)| old.grant == new.grant && old.left == 0 && new.left > 0);
}
