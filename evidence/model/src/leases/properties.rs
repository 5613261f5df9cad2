//! Properties that always hold, and states that are sometimes reached.

use stateright::Property;

use super::{
    Leases,
    state::{Claim, Phase, State},
};

pub(super) const ALONE: &str = "at most one claim believes that it holds";
pub(super) const KEPT: &str = "the key of a claim that believes is there";
pub(super) const LEFT: &str =
    "the key of a claim that is over is not kept alive by the lease of another claim";
pub(super) const ENDS: &str = "the key of a claim that is over has a lease that is alive";

pub(super) const AGAIN: &str = "a claim holds with the lease of an earlier one";
pub(super) const LATE: &str = "the request of a claim that is over is still under way";

fn is_over(state: &State, claim: Claim) -> bool {
    state.tasks[usize::from(claim.task)].round != claim.round
}

fn holds(state: &State, task: usize) -> bool {
    state.tasks[task].phase == Phase::Holding
}

/// A claim uses the lease, or the next one will.
fn is_used(state: &State, lease: u8) -> bool {
    let is_idle = state
        .idle
        .iter()
        .any(|idle| idle.iter().any(|it| it == lease));
    let mut tasks = state.tasks.iter();
    is_idle || tasks.any(|task| task.phase != Phase::Idle && task.lease == lease)
}

pub(super) fn all() -> Vec<Property<Leases>> {
    vec![
        Property::always(ALONE, |_, state: &State| {
            (0..state.tasks.len())
                .filter(|it| holds(state, *it))
                .count()
                < 2
        }),
        Property::always(KEPT, |_, state: &State| {
            let mut holders = (0..state.tasks.len()).filter(|it| holds(state, *it));
            holders.all(|task| {
                let claim = state.claim(task);
                state.keys.iter().any(|key| key.claim == claim)
            })
        }),
        Property::always(LEFT, |_, state: &State| {
            let mut keys = state.keys.iter();
            keys.all(|key| !is_over(state, key.claim) || !is_used(state, key.lease))
        }),
        Property::always(ENDS, |_, state: &State| {
            let is_alive = |lease: u8| state.leases.get(usize::from(lease)) == Some(true);
            let mut keys = state.keys.iter();
            keys.all(|key| !is_over(state, key.claim) || is_alive(key.lease))
        }),
        Property::sometimes(AGAIN, |_, state: &State| {
            (0..state.tasks.len()).any(|task| {
                let it = &state.tasks[task];
                holds(state, task) && it.round > 0 && it.lease == 0
            })
        }),
        Property::sometimes(LATE, |_, state: &State| {
            let mut requests = state.requests.iter();
            requests.any(|it| is_over(state, it.claim))
        }),
    ]
}
