//! Properties that always hold, and states that are sometimes reached.

use stateright::Property;

use super::{
    Modes,
    state::{Mode, Phase, State},
};

pub(super) const ALONE: &str = "an exclusive holder is alone";
pub(super) const LIMIT: &str = "at most n hold a permit";
pub(super) const ALLOWED: &str = "the store has no more living holders than are allowed";
pub(super) const TURNS: &str = "no request is granted before that of an earlier waiter";
pub(super) const ALL_IN: &str = "no waiter that fits is left behind by a release";
pub(super) const NOT_FENCED: &str = "a write under a lease is not refused";
pub(super) const FENCED: &str =
    "a write after a lease is refused once others have written that it excludes";
pub(super) const DATED: &str = "a grant is dated by a question before it";
pub(super) const GROWS: &str = "no grant has a smaller token than one before it";
pub(super) const EXCEEDS: &str =
    "a grant that joins no holder has a greater token than all before it";

pub(super) const TOGETHER: &str = "two hold together by messages";
pub(super) const ALONE_AFTER: &str = "an exclusive holder follows shared ones";

/// The exclusive ones among these, and all.
fn counts(modes: impl Iterator<Item = Mode>) -> (usize, usize, Option<u8>) {
    modes.fold((0, 0, None), |(exclusive, all, most), mode| match mode {
        Mode::Exclusive => (exclusive + 1, all + 1, most),
        Mode::Shared => (exclusive, all + 1, most),
        Mode::Permits(n) => (exclusive, all + 1, Some(n)),
    })
}

fn believing<'a>(modes: &'a Modes, state: &'a State) -> impl Iterator<Item = Mode> + 'a {
    let pairs = modes.bounds.modes.iter().zip(&state.clients);
    pairs
        .filter(|(_, client)| matches!(client.phase, Phase::Holding { .. }))
        .map(|(mode, _)| *mode)
}

fn living<'a>(modes: &'a Modes, state: &'a State) -> impl Iterator<Item = Mode> + 'a {
    let leases = state.server.leases.iter().filter(|it| !it.has_ended);
    leases.map(|it| modes.mode(it.owner))
}

pub(super) fn all() -> Vec<Property<Modes>> {
    vec![
        Property::always(ALONE, |modes: &Modes, state: &State| {
            let (exclusive, all, _) = counts(believing(modes, state));
            exclusive == 0 || all == 1
        }),
        Property::always(LIMIT, |modes: &Modes, state: &State| {
            let (_, all, most) = counts(believing(modes, state));
            most.is_none_or(|most| all <= usize::from(most))
        }),
        Property::always(ALLOWED, |modes: &Modes, state: &State| {
            let (exclusive, all, most) = counts(living(modes, state));
            (exclusive == 0 || all == 1) && most.is_none_or(|most| all <= usize::from(most))
        }),
        Property::always(TURNS, |_, state: &State| !state.faults.passed_over),
        Property::always(ALL_IN, |_, state: &State| !state.faults.left_waiting),
        Property::always(NOT_FENCED, |_, state: &State| {
            !state.faults.valid_write_refused
        }),
        Property::always(FENCED, |_, state: &State| !state.faults.late_write_taken),
        Property::always(GROWS, |_, state: &State| !state.faults.smaller_token),
        Property::always(EXCEEDS, |_, state: &State| !state.faults.old_token),
        Property::always(DATED, |_, state: &State| {
            !state.faults.dated_after_its_grant
        }),
        Property::sometimes(TOGETHER, |modes: &Modes, state: &State| {
            let (exclusive, all, _) = counts(believing(modes, state));
            exclusive == 0 && all > 1 && state.server.grants == 3 && state.server.era == 2
        }),
        Property::sometimes(ALONE_AFTER, |modes: &Modes, state: &State| {
            let (exclusive, _, _) = counts(believing(modes, state));
            exclusive == 1 && state.server.era > 1 && state.server.grants > 2
        }),
    ]
}
