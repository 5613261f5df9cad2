//! The measured figures, and whether they reach the aims.

use std::fmt;

use serde::Serialize;

use super::rounds::{Quartiles, Rounds};
use crate::Failure;
use crate::table::{self, number};

#[derive(Debug, Default, Serialize)]
pub(crate) struct Report {
    times: Vec<Time>,
    aims: Vec<Aim>,
    /// The faults that may never happen, however slow the machine is.
    broken: Vec<String>,
}

/// The time of one way, in µs.
#[derive(Debug, Serialize)]
struct Time {
    what: String,
    us: Quartiles,
}

#[derive(Debug, Serialize)]
struct Aim {
    what: String,
    measured: Quartiles,
    /// The greatest value that reaches the aim; without one, the number is for information.
    most: Option<f64>,
    reached: Option<bool>,
}

impl Report {
    pub(crate) fn time(&mut self, what: impl Into<String>, rounds: &Rounds) {
        let (what, us) = (what.into(), rounds.quartiles());
        self.times.push(Time { what, us });
    }

    pub(crate) fn ratio(
        &mut self,
        what: impl Into<String>,
        measured: Quartiles,
        most: Option<f64>,
    ) {
        self.aims.push(Aim {
            what: what.into(),
            measured,
            most,
            reached: most.map(|most| measured.median <= most),
        });
    }

    /// A number that must be exactly this, or the program fails.
    pub(crate) fn exactly(&mut self, what: &str, measured: f64, expected: f64) {
        self.ratio(what, Quartiles::of(vec![measured]), Some(expected));
        if (measured - expected).abs() > f64::EPSILON {
            let (measured, expected) = (number(measured), number(expected));
            self.broken
                .push(format!("{what}: {measured} in place of {expected}"));
        }
    }

    pub(crate) fn kept(&self) -> Result<(), Failure> {
        if self.broken.is_empty() {
            return Ok(());
        }
        Err(self.broken.join("; ").into())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let times = self.times.iter().map(|it| {
            let mut row = vec![it.what.clone()];
            row.extend(shown(it.us));
            row
        });
        let head = ["µs", "median", "quarter", "three quarters"].map(str::to_owned);
        let rows: Vec<_> = [head.to_vec()].into_iter().chain(times).collect();
        writeln!(f, "{}", table::shown(1, &rows))?;

        let aims = self.aims.iter().map(|it| {
            let verdict = match it.reached {
                Some(true) => "reached",
                Some(false) => "MISSED",
                None => "no aim",
            };
            let mut row = vec![it.what.clone(), verdict.to_owned()];
            row.extend(shown(it.measured));
            row.extend(it.most.map(|most| format!("<= {}", number(most))));
            row
        });
        let head = [
            "ratio of a round",
            "",
            "median",
            "quarter",
            "three quarters",
            "aim",
        ];
        let head = head.map(str::to_owned).to_vec();
        let rows: Vec<_> = [head].into_iter().chain(aims).collect();
        f.write_str(&table::shown(2, &rows))
    }
}

fn shown(it: Quartiles) -> [String; 3] {
    [it.median, it.low, it.high].map(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_aim_is_about_the_median_and_a_loss_is_an_error() {
        let mut report = Report::default();
        let measured = Quartiles::of(vec![1.0, 1.2, 1.4]);
        report.ratio("near", measured, Some(1.2));
        report.ratio("far", measured, Some(1.1));
        report.ratio("told", measured, None);
        report.exactly("connections", 2.0, 2.0);
        report.kept().unwrap();
        report.exactly("lost", 1.0, 0.0);
        assert!(report.kept().unwrap_err().to_string().contains("lost: 1"));
        let text = report.to_string();
        let verdict = |name| text.lines().find(|line| line.starts_with(name)).unwrap();
        assert!(verdict("near").contains("reached"), "{text}");
        assert!(verdict("far").contains("MISSED"), "{text}");
        assert!(verdict("told").contains("no aim"), "{text}");
    }
}
