//! Claims about the leases of etcd, with their bounds and expected results.

use super::{
    Bounds, Leases, Rule,
    properties::{AGAIN, ALONE, ENDS, KEPT, LATE, LEFT},
};
use crate::check::Check;

/// Two tasks of a process, and another process. Each rule is needed there.
const SMALL: Bounds = Bounds {
    rounds: &[2, 1, 1],
    leases: 2,
};

/// A lease for each task.
const APART: Bounds = Bounds {
    rounds: &[1, 1, 1],
    leases: 3,
};

/// Both. Larger bounds did not end within minutes.
const LARGE: Bounds = Bounds {
    rounds: &[2, 1, 1],
    leases: 3,
};

fn protocol(bounds: &Bounds) -> String {
    let Bounds { rounds, leases } = bounds;
    format!("leases of etcd; {rounds:?} claims, {leases} leases")
}

/// The leases as they are used, and without each of the rules.
#[must_use]
pub fn checks(is_large: bool) -> Vec<Check> {
    if is_large {
        return vec![holds(LARGE, 4_148_000)];
    }
    let model = with_all_rules(SMALL);
    let mut checks = negative();
    let examples = [(AGAIN, 8), (LATE, 6)];
    checks.extend(Check::happens(protocol(&SMALL), &model, examples));
    checks.extend([holds(SMALL, 151_000), holds(APART, 897_000)]);
    checks
}

fn with_all_rules(bounds: Bounds) -> Leases {
    Leases {
        without: &[],
        bounds,
    }
}

fn holds(bounds: Bounds, at_least: usize) -> Check {
    Check::holds(protocol(&bounds), with_all_rules(bounds), at_least)
}

fn without(rules: &'static [Rule], property: &'static str, after: usize) -> Check {
    let name = format!("{} without {rules:?}", protocol(&SMALL));
    let model = Leases {
        without: rules,
        bounds: SMALL,
    };
    Check::fails(name, model, property, after)
}

#[allow(clippy::enum_glob_use, reason = "it is a table of them")]
fn negative() -> Vec<Check> {
    use Rule::*;
    vec![
        without(&[UnknownIsEnded], LEFT, 5),
        without(&[OneClaimALease], KEPT, 12),
        without(&[DeletedBeforeItIsUsed], LEFT, 4),
        without(&[KeptAliveBeside], ALONE, 10),
        without(&[EndedIsRefused], ENDS, 7),
        without(&[BareIsTheLast], KEPT, 10),
    ]
}
