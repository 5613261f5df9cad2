//! What was broken, and what came of it.

use std::{collections::BTreeMap, fmt, time::Duration};

use serde::Serialize;

use crate::fault::{Fault, Kind, Topology};

#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) topology: Topology,
    pub(crate) seconds: u64,
    pub(crate) sections: usize,
    pub(crate) writes: usize,
    /// Writes that the resources refused.
    pub(crate) refused: usize,
    /// Where they must not be.
    pub(crate) overlaps: usize,
    /// While a store had forgotten.
    pub(crate) excused: usize,
    pub(crate) violations: usize,
    /// Processes.
    pub(crate) killed: u32,
    pub(crate) stopped: u32,
    /// Calls that came to nothing, by how.
    pub(crate) failed: BTreeMap<String, u64>,
    pub(crate) faults: BTreeMap<Kind, Tally>,
    /// What must not have happened, as text.
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
            writes: 0,
            refused: 0,
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

    pub(crate) fn count(&mut self, fault: &Fault, without: Duration) {
        let tally = self.faults.entry(fault.kind).or_default();
        tally.count += 1;
        tally.forgetful += u32::from(fault.forgets);
        tally.longest_without = tally.longest_without.max(without);
    }

    /// Adds another round.
    pub(crate) fn add(&mut self, other: Self) {
        self.seconds += other.seconds;
        self.sections += other.sections;
        self.writes += other.writes;
        self.refused += other.refused;
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
            "\n{}: {} s, {} faults, {} sections, {} writes",
            self.topology, self.seconds, faults, self.sections, self.writes
        )?;
        writeln!(
            f,
            "  overlaps {}, while a store had forgotten {}; stale writes refused {}; violations {}",
            self.overlaps, self.excused, self.refused, self.violations
        )?;
        let failed = self
            .failed
            .iter()
            .map(|(how, count)| format!("{how} {count}"));
        writeln!(
            f,
            "  processes killed {}, stopped {}; calls that came to nothing: {}",
            self.killed,
            self.stopped,
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
        let fault = |forgets| Fault {
            kind: Kind::DataFlushed,
            began: Duration::ZERO,
            over: Duration::ZERO,
            forgets,
        };
        let mut first = Report::new(Topology::Single);
        first.sections = 3;
        first.count(&fault(true), Duration::from_secs(2));
        let mut second = Report::broken(Topology::Single, "it broke".to_owned());
        second.sections = 4;
        second.count(&fault(false), Duration::from_secs(3));
        second.failed.insert("lost".to_owned(), 2);
        first.add(second);
        let tally = &first.faults[&Kind::DataFlushed];
        assert_eq!((first.sections, tally.count, tally.forgetful), (7, 2, 1));
        assert_eq!(tally.longest_without, Duration::from_secs(3));
        let text = first.to_string();
        assert!(
            text.contains("lost 2") && text.contains("WRONG: it broke"),
            "{text}"
        );
    }
}
