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
pub fn checks(is_large: bool) -> Vec<Check> {
    let mut checks = Vec::new();
    if !is_large {
        checks.extend(negative());
    }
    for bounds in [
        SMALL,
        Bounds { late: 1, ..SMALL },
        Bounds { slow: 1, ..SMALL },
        Bounds {
            crashes: 1,
            ..SMALL
        },
        Bounds {
            writes: true,
            ..SMALL
        },
        Bounds {
            is_prompt: true,
            ..SMALL
        },
        Bounds {
            clients: 3,
            rounds: 1,
            ..SMALL
        },
        Bounds {
            forgets: Some((1, 5)),
            writes: true,
            ..SMALL
        },
    ] {
        let name = protocol(&bounds);
        checks.push(Check::holds(
            name,
            Lease {
                without: &[],
                bounds,
            },
            0,
        ));
    }
    let bounds = Bounds { late: 1, ..SMALL };
    let lease = Lease {
        without: &[],
        bounds,
    };
    let examples = [
        (LOST, 0),
        (HINTED, 0),
        (RENEWED, 0),
        (UNHEARD, 0),
        (LATE, 0),
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
        without(&[CountsFromTheSending], MUTEX, SMALL, 0),
        without(&[EndsAtTheDeadline], MUTEX, SMALL, 0),
        without(&[DriftIsTakenOff], MUTEX, slow, 0),
        without(&[SleepCounts], MUTEX, asleep, 0),
        without(&[NoAnswerMovesNothing], MUTEX, late(), 0),
        without(&[UnknownIsReleased], NOTHING_LEFT, SMALL, 0),
        without(&[IdForOneAttempt], MUTEX, late(), 0),
        without(&[OneTtl], MUTEX, late(), 0),
        without(&[RepeatStartsAnew], MUTEX, SMALL, 0),
        without(&[RenewalCompares], ENDS, crashing, 0),
        without(&[RenewalCompares, LostIsFinal], MUTEX, long(), 0),
        without(&[ReleaseCompares], MUTEX, SMALL, 0),
        without(&[HintCountsFromAQuestion], MUTEX, SMALL, 0),
        without(&[HintCountsFromASmallerFence], MUTEX, SMALL, 0),
        without(&[HintCountsForAGrant], MUTEX, long(), 0),
        without(&[FenceExceedsTheLast], FENCES, forgetful(), 0),
        without(&[FenceFollowsTheClock], NEWEST, forgetful(), 0),
        without(&[ResourceRefuses], WRITES, writing, 0),
        without(&[LooksAgain], LOOKS, prompt, 0),
        without(&[FirstComesFirst], ORDER, SMALL, 0),
    ]
}
