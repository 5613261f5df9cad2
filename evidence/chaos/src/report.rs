//! The faults of a round, and their effects.

use std::{collections::BTreeMap, fmt, time::Duration};

use serde::Serialize;

use crate::fault::{Fault, Kind, Topology};

#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) topology: Topology,
    pub(crate) seconds: u64,
    pub(crate) sections: usize,
    /// Of these, those that may be there together with others.
    pub(crate) shared: usize,
    /// Of these, those that must not overlap.
    pub(crate) exclusive: usize,
    /// Bodies that began without a lease, as their process had been stopped just before.
    pub(crate) held_up: usize,
    /// The same, as the machine had given their process no processor.
    pub(crate) starved: usize,
    pub(crate) writes: usize,
    /// Writes that the resources refused.
    pub(crate) refused: usize,
    /// Transactions in the database that keeps the locks, as their callers know.
    pub(crate) posted: usize,
    /// Where they must not be.
    pub(crate) overlaps: usize,
    /// While a store had forgotten.
    pub(crate) excused: usize,
    pub(crate) violations: usize,
    /// Processes.
    pub(crate) killed: usize,
    pub(crate) stopped: usize,
    /// Calls that came to nothing, by how.
    pub(crate) failed: BTreeMap<String, u64>,
    pub(crate) faults: BTreeMap<Kind, Tally>,
    /// Broken promises, as text.
    pub(crate) wrong: Vec<String>,
}

/// The faults of one kind.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Tally {
    pub(crate) count: u32,
    /// Of these, after how many a lease may have been forgotten.
    pub(crate) forgetful: u32,
    pub(crate) longest_without: Duration,
}

impl Report {
    pub(crate) fn new(topology: Topology) -> Self {
        Self {
            topology,
            seconds: 0,
            sections: 0,
            shared: 0,
            exclusive: 0,
            held_up: 0,
            starved: 0,
            writes: 0,
            refused: 0,
            posted: 0,
            overlaps: 0,
            excused: 0,
            violations: 0,
            killed: 0,
            stopped: 0,
            failed: BTreeMap::new(),
            faults: BTreeMap::new(),
            wrong: Vec::new(),
        }
    }

    /// A round that could not be ended.
    pub(crate) fn broken(topology: Topology, why: String) -> Self {
        Self {
            wrong: vec![why],
            ..Self::new(topology)
        }
    }

    /// Counts a fault, if anything has felt it.
    pub(crate) fn count(&mut self, fault: &Fault, without: Duration) {
        if !fault.was_felt {
            return;
        }
        let tally = self.faults.entry(fault.kind).or_default();
        tally.count += 1;
        tally.forgetful += u32::from(fault.forgets);
        tally.longest_without = tally.longest_without.max(without);
    }

    /// The part of the sections that must not overlap, in percent.
    fn share(&self) -> f64 {
        let parts = [self.exclusive, self.sections].map(|it| u32::try_from(it).unwrap_or(u32::MAX));
        100.0 * f64::from(parts[0]) / f64::from(parts[1].max(1))
    }

    /// Adds another round.
    pub(crate) fn add(&mut self, other: Self) {
        self.seconds += other.seconds;
        self.sections += other.sections;
        self.shared += other.shared;
        self.exclusive += other.exclusive;
        self.held_up += other.held_up;
        self.starved += other.starved;
        self.writes += other.writes;
        self.refused += other.refused;
        self.posted += other.posted;
        self.overlaps += other.overlaps;
        self.excused += other.excused;
        self.violations += other.violations;
        self.killed += other.killed;
        self.stopped += other.stopped;
        for (how, count) in other.failed {
            *self.failed.entry(how).or_default() += count;
        }
        for (kind, more) in other.faults {
            let tally = self.faults.entry(kind).or_default();
            tally.count += more.count;
            tally.forgetful += more.forgetful;
            tally.longest_without = tally.longest_without.max(more.longest_without);
        }
        self.wrong.extend(other.wrong);
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let faults: u32 = self.faults.values().map(|it| it.count).sum();
        writeln!(
            f,
            "\n{}: {} s, {} faults, {} sections, {} of them shared, {:.1} % of all judged for exclusion, {} writes",
            self.topology,
            self.seconds,
            faults,
            self.sections,
            self.shared,
            self.share(),
            self.writes
        )?;
        writeln!(
            f,
            "  overlaps {}, while a store had forgotten {}; stale writes refused {}; violations {}",
            self.overlaps, self.excused, self.refused, self.violations
        )?;
        if self.topology.has_books() {
            writeln!(f, "  transactions that rely on a lock {}", self.posted)?;
        }
        let failed = self
            .failed
            .iter()
            .map(|(how, count)| format!("{how} {count}"));
        writeln!(
            f,
            "  processes killed {}, stopped {}; bodies held up until their lease had ended {}, and {} for \
             want of a processor; calls that came to nothing: {}",
            self.killed,
            self.stopped,
            self.held_up,
            self.starved,
            failed.collect::<Vec<_>>().join(", ")
        )?;
        writeln!(
            f,
            "  {:<36}{:>6}{:>17}",
            "fault", "times", "longest without"
        )?;
        for (kind, tally) in &self.faults {
            let mark = if tally.forgetful > 0 { " *" } else { "" };
            writeln!(
                f,
                "  {:<36}{:>6}{:>15.2} s{mark}",
                kind.to_string(),
                tally.count,
                tally.longest_without.as_secs_f64()
            )?;
        }
        for wrong in &self.wrong {
            writeln!(f, "WRONG: {wrong}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_add_up() {
        let fault = |was_felt, forgets| Fault {
            kind: Kind::DataFlushed,
            began: Duration::ZERO,
            over: Duration::ZERO,
            was_felt,
            forgets,
        };
        let mut first = Report::new(Topology::Single);
        (first.sections, first.exclusive) = (3, 3);
        first.count(&fault(true, true), Duration::from_secs(2));
        let mut second = Report::broken(Topology::Single, "it broke".to_owned());
        (second.sections, second.exclusive) = (5, 3);
        second.count(&fault(true, false), Duration::from_secs(3));
        second.count(&fault(false, true), Duration::from_secs(9));
        second.failed.insert("lost".to_owned(), 2);
        first.add(second);
        let tally = &first.faults[&Kind::DataFlushed];
        assert_eq!((first.sections, tally.count, tally.forgetful), (8, 2, 1));
        assert_eq!(tally.longest_without, Duration::from_secs(3));
        let text = first.to_string();
        assert!(
            text.contains("lost 2") && text.contains("WRONG: it broke"),
            "{text}"
        );
        assert!(text.contains(" 75.0 % of all judged"), "{text}");
    }
}
