//! The report of a run: the passed cases, and for each failed case the rule and the observed answer.

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
    /// The answer that the rule requires.
    pub expected: String,
    /// The observed answer.
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
#[must_use = "an unread report hides failures: call `assert`"]
#[non_exhaustive]
pub struct Report {
    /// The cases that passed.
    pub kept: Vec<&'static str>,
    /// The cases that failed.
    pub failures: Vec<Failure>,
    /// The number of repeats. A case is repeated with another key when the machine was too slow for its short
    /// leases.
    pub repeats: usize,
}

impl Report {
    /// Returns `true` if all cases that ran have passed, and at least one ran.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.failures.is_empty() && !self.kept.is_empty()
    }

    /// Asserts that the store keeps the contract.
    ///
    /// # Panics
    ///
    /// If a case failed, or none was run. The message lists all failures.
    #[track_caller]
    pub fn assert(&self) {
        assert!(self.is_kept(), "{self}");
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kept, broken) = (self.kept.len(), self.failures.len());
        write!(f, "{kept} cases passed, {broken} failed")?;
        for failure in &self.failures {
            write!(f, "\n\n{failure}")?;
        }
        Ok(())
    }
}
