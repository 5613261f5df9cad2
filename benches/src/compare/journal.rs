//! The logs of several processes, put together by the clock they share.

use std::fs;
use std::path::Path;

use crate::Failure;
use crate::outcome::{overlaps, percentile};

/// A section of some process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    acquired: u64,
    releasing: u64,
    process: usize,
    waited_from: u64,
}

/// All sections on one key, in the order in which the lock was got.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Journal(Vec<Entry>);

impl Journal {
    /// Reads the log of each process.
    pub(super) fn read(paths: &[impl AsRef<Path>]) -> Result<Self, Failure> {
        let mut texts = Vec::new();
        for path in paths {
            let path = path.as_ref();
            let text = fs::read_to_string(path);
            texts.push(text.map_err(|error| format!("{}: {error}", path.display()))?);
        }
        Self::merge(&texts)
    }

    fn merge(texts: &[String]) -> Result<Self, Failure> {
        let mut entries = Vec::new();
        for (process, text) in texts.iter().enumerate() {
            for line in text.lines() {
                entries.push(
                    entry(process, line).ok_or_else(|| format!("`{line}` is no line of a log"))?,
                );
            }
        }
        entries.sort_unstable();
        Ok(Self(entries))
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn overlaps(&self) -> usize {
        let spans: Vec<_> = self
            .0
            .iter()
            .map(|it| (it.acquired, it.releasing))
            .collect();
        overlaps(&spans)
    }

    /// The median time from the beginning of a release until another process, which waited
    /// already, has the lock.
    pub(super) fn hand_off(&self) -> Option<u64> {
        let pairs = self.0.iter().zip(self.0.iter().skip(1));
        let mut times: Vec<_> = pairs
            .filter(|(one, next)| next.process != one.process && next.waited_from < one.releasing)
            .map(|(one, next)| next.acquired.saturating_sub(one.releasing))
            .collect();
        times.sort_unstable();
        (!times.is_empty()).then(|| percentile(&times, 500))
    }

    /// The time at which the last holder released the lock.
    pub(super) fn end(&self) -> Option<u64> {
        self.0.iter().map(|it| it.releasing).max()
    }
}

fn entry(process: usize, line: &str) -> Option<Entry> {
    let mut numbers = line.split(' ').map(str::parse);
    let mut next = || numbers.next()?.ok();
    let (acquired, releasing, _task, waited_from) = (next()?, next()?, next()?, next()?);
    Some(Entry {
        acquired,
        releasing,
        process,
        waited_from,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(logs: &[&str]) -> Journal {
        let texts: Vec<_> = logs.iter().map(|&log| log.replace("; ", "\n")).collect();
        Journal::merge(&texts).unwrap()
    }

    #[test]
    fn a_hand_off_is_to_another_process_that_waited() {
        // 0 → 1 takes 50; 1 → 1 is none; 1 → 0 is none either, as 0 had not been waiting.
        let journal = merged(&["10 100 0 5; 900 950 0 800", "150 200 0 20; 210 300 1 30"]);
        assert_eq!(journal.len(), 4);
        assert_eq!(journal.hand_off(), Some(50));
        assert_eq!(journal.overlaps(), 0);
        assert_eq!(journal.end(), Some(950));
    }

    #[test]
    fn two_processes_at_once_are_found() {
        assert_eq!(merged(&["10 100 0 5", "99 120 0 20"]).overlaps(), 1);
    }

    #[test]
    fn nothing_is_made_of_nothing() {
        let journal = merged(&["", ""]);
        assert_eq!(
            (journal.len(), journal.hand_off(), journal.end()),
            (0, None, None)
        );
    }

    #[test]
    fn what_is_no_log_is_refused() {
        let reason = Journal::merge(&["1 2 3".to_owned()])
            .unwrap_err()
            .to_string();
        assert_eq!(reason, "`1 2 3` is no line of a log");
    }
}
