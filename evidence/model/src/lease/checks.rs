//! What is checked of the lease, within which bounds, and what has to come out.

use super::{
    Bounds, Lease, Rule, Times,
    properties::{
        ENDS, FENCES, HINTED, LATE, LOOKS, LOST, MUTEX, NEWEST, NOTHING_LEFT, ORDER, RENEWED,
        UNHEARD, WRITES,
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
#[expect(clippy::too_many_lines, reason = "it is a table")]
pub fn checks(is_large: bool) -> Vec<Check> {
    let mut checks = Vec::new();
    if !is_large {
        checks.extend(negative());
    }
    let few = Bounds { grants: 2, ..SMALL };
    let once = Bounds {
        rounds: 1,
        ..few.clone()
    };
    let bounds = if is_large {
        vec![
            (SMALL, 1_000_000),
            (Bounds { late: 1, ..SMALL }, 17_000_000),
            (Bounds { slow: 1, ..SMALL }, 3_500_000),
            (
                Bounds {
                    crashes: 1,
                    ..SMALL
                },
                1_360_000,
            ),
            (
                Bounds {
                    writes: true,
                    ..SMALL
                },
                2_400_000,
            ),
            (
                Bounds {
                    times: LONG,
                    ..SMALL
                },
                0,
            ),
            (
                Bounds {
                    clients: 3,
                    rounds: 1,
                    ..SMALL
                },
                0,
            ),
            (Bounds { grants: 4, ..SMALL }, 0),
            (
                Bounds {
                    forgets: Some((1, 5)),
                    writes: true,
                    ..SMALL
                },
                0,
            ),
        ]
    } else {
        vec![
            (few.clone(), 300_000),
            (
                Bounds {
                    late: 1,
                    ..once.clone()
                },
                330_000,
            ),
            (
                Bounds {
                    slow: 1,
                    ..once.clone()
                },
                207_000,
            ),
            (
                Bounds {
                    asleep: 3,
                    ..once.clone()
                },
                230_000,
            ),
            (
                Bounds {
                    late: 1,
                    crashes: 1,
                    ..once.clone()
                },
                427_000,
            ),
            (
                Bounds {
                    writes: true,
                    ..once.clone()
                },
                86_000,
            ),
            (
                Bounds {
                    is_prompt: true,
                    ..once.clone()
                },
                75_000,
            ),
            (
                Bounds {
                    forgets: Some((1, 3)),
                    writes: true,
                    ..once
                },
                0,
            ),
        ]
    };
    for (bounds, at_least) in bounds {
        let model = Lease {
            without: &[],
            bounds,
        };
        checks.push(Check::holds(protocol(&model.bounds), model, at_least));
    }
    if is_large {
        return checks;
    }
    // Either of the two is enough for all but what a dead process held.
    let long = Bounds {
        times: LONG,
        grants: 2,
        rounds: 1,
        ..SMALL
    };
    for rules in [&[Rule::RenewalCompares], &[Rule::LostIsFinal]] {
        let name = format!("{} without {rules:?}", protocol(&long));
        let bounds = long.clone();
        let model = Lease {
            without: rules,
            bounds,
        };
        checks.push(Check::holds(name, model, 97_000));
    }
    let bounds = Bounds { late: 1, ..SMALL };
    let lease = Lease {
        without: &[],
        bounds,
    };
    let examples = [
        (LOST, 5),
        (HINTED, 8),
        (RENEWED, 11),
        (UNHEARD, 9),
        (LATE, 5),
    ];
    checks.extend(Check::happens(protocol(&lease.bounds), &lease, examples));
    checks
}

/// What fails without the rules.
fn without(rules: &'static [Rule], property: &'static str, bounds: Bounds, after: usize) -> Check {
    let name = format!("{} without {rules:?}", protocol(&bounds));
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
        without(&[RenewalCompares, LostIsFinal], MUTEX, long(), 13),
        without(&[ReleaseCompares], MUTEX, SMALL, 10),
        without(&[HintCountsFromAQuestion], MUTEX, SMALL, 13),
        without(&[HintCountsFromASmallerFence], MUTEX, SMALL, 16),
        without(&[HintCountsForAGrant], MUTEX, long(), 13),
        without(&[FenceExceedsTheLast], FENCES, forgetful(), 6),
        without(&[FenceFollowsTheClock], NEWEST, forgetful(), 13),
        without(&[ResourceRefuses], WRITES, writing, 11),
        without(&[LooksAgain], LOOKS, prompt, 4),
        without(&[FirstComesFirst], ORDER, SMALL, 8),
    ]
}
