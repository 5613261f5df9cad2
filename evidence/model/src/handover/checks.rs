//! Claims about a hand-over: always true, sometimes true, and broken without a rule.

use stateright::Property;

use super::{
    Handover, Rule,
    state::{Front, LONGEST_TURN, LONGEST_UNUSED, Other, Phase, State},
};
use crate::check::Check;

const MUTEX: &str = "no two believe in the lock";
const TOKENS: &str = "each section has a greater token than all before";
const UNUSED: &str = "what nobody uses ends";
const TURNS: &str = "who waits elsewhere sees one turn at most";

const HANDED: &str = "a section begins with a lease that was handed over";
const EXPIRED: &str = "a lease ends before the task looks that was picked";
const OVER: &str = "a lease is lost while its section goes on";
const LENT: &str = "a task comes again after it lent its claim";

pub(super) fn properties() -> Vec<Property<Handover>> {
    vec![
        Property::always(MUTEX, |_, state: &State| {
            let other = matches!(state.other, Other::Holding(left) if left > 0);
            let own = state.sections.iter().flatten().count();
            own + usize::from(other) < 2
        }),
        Property::always(TOKENS, |_, state: &State| !state.token_fell),
        Property::always(UNUSED, |_, state: &State| state.unused <= LONGEST_UNUSED),
        Property::always(TURNS, |_, state: &State| match state.other {
            Other::Waiting { turns, .. } => turns <= LONGEST_TURN + 1,
            _ => true,
        }),
        Property::sometimes(
            HANDED,
            |_, state: &State| matches!(holding(state), Some((_, sequence, true)) if sequence > 0),
        ),
        Property::sometimes(EXPIRED, |_, state: &State| {
            matches!(holding(state), Some((0, _, false)))
        }),
        Property::sometimes(OVER, |_, state: &State| {
            matches!(holding(state), Some((0, _, true)))
        }),
        Property::sometimes(LENT, |_, state: &State| {
            let front = state.front.filter(|front| front.waiter.was_passed_over);
            front.is_some_and(|front| is_used(state) && front.owner != front.waiter.id)
        }),
    ]
}

fn is_used(state: &State) -> bool {
    state.sections.iter().any(Option::is_some)
}

/// The rest of a lease, the number of its section, and whether that has begun.
fn holding(state: &State) -> Option<(u8, u8, bool)> {
    match state.front {
        Some(Front {
            phase:
                Phase::Holding {
                    left,
                    sequence,
                    has_begun,
                    ..
                },
            ..
        }) => Some((left, sequence, has_begun)),
        _ => None,
    }
}

const SMALL: Handover = Handover {
    without: &[],
    tasks: 2,
    grants: 3,
    longest_sequence: 2,
};

fn protocol(model: &Handover) -> String {
    let Handover { tasks, grants, .. } = model;
    format!("hand-over; {tasks} tasks, {grants} leases")
}

/// The hand-over as it is, and without each of its rules.
#[must_use]
pub fn checks(is_large: bool) -> Vec<Check> {
    let mut checks = Vec::new();
    if !is_large {
        checks.extend(negative());
        let examples = [(HANDED, 5), (EXPIRED, 6), (OVER, 4), (LENT, 6)];
        checks.extend(Check::happens(protocol(&SMALL), &SMALL, examples));
    }
    let models: &[(Handover, usize)] = if is_large {
        &[
            (SMALL, 1_349_000),
            (
                Handover {
                    tasks: 3,
                    grants: 2,
                    ..SMALL
                },
                12_337_000,
            ),
        ]
    } else {
        &[
            (Handover { grants: 2, ..SMALL }, 468_000),
            (
                Handover {
                    grants: 1,
                    tasks: 3,
                    longest_sequence: 1,
                    ..SMALL
                },
                502_000,
            ),
        ]
    };
    if !is_large {
        // The task that is picked looks by itself, and asks: these rules only save the request.
        let saving: [&'static [Rule]; 2] =
            [&[Rule::HandsOverInTime], &[Rule::DoubtedIsNotHandedOver]];
        for without in saving {
            let model = Handover {
                without,
                grants: 2,
                ..SMALL
            };
            let name = format!("{} without {:?}", protocol(&model), model.without);
            checks.push(Check::holds(name, model, 469_000));
        }
    }
    for (model, at_least) in models {
        checks.push(Check::holds(protocol(model), model.clone(), *at_least));
    }
    checks
}

fn without(rules: &'static [Rule], property: &'static str, tasks: usize, after: usize) -> Check {
    let model = Handover {
        without: rules,
        tasks,
        ..SMALL
    };
    let name = format!("{} without {rules:?}", protocol(&model));
    Check::fails(name, model, property, after)
}

#[allow(clippy::enum_glob_use, reason = "it is a table of them")]
fn negative() -> Vec<Check> {
    use Rule::*;
    vec![
        without(&[LooksAtTheDeadline], MUTEX, 2, 8),
        without(&[TokenGrows], TOKENS, 2, 5),
        without(&[SequenceEnds], TOKENS, 2, 11),
        without(&[TurnEnds], TURNS, 2, 13),
        without(&[AnswersMakeNoYounger], TURNS, 2, 13),
        without(&[PickedPassesOn], UNUSED, 2, 17),
        without(&[OneReleases], MUTEX, 2, 7),
        without(&[UnseenIsNotRenewed], UNUSED, 2, 16),
        without(&[BegunIsNotPassedOver], MUTEX, 2, 5),
        without(&[NoOwnerTwice], MUTEX, 2, 9),
        without(&[DoubtedIsAskedFor], MUTEX, 2, 7),
    ]
}
