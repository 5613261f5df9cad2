//! The aims of dlock, and whether a run reaches them.

use serde::Serialize;

use super::results::{Measured, Results};
use super::workload::{
    DLOCK, DLOCK_ALONE, DLOCK_EACH, MEMORY, MUTEX, PUBLISH, RAW, RSLOCK, SCRIPTS,
    Workload::{self, Memory, W1, W1t, W2, W3, W4a, W4b, W4h, W5, W6},
};
use crate::table::{self, number};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Bound {
    AtMost(f64),
    AtLeast(f64),
}
use Bound::{AtLeast, AtMost};

/// One aim, and what was measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Checked {
    workload: Workload,
    aim: &'static str,
    bound: String,
    measured: f64,
    reached: bool,
    /// How far it is from its bound: 1 is at it, more is missed.
    factor: f64,
}

/// A number of one contender.
type Quantity = fn(&Measured) -> Option<f64>;

const RATE: Quantity = |it| it.sections_per_s;
const P50: Quantity = |it| it.p50_us;
const FAIRNESS: Quantity = |it| it.fairness;
const WORST: Quantity = |it| it.worst_wait_ms;
const COMMANDS: Quantity = |it| it.commands;

/// The number that an aim is about.
#[derive(Clone, Copy)]
enum Value {
    Own(Quantity),
    /// By that of another one.
    Ratio(Quantity, &'static str),
    /// More than that of another one.
    Difference(Quantity, &'static str),
}
use Value::{Difference, Own, Ratio};

type Aim = (Workload, &'static str, &'static str, Value, Bound);

const AIMS: &[Aim] = &[
    (W1, DLOCK, "p50 against raw", Ratio(P50, RAW), AtMost(1.20)),
    (
        W1,
        DLOCK,
        "p50 against the scripts by hand",
        Ratio(P50, SCRIPTS),
        AtMost(1.05),
    ),
    (W1t, DLOCK, "p50 against raw", Ratio(P50, RAW), AtMost(1.20)),
    (
        W1t,
        DLOCK,
        "p50 against the scripts by hand",
        Ratio(P50, SCRIPTS),
        AtMost(1.05),
    ),
    (
        W2,
        DLOCK,
        "sections against the scripts by hand",
        Ratio(RATE, SCRIPTS),
        AtLeast(0.9),
    ),
    (
        W3,
        DLOCK,
        "sections against rslock",
        Ratio(RATE, RSLOCK),
        AtLeast(20.0),
    ),
    (W3, DLOCK, "min/max of a task", Own(FAIRNESS), AtLeast(0.9)),
    (W3, DLOCK, "commands a section", Own(COMMANDS), AtMost(0.1)),
    (W3, DLOCK, "worst wait in ms", Own(WORST), AtMost(50.0)),
    (
        W3,
        DLOCK_EACH,
        "handover off: sections against rslock",
        Ratio(RATE, RSLOCK),
        AtLeast(0.6),
    ),
    (
        W3,
        DLOCK_EACH,
        "handover off: commands a section",
        Own(COMMANDS),
        AtMost(2.05),
    ),
    (
        W4a,
        DLOCK,
        "hand-off against PUBLISH",
        Ratio(P50, PUBLISH),
        AtMost(2.0),
    ),
    (W4a, DLOCK, "commands a section", Own(COMMANDS), AtMost(2.1)),
    (
        W4a,
        DLOCK,
        "min/max of a process",
        Own(FAIRNESS),
        AtLeast(0.9),
    ),
    (
        W4b,
        DLOCK,
        "sections against rslock",
        Ratio(RATE, RSLOCK),
        AtLeast(20.0),
    ),
    (W4b, DLOCK, "min/max of a task", Own(FAIRNESS), AtLeast(0.9)),
    (W4b, DLOCK, "commands a section", Own(COMMANDS), AtMost(0.1)),
    (W4b, DLOCK, "worst wait in ms", Own(WORST), AtMost(50.0)),
    (
        W4h,
        DLOCK,
        "hand-off against PUBLISH to an idle process",
        Ratio(P50, PUBLISH),
        AtMost(1.7),
    ),
    (
        W5,
        DLOCK,
        "commands a second and process",
        Own(COMMANDS),
        AtMost(1.0),
    ),
    (
        W5,
        DLOCK,
        "ms until all are through",
        Own(WORST),
        AtMost(20.0),
    ),
    (
        W6,
        DLOCK,
        "p50 against rslock",
        Ratio(P50, RSLOCK),
        AtMost(1.0),
    ),
    (
        W6,
        DLOCK,
        "p50 against one server",
        Ratio(P50, DLOCK_ALONE),
        AtMost(3.0),
    ),
    (
        Memory,
        MEMORY,
        "µs more than a tokio mutex",
        Difference(P50, MUTEX),
        AtMost(1.0),
    ),
];

/// The aims of which something was measured.
pub(super) fn check(results: &Results) -> Vec<Checked> {
    let checked = |&(workload, peer, aim, value, bound): &Aim| {
        let own = results.of(workload, peer)?;
        let other = |peer| results.of(workload, peer);
        let measured = match value {
            Own(quantity) => quantity(own)?,
            Ratio(quantity, peer) => quantity(own)? / quantity(other(peer)?)?,
            Difference(quantity, peer) => quantity(own)? - quantity(other(peer)?)?,
        };
        let factor = bound.factor(measured);
        Some(Checked {
            workload,
            aim,
            bound: bound.shown(),
            measured,
            reached: factor <= 1.0,
            factor,
        })
    };
    AIMS.iter().filter_map(checked).collect()
}

pub(super) fn table(checked: &[Checked]) -> String {
    let rows: Vec<_> = checked
        .iter()
        .map(|it| {
            let verdict = match it.factor {
                _ if it.reached => "reached".to_owned(),
                factor if factor < 2.0 => format!("missed by {:.0} %", (factor - 1.0) * 100.0),
                factor => format!("missed {}-fold", number(factor)),
            };
            let (workload, aim) = (it.workload.name(), it.aim.to_owned());
            vec![
                workload,
                aim,
                verdict,
                number(it.measured),
                it.bound.clone(),
            ]
        })
        .collect();
    table::shown(3, &rows)
}

impl Bound {
    fn factor(self, value: f64) -> f64 {
        match self {
            AtMost(bound) => value / bound,
            AtLeast(bound) => bound / value,
        }
    }

    fn shown(self) -> String {
        match self {
            AtMost(bound) => format!("<= {}", number(bound)),
            AtLeast(bound) => format!(">= {}", number(bound)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(workload: Workload, of: impl Fn(&str) -> Measured) -> Results {
        let mut results = Results::default();
        for contender in workload.contenders() {
            results.add(workload, contender, of(contender.name));
        }
        results
    }

    #[test]
    fn an_aim_is_about_those_who_take_part() {
        for &(workload, peer, aim, value, _) in AIMS {
            let names: Vec<_> = workload.contenders().iter().map(|it| it.name).collect();
            assert!(names.contains(&peer), "{aim}");
            if let Ratio(_, other) | Difference(_, other) = value {
                assert!(names.contains(&other), "{aim}");
            }
        }
    }

    #[test]
    fn what_is_missed_is_said_with_its_size() {
        let checked = check(&results(W4b, |name| Measured {
            sections_per_s: Some(if name == DLOCK { 15_000.0 } else { 1000.0 }),
            fairness: Some(0.95),
            worst_wait_ms: Some(75.0),
            ..Measured::default()
        }));
        let [rate, fairness, worst] = &checked[..] else {
            panic!("commands were not measured: {checked:?}");
        };
        assert!(!rate.reached && (rate.factor - 20.0 / 15.0).abs() < 1e-9);
        assert!(fairness.reached && fairness.factor < 1.0);
        assert!(!worst.reached && (worst.factor - 1.5).abs() < 1e-9);
        let table = table(&checked);
        assert!(table.contains("missed by 33 %"), "{table}");
        assert!(table.contains("missed by 50 %   75.0   <= 50.0"), "{table}");
    }

    #[test]
    fn what_was_not_measured_is_left_out() {
        assert_eq!(check(&Results::default()), []);
    }
}
