//! The result of one run: the line that is printed, and its parts.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::Failure;
use crate::clock::micros;

/// One section of one task, by the clock that all processes share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Section {
    pub(crate) waited_from: u64,
    pub(crate) acquired: u64,
    pub(crate) releasing: u64,
    pub(crate) released: u64,
}

/// The sections of one task.
#[derive(Clone, Debug, Default)]
pub(crate) struct Record {
    pub(crate) sections: Vec<Section>,
    /// Since when it waits for the lock, unless it holds it or rests.
    pub(crate) waiting_since: Option<u64>,
    pub(crate) failed: u64,
    pub(crate) last_failure: Option<String>,
}

/// The line about a run. Times are in µs unless a name says otherwise.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Outcome {
    pub(crate) peer: String,
    pub(crate) tasks: usize,
    pub(crate) distinct: bool,
    pub(crate) handover: String,
    pub(crate) hold_us: u64,
    pub(crate) cycles: usize,
    pub(crate) elapsed_s: f64,
    /// Sections a second.
    pub(crate) cps: f64,
    pub(crate) wait_p50_us: f64,
    pub(crate) wait_p99_us: f64,
    /// Waits that were under way when the time was up count.
    pub(crate) wait_max_us: f64,
    pub(crate) cycle_p50_us: f64,
    pub(crate) cycle_p99_us: f64,
    pub(crate) task_min: usize,
    pub(crate) task_max: usize,
    pub(crate) failed: u64,
    pub(crate) overlaps: usize,
    pub(crate) drained: bool,
    pub(crate) held_s: f64,
    pub(crate) cpu_user_s: f64,
    pub(crate) cpu_sys_s: f64,
    /// The last of the failures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) failure: Option<String>,
}

impl Outcome {
    /// Fills in what follows from what the tasks have done until `end`.
    pub(crate) fn count(&mut self, records: &[Record], end: u64) {
        let sections = || records.iter().flat_map(|it| &it.sections);
        let mut waits: Vec<_> = sections().map(|it| it.acquired - it.waited_from).collect();
        let mut cycles: Vec<_> = sections().map(|it| it.released - it.waited_from).collect();
        waits.sort_unstable();
        cycles.sort_unstable();
        let under_way = records.iter().filter_map(|it| it.waiting_since);
        let longest = under_way
            .map(|since| end.saturating_sub(since))
            .chain(waits.last().copied())
            .max();
        let each = || records.iter().map(|it| it.sections.len());

        self.cycles = cycles.len();
        self.cps = count(cycles.len()) / self.elapsed_s;
        self.wait_p50_us = micros(percentile(&waits, 500));
        self.wait_p99_us = micros(percentile(&waits, 990));
        self.wait_max_us = micros(longest.unwrap_or(0));
        self.cycle_p50_us = micros(percentile(&cycles, 500));
        self.cycle_p99_us = micros(percentile(&cycles, 990));
        self.task_min = each().min().unwrap_or(0);
        self.task_max = each().max().unwrap_or(0);
        self.failed = records.iter().map(|it| it.failed).sum();
        self.failure = records.iter().find_map(|it| it.last_failure.clone());
        let held: u64 = sections().map(|it| it.releasing - it.acquired).sum();
        self.held_s = micros(held) / 1e6;
        if !self.distinct {
            let mut spans: Vec<_> = sections().map(|it| (it.acquired, it.releasing)).collect();
            spans.sort_unstable();
            self.overlaps = overlaps(&spans);
        }
    }

    pub(crate) fn print(&self) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        writeln!(out, "{}", serde_json::to_string(self)?)?;
        Ok(out.flush()?)
    }
}

/// Writes a line about every section, in the order in which the lock was got.
pub(crate) fn log(path: &Path, records: &[Record]) -> io::Result<()> {
    let mut lines: Vec<_> = records
        .iter()
        .enumerate()
        .flat_map(|(task, record)| {
            record
                .sections
                .iter()
                .map(move |it| (it.acquired, task, it))
        })
        .collect();
    lines.sort_unstable_by_key(|&(acquired, task, _)| (acquired, task));
    let mut file = BufWriter::new(File::create(path)?);
    for (acquired, task, section) in lines {
        let (releasing, waited_from) = (section.releasing, section.waited_from);
        writeln!(file, "{acquired} {releasing} {task} {waited_from}")?;
    }
    file.flush()
}

/// How often one got the lock before the one before had begun to give it back; sorted by the
/// former.
pub(crate) fn overlaps(spans: &[(u64, u64)]) -> usize {
    let mut last = 0;
    let mut found = 0;
    for &(acquired, releasing) in spans {
        found += usize::from(acquired < last);
        last = last.max(releasing);
    }
    found
}

/// The value below which so many of a thousand lie; zero if there is none.
pub(crate) fn percentile(sorted: &[u64], per_mille: usize) -> u64 {
    let index = sorted.len().saturating_sub(1) * per_mille / 1000;
    sorted.get(index).copied().unwrap_or(0)
}

/// A count, to be divided.
pub(crate) fn count(number: usize) -> f64 {
    f64::from(u32::try_from(number).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(waited_from: u64, acquired: u64, releasing: u64, released: u64) -> Section {
        Section {
            waited_from,
            acquired,
            releasing,
            released,
        }
    }

    #[test]
    fn percentiles_are_values_that_occurred() {
        let sorted: Vec<u64> = (1..=100).collect();
        assert_eq!(percentile(&sorted, 500), 50);
        assert_eq!(percentile(&sorted, 990), 99);
        assert_eq!(percentile(&sorted, 1000), 100);
        assert_eq!(percentile(&[7], 500), 7);
        assert_eq!(percentile(&[], 500), 0);
    }

    #[test]
    fn two_at_once_are_found_also_behind_a_short_one() {
        assert_eq!(overlaps(&[(0, 5), (5, 9), (10, 11)]), 0);
        assert_eq!(overlaps(&[(0, 5), (4, 9)]), 1);
        assert_eq!(overlaps(&[(0, 100), (1, 2), (50, 60)]), 2);
    }

    #[test]
    fn a_wait_that_has_not_ended_counts_up_to_the_end() {
        let first = Record {
            sections: vec![
                section(0, 1000, 2000, 3000),
                section(3000, 5000, 6000, 7000),
            ],
            ..Record::default()
        };
        let second = Record {
            waiting_since: Some(1000),
            failed: 2,
            last_failure: Some("no".into()),
            ..Record::default()
        };
        let mut outcome = Outcome {
            elapsed_s: 2.0,
            ..Outcome::default()
        };
        outcome.count(&[first, second], 91_000);
        assert_eq!((outcome.task_min, outcome.task_max), (0, 2));
        assert!((outcome.wait_max_us - 90.0).abs() < 1e-6, "{outcome:?}");
        assert!((outcome.cps - 1.0).abs() < 1e-6);
        assert!((outcome.held_s - 2e-6).abs() < 1e-9);
        assert_eq!((outcome.failed, outcome.overlaps), (2, 0));
        assert_eq!(outcome.failure.as_deref(), Some("no"));
    }

    #[test]
    fn a_line_reads_back() {
        let outcome = Outcome {
            peer: "rslock@10ms".into(),
            cps: 1.5,
            ..Outcome::default()
        };
        let line = serde_json::to_string(&outcome).unwrap();
        assert!(
            line.starts_with(r#"{"peer":"rslock@10ms","tasks":0"#),
            "{line}"
        );
        assert_eq!(serde_json::from_str::<Outcome>(&line).unwrap(), outcome);
    }
}
