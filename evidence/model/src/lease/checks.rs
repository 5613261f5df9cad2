//! Claims about the lease, with their bounds and expected results.

use super::{
    Bounds, Lease, Rule, Times,
    properties::{
        BACK, ENDED, ENDS, FENCES, FINAL, HINTED, LATE, LOOKS, LOST, MUTEX, NEWEST, NOTHING_LEFT,
        OF_A_FORGETFUL_SERVER, ORDER, REFUSED, RENEWED, UNHEARD, WRITES,
    },
};
use crate::check::Check;

/// As short as can be.
const SHORT: Times = Times {
    ttl: 3,
    grant: 2,
    drift: 1,
};

/// With a TTL that is longer than that of a grant by more than the drift.
const LONG: Times = Times { ttl: 4, ..SHORT };

const SMALL: Bounds = Bounds {
    times: SHORT,
    clients: 2,
    rounds: 2,
    grants: 3,
    late: 0,
    crashes: 0,
    slow: 0,
    asleep: 0,
    forgets: None,
    rolls_back: None,
    writes: false,
    is_prompt: false,
};

fn protocol(bounds: &Bounds) -> String {
    let mut words = vec![
        format!("{} clients", bounds.clients),
        format!("{} attempts", bounds.rounds),
        format!("{} leases", bounds.grants),
    ];
    let counted = [
        (bounds.late, "late"),
        (bounds.crashes, "crashed"),
        (bounds.slow, "slow"),
        (bounds.asleep, "asleep"),
        (bounds.forgets.map_or(0, |(times, _)| times), "forgotten"),
        (
            bounds.rolls_back.map_or(0, |(times, _)| times),
            "rolled back",
        ),
    ];
    let counted = counted.into_iter().filter(|(count, _)| *count > 0);
    words.extend(counted.map(|(count, what)| format!("{count} {what}")));
    if bounds.writes {
        words.push("writes".into());
    }
    if bounds.is_prompt {
        words.push("prompt".into());
    }
    let Times { ttl, grant, drift } = bounds.times;
    format!("lease {ttl}/{grant}/{drift}; {}", words.join(", "))
}

/// The lease as it is, and without each of its rules.
#[must_use]
pub fn checks(is_large: bool) -> Vec<Check> {
    if is_large {
        return large().into_iter().map(whole).collect();
    }
    let mut checks = negative();
    checks.extend(small().into_iter().map(whole));
    checks.extend(one_is_enough());
    checks.extend(examples());
    checks
}

/// All that is promised within these bounds.
fn whole((bounds, at_least): (Bounds, usize)) -> Check {
    let is_forgetful = bounds.forgets.is_some() || bounds.rolls_back.is_some();
    let name = protocol(&bounds);
    let model = Lease {
        without: &[],
        bounds,
    };
    if is_forgetful {
        Check::keeps(name, model, &OF_A_FORGETFUL_SERVER, at_least)
    } else {
        Check::holds(name, model, at_least)
    }
}

const FEW: Bounds = Bounds { grants: 2, ..SMALL };
const ONCE: Bounds = Bounds { rounds: 1, ..FEW };

#[rustfmt::skip]
fn small() -> Vec<(Bounds, usize)> {
    vec![
        (FEW, 304_000),
        (Bounds { late: 1, ..ONCE }, 335_000),
        (Bounds { slow: 1, ..ONCE }, 207_000),
        (Bounds { asleep: 3, ..ONCE }, 230_000),
        (Bounds { late: 1, crashes: 1, ..ONCE }, 429_000),
        (Bounds { writes: true, ..ONCE }, 87_000),
        (Bounds { is_prompt: true, ..ONCE }, 75_000),
        (Bounds { forgets: Some((1, 3)), writes: true, ..ONCE }, 429_000),
        (Bounds { rolls_back: Some((1, 3)), writes: true, ..ONCE }, 742_000),
    ]
}

#[rustfmt::skip]
fn large() -> Vec<(Bounds, usize)> {
    vec![
        (SMALL, 1_034_000),
        (Bounds { slow: 1, ..SMALL }, 3_509_000),
        (Bounds { crashes: 1, ..SMALL }, 1_374_000),
        (Bounds { writes: true, ..SMALL }, 2_592_000),
        (Bounds { times: LONG, ..SMALL }, 1_623_000),
        (Bounds { late: 1, ..SMALL }, 17_409_000),
        (Bounds { grants: 4, ..SMALL }, 3_154_000),
        (Bounds { late: 1, slow: 1, ..ONCE }, 1_202_000),
        (Bounds { late: 1, forgets: Some((1, 4)), writes: true, ..ONCE }, 5_677_000),
        (Bounds { rolls_back: Some((1, 4)), writes: true, ..ONCE }, 1_652_000),
    ]
}

/// That renewals compare and that a lost lease is lost: either is enough for exclusion.
fn one_is_enough() -> impl Iterator<Item = Check> {
    let bounds = Bounds {
        times: LONG,
        ..ONCE
    };
    let rules = [&[Rule::RenewalCompares], &[Rule::LostIsFinal]];
    rules.into_iter().map(move |rules| {
        let name = format!("{} without {rules:?}", protocol(&bounds));
        let bounds = bounds.clone();
        let model = Lease {
            without: rules,
            bounds,
        };
        Check::keeps(name, model, &[MUTEX], 97_000)
    })
}

/// Examples of possible histories.
fn examples() -> Vec<Check> {
    let seen = |bounds: Bounds, examples: &[(&'static str, usize)]| {
        let lease = Lease {
            without: &[],
            bounds,
        };
        let examples = examples.iter().copied();
        Check::happens(protocol(&lease.bounds), &lease, examples)
    };
    let late = Bounds { late: 1, ..SMALL };
    let crashing = Bounds {
        crashes: 1,
        ..SMALL
    };
    let writing = Bounds {
        writes: true,
        ..SMALL
    };
    let mut checks = seen(
        late,
        &[
            (LOST, 5),
            (HINTED, 8),
            (RENEWED, 11),
            (UNHEARD, 9),
            (LATE, 5),
        ],
    );
    checks.extend(seen(crashing, &[(ENDED, 6)]));
    checks.extend(seen(writing, &[(REFUSED, 11)]));
    let rolling_back = Bounds {
        rolls_back: Some((1, 5)),
        ..SMALL
    };
    checks.extend(seen(rolling_back, &[(BACK, 8)]));
    checks
}

/// A claim that fails without the rules, or although all are kept.
fn without(rules: &'static [Rule], property: &'static str, bounds: Bounds, after: usize) -> Check {
    let mut name = protocol(&bounds);
    if !rules.is_empty() {
        name = format!("{name} without {rules:?}");
    }
    let lease = Lease {
        without: rules,
        bounds,
    };
    Check::fails(name, lease, property, after)
}

/// Each rule, and what fails without it.
#[allow(clippy::enum_glob_use, reason = "it is a table of them")]
fn negative() -> Vec<Check> {
    use Rule::*;
    let late = || Bounds { late: 1, ..SMALL };
    let forgetful = || Bounds {
        forgets: Some((1, 5)),
        writes: true,
        ..SMALL
    };
    let rolling_back = || Bounds {
        forgets: None,
        rolls_back: Some((1, 5)),
        ..forgetful()
    };
    let long = || Bounds {
        times: LONG,
        ..SMALL
    };
    let slow = Bounds { slow: 1, ..SMALL };
    let asleep = Bounds { asleep: 3, ..SMALL };
    let crashing = Bounds {
        late: 1,
        crashes: 1,
        ..SMALL
    };
    let writing = Bounds {
        writes: true,
        ..SMALL
    };
    let prompt = Bounds {
        is_prompt: true,
        ..SMALL
    };
    vec![
        without(&[CountsFromTheSending], MUTEX, SMALL, 9),
        without(&[EndsAtTheDeadline], MUTEX, SMALL, 9),
        without(&[DriftIsTakenOff], MUTEX, slow, 9),
        without(&[SleepCounts], MUTEX, asleep, 9),
        without(&[NoAnswerMovesNothing], MUTEX, late(), 13),
        without(&[UnknownIsReleased], NOTHING_LEFT, SMALL, 3),
        without(&[IdForOneAttempt], MUTEX, late(), 11),
        without(&[OneTtl], MUTEX, late(), 9),
        without(&[RepeatStartsAnew], MUTEX, SMALL, 12),
        without(&[RenewalCompares], ENDS, crashing, 15),
        without(&[LostIsFinal], FINAL, SMALL, 8),
        without(&[RenewalCompares, LostIsFinal], MUTEX, long(), 13),
        without(&[ReleaseCompares], MUTEX, SMALL, 10),
        without(&[HintCountsFromAQuestion], MUTEX, SMALL, 13),
        without(&[HintCountsFromASmallerFence], MUTEX, SMALL, 16),
        without(&[HintCountsForAGrant], MUTEX, long(), 13),
        without(&[FenceExceedsTheLast], FENCES, forgetful(), 6),
        without(&[FenceFollowsTheClock], NEWEST, forgetful(), 13),
        without(&[FenceFollowsTheClock], FENCES, rolling_back(), 12),
        without(&[], MUTEX, forgetful(), 7),
        without(&[], MUTEX, rolling_back(), 13),
        without(&[ResourceRefuses], WRITES, writing, 11),
        without(&[LooksAgain], LOOKS, prompt, 4),
        without(&[FirstComesFirst], ORDER, SMALL, 8),
    ]
}
