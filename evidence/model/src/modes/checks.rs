//! Claims about the modes, with their bounds and expected results.

use super::{
    Bounds, Mode, Modes, Rule,
    properties::{
        ALL_IN, ALLOWED, ALONE, ALONE_AFTER, DATED, EXCEEDS, FENCED, GROWS, LIMIT, NOT_FENCED,
        TOGETHER, TURNS,
    },
};
use crate::check::Check;

const E: Mode = Mode::Exclusive;
const S: Mode = Mode::Shared;
const P: Mode = Mode::Permits(2);

const SMALL: Bounds = Bounds {
    modes: &[E, S, S],
    rounds: 1,
    grants: 4,
    renews: false,
    writes: false,
    rolls_back: false,
};

const PERMITS: Bounds = Bounds {
    modes: &[P, P, P],
    ..SMALL
};

/// One more than can wait for the third.
const CROWD: Bounds = Bounds {
    modes: &[P, P, P, P],
    ..SMALL
};

const WRITING: Bounds = Bounds {
    writes: true,
    ..SMALL
};

/// A reader leaves, a writer follows, and the next reader joins the restored lease.
const ROLLING_BACK: Bounds = Bounds {
    grants: 3,
    rolls_back: true,
    ..WRITING
};

/// The properties that survive forgotten grants and releases.
const OF_A_STORE_THAT_ROLLS_BACK: [&str; 2] = [ALLOWED, EXCEEDS];

fn protocol(bounds: &Bounds) -> String {
    let Bounds {
        modes,
        rounds,
        grants,
        ..
    } = bounds;
    let modes = modes.iter().map(|mode| match mode {
        Mode::Exclusive => "X".to_owned(),
        Mode::Shared => "S".to_owned(),
        Mode::Permits(n) => format!("P{n}"),
    });
    let modes = modes.collect::<Vec<_>>().join(" ");
    let mut words = format!("modes {modes}; {rounds} attempts, {grants} leases");
    if bounds.renews {
        words += ", renews";
    }
    if bounds.writes {
        words += ", writes";
    }
    if bounds.rolls_back {
        words += ", rolled back";
    }
    words
}

/// The modes as they are, and without each of their rules.
#[must_use]
pub fn checks(is_large: bool) -> Vec<Check> {
    let mut checks = Vec::new();
    if !is_large {
        checks.extend(negative());
        let model = Modes {
            without: &[],
            bounds: SMALL,
        };
        let examples = [(TOGETHER, 9), (ALONE_AFTER, 9)];
        checks.extend(Check::happens(protocol(&SMALL), &model, examples));
    }
    let bounds = if is_large { large() } else { small() };
    for (bounds, at_least) in bounds {
        let model = Modes {
            without: &[],
            bounds,
        };
        checks.push(if bounds.rolls_back {
            Check::keeps(
                protocol(&bounds),
                model,
                &OF_A_STORE_THAT_ROLLS_BACK,
                at_least,
            )
        } else {
            Check::holds(protocol(&bounds), model, at_least)
        });
    }
    checks
}

#[rustfmt::skip]
fn small() -> Vec<(Bounds, usize)> {
    vec![
        (SMALL, 57_000),
        (PERMITS, 9_000),
        (WRITING, 337_000),
        (Bounds { renews: true, ..PERMITS }, 39_000),
        (Bounds { modes: &[E, S], ..ROLLING_BACK }, 9_000),
    ]
}

#[rustfmt::skip]
fn large() -> Vec<(Bounds, usize)> {
    vec![
        (Bounds { rounds: 2, ..SMALL }, 11_205_000),
        (Bounds { rounds: 2, ..PERMITS }, 1_088_000),
        (Bounds { modes: &[E, P, P, P], ..SMALL }, 15_909_000),
        (ROLLING_BACK, 2_950_000),
    ]
}

fn without(rules: &'static [Rule], property: &'static str, bounds: Bounds, after: usize) -> Check {
    let name = format!("{} without {rules:?}", protocol(&bounds));
    let model = Modes {
        without: rules,
        bounds,
    };
    Check::fails(name, model, property, after)
}

#[allow(clippy::enum_glob_use, reason = "it is a table of them")]
fn negative() -> Vec<Check> {
    use Rule::*;
    let renewing = Bounds {
        renews: true,
        ..PERMITS
    };
    vec![
        without(&[ExclusiveIsAlone], ALONE, SMALL, 6),
        without(&[SharedExcludesExclusive], ALONE, SMALL, 6),
        without(&[PermitsAreCounted], LIMIT, PERMITS, 9),
        without(&[EndedAreRemoved], ALLOWED, renewing, 11),
        without(&[KeyLastsForAll], ALONE, SMALL, 9),
        without(&[ReleaseKeepsOthers], ALONE, SMALL, 10),
        without(&[OneQueue], TURNS, SMALL, 6),
        without(&[ReleaseGrantsAll], ALL_IN, SMALL, 8),
        without(&[EpochIsNew], FENCED, WRITING, 10),
        without(&[EpochIsShared], NOT_FENCED, WRITING, 8),
        without(&[GrantsAreNumbered], DATED, CROWD, 12),
        without(&[ResourceRefuses], FENCED, WRITING, 10),
        without(&[FenceFollowsTheClock], EXCEEDS, ROLLING_BACK, 10),
        // A client that joins restored holders gets their token. The writer in between is forgotten, and can write late.
        without(&[], GROWS, ROLLING_BACK, 9),
        without(&[], FENCED, ROLLING_BACK, 13),
    ]
}
