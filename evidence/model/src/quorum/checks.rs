//! Claims about the quorum, with their bounds and expected results.

use super::{
    Bounds, Ends, Quorum, Rule,
    properties::{GONE, MUTEX, NOTHING_LEFT, ORDER, PASSED_ON, UNIQUE},
};
use crate::check::Check;

const SMALL: Bounds = Bounds {
    clients: 2,
    rounds: 1,
    counted: [0, 0, 1],
    ends: Ends::InTime,
    forgets: 0,
    repeats: 0,
    slow_answers: false,
    renews: false,
};

fn protocol(bounds: &Bounds) -> String {
    let Bounds {
        clients,
        rounds,
        counted,
        ends,
        ..
    } = bounds;
    let mut words = format!("quorum; {clients} clients, {rounds} rounds, {counted:?}, {ends:?}");
    for (count, what) in [(bounds.forgets, "forgets"), (bounds.repeats, "repeats")] {
        if count > 0 {
            words = format!("{words}, {count} {what}");
        }
    }
    if bounds.slow_answers {
        words += ", slow answers";
    }
    if bounds.renews {
        words += ", renews";
    }
    words
}

/// The quorum as it is, and without each of its rules.
#[must_use]
pub fn checks(is_large: bool) -> Vec<Check> {
    let mut checks = Vec::new();
    if !is_large {
        checks.extend(negative());
        let bounds = Bounds {
            ends: Ends::Anytime,
            ..SMALL
        };
        let name = protocol(&bounds);
        let model = Quorum {
            without: &[],
            bounds,
        };
        checks.extend(Check::happens(name, &model, [(PASSED_ON, 7), (GONE, 5)]));
    }
    let bounds = if is_large { large() } else { small() };
    for (bounds, at_least) in bounds {
        let model = Quorum {
            without: &[],
            bounds,
        };
        checks.push(Check::holds(protocol(&model.bounds), model, at_least));
    }
    checks
}

const ANYTIME: Bounds = Bounds {
    ends: Ends::Anytime,
    ..SMALL
};

#[rustfmt::skip]
fn small() -> Vec<(Bounds, usize)> {
    vec![
        (ANYTIME, 55_000),
        (Bounds { repeats: 1, ..ANYTIME }, 609_000),
        (SMALL, 30_000),
        (Bounds { renews: true, ends: Ends::Never, ..SMALL }, 82_000),
        (Bounds { forgets: 1, ..SMALL }, 131_000),
    ]
}

#[rustfmt::skip]
fn large() -> Vec<(Bounds, usize)> {
    vec![
        (Bounds { slow_answers: true, ..ANYTIME }, 1_349_000),
        (Bounds { slow_answers: true, ..SMALL }, 1_018_000),
        (Bounds { forgets: 2, ..SMALL }, 348_000),
        (Bounds { repeats: 2, ..ANYTIME }, 3_575_000),
    ]
}

fn without(rules: &'static [Rule], property: &'static str, bounds: Bounds, after: usize) -> Check {
    let name = format!("{} without {rules:?}", protocol(&bounds));
    let model = Quorum {
        without: rules,
        bounds,
    };
    Check::fails(name, model, property, after)
}

#[allow(clippy::enum_glob_use, reason = "it is a table of them")]
fn negative() -> Vec<Check> {
    use Rule::*;
    let anytime = || Bounds {
        ends: Ends::Anytime,
        ..SMALL
    };
    let repeating = Bounds {
        repeats: 1,
        ..anytime()
    };
    let again = Bounds {
        rounds: 2,
        ends: Ends::Never,
        ..SMALL
    };
    let never = Bounds {
        ends: Ends::Never,
        ..SMALL
    };
    let renewing = Bounds {
        clients: 1,
        renews: true,
        forgets: 1,
        ..never.clone()
    };
    let forgetful = || Bounds {
        forgets: 1,
        ..SMALL
    };
    vec![
        without(&[MajorityGrants], MUTEX, SMALL, 4),
        without(&[CountsFromTheFirstQuestion], MUTEX, SMALL, 7),
        without(&[FenceIsRaised], UNIQUE, SMALL, 8),
        without(&[RaisedWhereHeld], UNIQUE, anytime(), 9),
        without(&[RaisedAsGranted], UNIQUE, repeating, 11),
        without(&[LateGrantIsExact], UNIQUE, anytime(), 10),
        without(&[FreshId], MUTEX, again, 9),
        without(&[LateGrantIsGivenBack], NOTHING_LEFT, never, 8),
        without(&[RetakeIsGivenBack], NOTHING_LEFT, renewing, 10),
        without(&[ProposedByTheClock], ORDER, forgetful(), 9),
        without(&[ForgetfulStaysOut], MUTEX, forgetful(), 7),
    ]
}
