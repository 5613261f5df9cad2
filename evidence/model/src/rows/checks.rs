//! Claims about the row locks, with their bounds and expected results.

use super::{
    Bounds, Renews, Role, Rows, Rule,
    properties::{
        BESIDE, BEYOND, CONFLICT, DEADLOCK, FENCED, FENCES, FREE, HELD, KEPT, MUTEX, NOBODY_LEFT,
        ORDER, PROMPT, PUT_OFF, SEEN, TOGETHER, TOO_LATE, WAITS, WHATEVER_HAPPENS,
    },
};
use crate::check::Check;

const E: Role = Role::Exclusive;
const S: Role = Role::Shared;
const T: Role = Role::InTransaction;

const SMALL: Bounds = Bounds {
    roles: &[E, E],
    rounds: 1,
    grants: 3,
    renews: Renews::Never,
    fences: true,
    late: 0,
    snapshots: false,
    savepoints: false,
    aborts: 0,
    restarts: 0,
    crashes: 0,
    failovers: 0,
    deaths: 0,
    unlocks: false,
    clock: None,
    sweeps: false,
};

fn protocol(bounds: &Bounds) -> String {
    let roles = bounds.roles.iter().map(|role| match role {
        Role::Exclusive => "X",
        Role::Shared => "S",
        Role::InTransaction => "T",
    });
    let roles = roles.collect::<Vec<_>>().join(" ");
    let mut words = format!(
        "rows {roles}; {} attempts, {} leases",
        bounds.rounds, bounds.grants
    );
    let flags = [
        (bounds.renews == Renews::Each, "renews"),
        (bounds.renews == Renews::Together, "renews together"),
        (!bounds.fences, "no fences"),
        (bounds.late > 0, "late requests"),
        (bounds.snapshots, "snapshots"),
        (bounds.savepoints, "savepoints"),
        (bounds.aborts > 0, "aborts"),
        (bounds.restarts > 0, "restarts"),
        (bounds.crashes > 0, "crashes"),
        (bounds.failovers > 0, "failovers"),
        (bounds.deaths > 0, "deaths"),
        (bounds.unlocks, "unlocks"),
        (bounds.sweeps, "sweeps"),
    ];
    for (_, word) in flags.into_iter().filter(|(is_set, _)| *is_set) {
        words = format!("{words}, {word}");
    }
    words
}

/// The row locks as they are, and without each of their rules.
#[must_use]
pub fn checks(is_large: bool) -> Vec<Check> {
    let mut checks = Vec::new();
    if !is_large {
        checks.extend(negative());
        checks.extend(not_needed());
        checks.extend(examples());
    }
    checks.extend(whatever_happens(is_large));
    let bounds = if is_large { large() } else { small() };
    for (bounds, at_least) in bounds {
        let model = Rows {
            without: &[],
            bounds,
        };
        checks.push(Check::holds(protocol(&bounds), model, at_least));
    }
    checks
}

#[expect(clippy::too_many_lines, reason = "it is a table of them")]
fn small() -> Vec<(Bounds, usize)> {
    vec![
        (
            Bounds {
                roles: &[E, T],
                late: 1,
                ..SMALL
            },
            90_000,
        ),
        (
            Bounds {
                roles: &[T, T],
                late: 1,
                ..SMALL
            },
            45_000,
        ),
        (
            Bounds {
                roles: &[S, E],
                renews: Renews::Each,
                ..SMALL
            },
            80_000,
        ),
        (
            Bounds {
                roles: &[S, S],
                renews: Renews::Together,
                ..SMALL
            },
            250_000,
        ),
        (
            Bounds {
                roles: &[S, E],
                renews: Renews::Together,
                ..SMALL
            },
            80_000,
        ),
        (
            Bounds {
                roles: &[E, E],
                late: 1,
                snapshots: true,
                ..SMALL
            },
            800_000,
        ),
        (
            Bounds {
                roles: &[E, T],
                snapshots: true,
                ..SMALL
            },
            40_000,
        ),
        (
            Bounds {
                roles: &[T, T],
                snapshots: true,
                ..SMALL
            },
            30_000,
        ),
        (
            Bounds {
                aborts: 1,
                restarts: 1,
                renews: Renews::Each,
                ..SMALL
            },
            400_000,
        ),
        (
            Bounds {
                roles: &[E, T],
                aborts: 1,
                restarts: 1,
                ..SMALL
            },
            35_000,
        ),
        (
            Bounds {
                crashes: 1,
                renews: Renews::Each,
                ..SMALL
            },
            300_000,
        ),
        (
            Bounds {
                roles: &[E, T],
                crashes: 1,
                ..SMALL
            },
            25_000,
        ),
        (
            Bounds {
                roles: &[S, E, S],
                fences: false,
                deaths: 1,
                ..SMALL
            },
            450_000,
        ),
        (
            Bounds {
                clock: Some(4),
                sweeps: true,
                rounds: 2,
                fences: false,
                ..SMALL
            },
            800_000,
        ),
        (
            Bounds {
                rounds: 2,
                fences: false,
                ..SMALL
            },
            220_000,
        ),
        (
            Bounds {
                roles: &[E, E, E],
                fences: false,
                ..SMALL
            },
            180_000,
        ),
    ]
}

fn large() -> Vec<(Bounds, usize)> {
    let three = |roles| Bounds { roles, ..SMALL };
    let late = Bounds {
        renews: Renews::Each,
        late: 1,
        ..SMALL
    };
    let again = Bounds {
        rounds: 2,
        fences: false,
        ..SMALL
    };
    vec![
        (
            Bounds {
                crashes: 1,
                ..again
            },
            1_500_000,
        ),
        (Bounds { deaths: 2, ..again }, 3_000_000),
        (late, 1_000_000),
        (three(&[E, E, T]), 1_100_000),
        (three(&[S, S, E]), 1_800_000),
        (three(&[E, E, E]), 1_800_000),
    ]
}

/// Rules that others stand in for: a lease that is being renewed is skipped, so that what was seen of it is still so
/// under its lock; and one that had ended and is renewed before it was taken over has not been anybody else's.
fn not_needed() -> Vec<Check> {
    let bounds = Bounds {
        renews: Renews::Each,
        ..SMALL
    };
    let one = |rules: &'static [Rule]| {
        let name = format!("{} without {rules:?}", protocol(&bounds));
        Check::holds(
            name,
            Rows {
                without: rules,
                bounds,
            },
            1,
        )
    };
    vec![
        one(&[Rule::EndIsSeenUnderTheLock]),
        one(&[Rule::RenewalRefusesTheEnded]),
    ]
}

/// An operator, and a failover that loses the last commits, take leases away, but no fence.
fn whatever_happens(is_large: bool) -> Vec<Check> {
    let unlocks = Bounds {
        unlocks: true,
        ..SMALL
    };
    let fails_over = Bounds {
        failovers: 1,
        clock: Some(4),
        ..SMALL
    };
    let one = |bounds: Bounds, at_least| {
        let model = Rows {
            without: &[],
            bounds,
        };
        Check::keeps(protocol(&bounds), model, &WHATEVER_HAPPENS, at_least)
    };
    if is_large {
        let again = Bounds {
            rounds: 2,
            fences: false,
            clock: Some(3),
            ..fails_over
        };
        return vec![one(again, 5_000_000)];
    }
    vec![one(unlocks, 70_000), one(fails_over, 500_000)]
}

fn examples() -> Vec<Check> {
    let happen = |bounds: Bounds, what: &[(&'static str, usize)]| {
        let model = Rows {
            without: &[],
            bounds,
        };
        Check::happens(protocol(&bounds), &model, what.iter().copied())
    };
    let mut all = happen(SMALL, &[(BEYOND, 9), (PUT_OFF, 5), (TOO_LATE, 9)]);
    all.extend(happen(
        Bounds {
            renews: Renews::Each,
            ..SMALL
        },
        &[(BESIDE, 6)],
    ));
    all.extend(happen(
        Bounds {
            snapshots: true,
            ..SMALL
        },
        &[(CONFLICT, 8)],
    ));
    all.extend(happen(
        Bounds {
            roles: &[S, S],
            ..SMALL
        },
        &[(TOGETHER, 8)],
    ));
    all
}

fn without(rules: &'static [Rule], property: &'static str, bounds: Bounds, after: usize) -> Check {
    let name = format!("{} without {rules:?}", protocol(&bounds));
    Check::fails(
        name,
        Rows {
            without: rules,
            bounds,
        },
        property,
        after,
    )
}

#[allow(
    clippy::enum_glob_use,
    clippy::too_many_lines,
    reason = "it is a table of them"
)]
fn negative() -> Vec<Check> {
    use Rule::*;
    let renewing = Bounds {
        renews: Renews::Each,
        ..SMALL
    };
    let late = Bounds { late: 1, ..SMALL };
    let late_renewing = Bounds {
        renews: Renews::Each,
        ..late
    };
    let together = Bounds {
        roles: &[S, S],
        renews: Renews::Together,
        ..SMALL
    };
    let mixed = Bounds {
        roles: &[T, E],
        ..SMALL
    };
    let two = Bounds {
        roles: &[T, T],
        ..SMALL
    };
    let again = Bounds {
        rounds: 2,
        fences: false,
        ..SMALL
    };
    let sweeping = Bounds {
        clock: Some(4),
        sweeps: true,
        ..again
    };
    let three = Bounds {
        roles: &[E, E, E],
        fences: false,
        ..SMALL
    };
    let dying = Bounds {
        roles: &[S, E, S],
        deaths: 1,
        ..three
    };
    let crashing = Bounds {
        crashes: 1,
        ..SMALL
    };
    let fails_over = Bounds {
        failovers: 1,
        clock: Some(3),
        ..again
    };
    vec![
        without(&[MutexExcludes], MUTEX, SMALL, 6),
        without(&[LockedAtOnce], DEADLOCK, SMALL, 4),
        without(&[SnapshotAfterTheLock], MUTEX, SMALL, 6),
        without(&[ClockAfterTheLock], MUTEX, late_renewing, 12),
        without(&[RenewalReadsTheClock], MUTEX, late_renewing, 15),
        without(&[TakeOverSkipsLocked], WAITS, SMALL, 8),
        without(&[LockedCountsAsHeld], HELD, SMALL, 9),
        without(&[TakeOverDeletes], KEPT, SMALL, 9),
        without(&[RepeatSkipsLocked], WAITS, Bounds { late: 1, ..mixed }, 7),
        without(
            &[RepeatSkipsLocked],
            DEADLOCK,
            Bounds {
                late: 1,
                ..together
            },
            13,
        ),
        without(&[FenceLocks], FENCED, SMALL, 10),
        without(&[FenceCompares], ORDER, late, 18),
        without(&[RenewalRevivesNothing], FENCED, renewing, 12),
        without(&[RowsInOneOrder], DEADLOCK, together, 10),
        without(&[ReleaseCompares], MUTEX, Bounds { rounds: 2, ..SMALL }, 12),
        without(&[ReleaseTakesTheMutex], NOBODY_LEFT, SMALL, 9),
        without(&[ReleaseWaitsForNobody], WAITS, SMALL, 6),
        without(&[ReleaseWaitsForNobody], DEADLOCK, together, 12),
        without(&[ReleaseWaitsForNobody], PROMPT, renewing, 6),
        without(&[QueuesUnderTheMutex], NOBODY_LEFT, SMALL, 10),
        without(&[DeadWaitersAreRemoved], NOBODY_LEFT, dying, 10),
        without(&[GrantsAreDurable], MUTEX, crashing, 7),
        without(
            &[RenewalsAreDurable],
            MUTEX,
            Bounds {
                renews: Renews::Each,
                ..crashing
            },
            12,
        ),
        without(&[LockInDeletes], FREE, two, 5),
        without(&[LockInFindsItsLease], HELD, mixed, 9),
        without(
            &[LockInFindsItsLease],
            SEEN,
            Bounds {
                snapshots: true,
                ..mixed
            },
            12,
        ),
        without(&[LockInHasItsOwner], WAITS, two, 7),
        without(
            &[LockInIsNotRenewed],
            WAITS,
            Bounds {
                renews: Renews::Each,
                ..two
            },
            5,
        ),
        without(&[FenceExceedsTheLast], FENCES, again, 8),
        without(&[FenceFollowsTheClock], FENCES, sweeping, 13),
        without(&[NumberExceedsTheLast], FENCES, three, 15),
        without(&[QueueEndsWithItsServer], FENCES, fails_over, 16),
        without(&[SweptLater], FENCES, sweeping, 11),
        without(&[StartsOverWhenSwept], MUTEX, sweeping, 16),
        without(
            &[],
            HELD,
            Bounds {
                savepoints: true,
                ..SMALL
            },
            10,
        ),
        without(
            &[],
            FENCED,
            Bounds {
                savepoints: true,
                ..SMALL
            },
            11,
        ),
        without(
            &[],
            MUTEX,
            Bounds {
                unlocks: true,
                ..SMALL
            },
            9,
        ),
        without(
            &[],
            MUTEX,
            Bounds {
                failovers: 1,
                clock: Some(4),
                ..SMALL
            },
            8,
        ),
    ]
}
