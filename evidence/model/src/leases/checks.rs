//! Claims about the leases of etcd, with their bounds and expected results.

use super::{
    Bounds, Leases, Rule,
    properties::{AGAIN, ALONE, ENDS, KEPT, LATE, LEFT},
};
use crate::check::Check;

/// Two tasks of a process, and another process.
const SMALL: Bounds = Bounds {
    rounds: &[2, 1, 1],
    leases: 3,
};

fn protocol(bounds: &Bounds) -> String {
    let Bounds { rounds, leases } = bounds;
    format!("leases of etcd; {rounds:?} claims, {leases} leases")
}

/// The leases as they are used, and without each of the rules. Larger bounds did not end within minutes.
#[must_use]
pub fn checks(is_large: bool) -> Vec<Check> {
    if is_large {
        return Vec::new();
    }
    let model = Leases {
        without: &[],
        bounds: SMALL,
    };
    let mut checks = negative();
    let examples = [(AGAIN, 8), (LATE, 6)];
    checks.extend(Check::happens(protocol(&SMALL), &model, examples));
    checks.push(Check::holds(protocol(&SMALL), model, 4_148_000));
    checks
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
