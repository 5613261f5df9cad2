//! The results of all runs: medians, and how they compare.

use serde::Serialize;

use super::workload::{Contender, RAW, RSLOCK, Workload};
use crate::table::{self, number};

/// One run, or the median of several.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Measured {
    pub(super) sections_per_s: Option<f64>,
    /// Of a whole section, or of a hand-off between processes, by workload.
    pub(super) p50_us: Option<f64>,
    /// Sections of the task that had the fewest, by those of the one that had the most.
    pub(super) fairness: Option<f64>,
    /// In W5, until all waiters were through.
    pub(super) worst_wait_ms: Option<f64>,
    /// For each section; in W5 for each second and process.
    pub(super) commands: Option<f64>,
    pub(super) overlaps: usize,
    pub(super) failed: u64,
}

/// Runs of one contender in one workload.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Entry {
    pub(super) workload: Workload,
    pub(super) peer: &'static str,
    pub(super) runs: Vec<Measured>,
    pub(super) median: Measured,
}

#[derive(Debug, Default, Serialize)]
#[serde(transparent)]
pub(super) struct Results(Vec<Entry>);

impl Results {
    pub(super) fn add(&mut self, workload: Workload, contender: &Contender, measured: Measured) {
        let same = |it: &Entry| it.workload == workload && it.peer == contender.name;
        let index = self.0.iter().position(same).unwrap_or_else(|| {
            self.0.push(Entry {
                workload,
                peer: contender.name,
                runs: Vec::new(),
                median: Measured::default(),
            });
            self.0.len() - 1
        });
        let entry = &mut self.0[index];
        entry.runs.push(measured);
        entry.median = median(&entry.runs);
    }

    pub(super) fn of(&self, workload: Workload, peer: &str) -> Option<&Measured> {
        let same = |it: &&Entry| it.workload == workload && it.peer == peer;
        self.0.iter().find(same).map(|it| &it.median)
    }

    /// Where two had a lock at once.
    pub(super) fn violations(&self) -> Vec<String> {
        let broken = self.0.iter().filter(|it| it.median.overlaps > 0);
        broken
            .map(|it| {
                let (peer, workload, times) = (it.peer, it.workload.name(), it.median.overlaps);
                format!("{peer} in {workload}: {times}")
            })
            .collect()
    }

    pub(super) fn table(&self) -> String {
        let header = [
            "",
            "",
            "sections/s",
            "p50 µs",
            "rate/raw",
            "p50/limit",
            "rate/rslock",
            "min/max",
            "worst ms",
            "commands",
        ];
        let mut rows = vec![header.map(str::to_owned).to_vec()];
        for entry in &self.0 {
            let (workload, one) = (entry.workload, &entry.median);
            let to = |peer: Option<&str>, quantity: fn(&Measured) -> Option<f64>| {
                let other = self.of(workload, peer.filter(|&name| name != entry.peer)?)?;
                Some(quantity(one)? / quantity(other)?)
            };
            let shown = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), number);
            rows.push(vec![
                workload.name(),
                entry.peer.to_owned(),
                shown(one.sections_per_s),
                shown(one.p50_us),
                shown(to(Some(RAW), |it| it.sections_per_s)),
                shown(to(workload.limit(), |it| it.p50_us)),
                shown(to(Some(RSLOCK), |it| it.sections_per_s)),
                shown(one.fairness),
                shown(one.worst_wait_ms),
                shown(one.commands),
            ]);
        }
        table::shown(2, &rows)
    }
}

/// The median of each number; what must not happen is added up.
fn median(runs: &[Measured]) -> Measured {
    let middle = |quantity: fn(&Measured) -> Option<f64>| {
        let mut values: Vec<_> = runs.iter().filter_map(quantity).collect();
        values.sort_unstable_by(f64::total_cmp);
        values.get(values.len() / 2).copied()
    };
    Measured {
        sections_per_s: middle(|it| it.sections_per_s),
        p50_us: middle(|it| it.p50_us),
        fairness: middle(|it| it.fairness),
        worst_wait_ms: middle(|it| it.worst_wait_ms),
        commands: middle(|it| it.commands),
        overlaps: runs.iter().map(|it| it.overlaps).sum(),
        failed: runs.iter().map(|it| it.failed).sum(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(rate: f64, p50: f64) -> Measured {
        Measured {
            sections_per_s: Some(rate),
            p50_us: Some(p50),
            ..Measured::default()
        }
    }

    #[test]
    fn the_median_is_taken_of_each_number() {
        let mut runs = [measured(1.0, 9.0), measured(3.0, 7.0), measured(2.0, 8.0)];
        runs[1].overlaps = 2;
        runs[2].overlaps = 1;
        let median = median(&runs);
        assert_eq!(
            (median.sections_per_s, median.p50_us),
            (Some(2.0), Some(8.0))
        );
        assert_eq!((median.commands, median.overlaps), (None, 3));
    }

    #[test]
    fn two_at_once_are_told_of_any_run() {
        let mut results = Results::default();
        let contender = &Workload::W3.contenders()[0];
        for overlaps in [0, 3, 0] {
            let run = Measured {
                overlaps,
                ..Measured::default()
            };
            results.add(Workload::W3, contender, run);
        }
        assert_eq!(results.violations(), ["rslock in W3: 3"]);
    }

    #[test]
    fn the_table_compares_within_a_workload() {
        let mut results = Results::default();
        let [raw, _, rslock, _] = Workload::W1.contenders() else {
            panic!("four take part in W1");
        };
        results.add(Workload::W1, raw, measured(200.0, 10.0));
        results.add(Workload::W1, rslock, measured(150.0, 12.5));
        let table = results.table();
        let line = table.lines().nth(2).unwrap();
        let cells: Vec<_> = line.split_whitespace().collect();
        assert_eq!(
            cells[..6],
            ["W1", "rslock", "150", "12.5", "0.750", "1.25"],
            "{table}"
        );
        assert_eq!(cells[6], "–", "nobody is compared with itself");
        assert!(results.violations().is_empty());
    }
}
