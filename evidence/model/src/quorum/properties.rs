//! Properties that always hold, and states that are sometimes reached.

use stateright::Property;

use super::{
    Ends, Quorum,
    state::{Client, Phase, State, Vote},
};

pub(super) const UNIQUE: &str = "no two grants have one fence";
pub(super) const LATER: &str = "who begins after a grant gets a greater fence";
pub(super) const MUTEX: &str = "no two believe in the lock, if nodes keep it in time";
pub(super) const ORDER: &str =
    "grants come in the order of their fences, if nodes keep locks in time";
pub(super) const NOTHING_LEFT: &str =
    "when all messages have come, nobody holds what was given back";

pub(super) const PASSED_ON: &str = "one gets the lock after another";
pub(super) const GONE: &str = "a lock is gone when its fence is to be raised";

pub(super) fn all() -> Vec<Property<Quorum>> {
    vec![
        Property::always(UNIQUE, |_, state: &State| !state.faults.same_fence),
        Property::always(LATER, |_, state: &State| !state.faults.later_is_smaller),
        Property::always(MUTEX, |quorum: &Quorum, state: &State| {
            let holds = |it: &&Client| matches!(it.phase, Phase::Holding { .. });
            quorum.bounds.ends == Ends::Anytime || state.clients.iter().filter(holds).count() < 2
        }),
        Property::always(ORDER, |quorum: &Quorum, state: &State| {
            quorum.bounds.ends == Ends::Anytime || !state.faults.out_of_order
        }),
        Property::always(NOTHING_LEFT, |quorum: &Quorum, state: &State| {
            let mut held = state.nodes.iter().filter_map(|node| node.held);
            let is_of_interest = quorum.bounds.ends == Ends::Never && state.messages.is_empty();
            !is_of_interest || held.all(|it| quorum.client_of(state, it.id).is_some())
        }),
        Property::sometimes(PASSED_ON, |_, state: &State| state.granted.count_ones() > 1),
        Property::sometimes(GONE, |_, state: &State| {
            let is_gone = |it: &Client| matches!(it.phase, Phase::Asking { votes, .. } if votes.contains(&Vote::Gone));
            state.clients.iter().any(is_gone)
        }),
    ]
}
