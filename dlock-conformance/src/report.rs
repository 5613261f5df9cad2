//! The report of a run: which cases were kept, and for each that was not, the rule and what was seen.

use std::fmt;

use crate::Level;

/// A rule of the contract that a store has broken.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failure {
    /// The case that failed.
    pub case: &'static str,
    /// The level that the case belongs to.
    pub level: Level,
    /// The rule of the contract.
    pub rule: &'static str,
    /// The answer that keeps the rule.
    pub expected: String,
    /// The answer that came.
    pub seen: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} ({})", self.case, self.level)?;
        writeln!(f, "  rule:     {}", self.rule)?;
        writeln!(f, "  expected: {}", self.expected)?;
        write!(f, "  seen:     {}", self.seen)
    }
}

/// The outcome of a [suite](crate::Suite).
#[derive(Clone, Debug, Default)]
#[must_use = "a report that is not looked at finds nothing: call `assert`"]
#[non_exhaustive]
pub struct Report {
    /// The cases that were kept.
    pub kept: Vec<&'static str>,
    /// The cases that were not.
    pub failures: Vec<Failure>,
    /// The number of repeats: a case is repeated, with another key, when the machine was too slow for its
    /// brief leases.
    pub repeats: usize,
}

impl Report {
    /// Whether the store keeps the contract, as far as it was tried.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.failures.is_empty() && !self.kept.is_empty()
    }

    /// Panics with all that the store has broken.
    ///
    /// # Panics
    ///
    /// If a case failed, or none was run.
    #[track_caller]
    pub fn assert(&self) {
        assert!(self.is_kept(), "{self}");
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kept, broken) = (self.kept.len(), self.failures.len());
        write!(f, "{kept} cases kept, {broken} failed")?;
        for failure in &self.failures {
            write!(f, "\n\n{failure}")?;
        }
        Ok(())
    }
}
