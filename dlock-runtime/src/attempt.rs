//! The numbers by which this process tells its attempts apart; no store sees them.

use std::sync::atomic::{AtomicU64, Ordering};

/// One attempt of one task at one key. Of two attempts, the later one has the greater number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct AttemptId(u64);

/// Numbers the attempts of one manager.
#[derive(Debug, Default)]
pub(crate) struct AttemptIds(AtomicU64);

impl AttemptIds {
    pub(crate) fn next(&self) -> AttemptId {
        AttemptId(self.0.fetch_add(1, Ordering::Relaxed))
    }
}

#[cfg(test)]
impl AttemptId {
    /// The attempt with this number, for tests that number attempts by themselves.
    pub(crate) fn numbered(number: u64) -> Self {
        Self(number)
    }
}
