//! The numbers by which this process distinguishes its attempts. Stores do not see them.

use std::sync::atomic::{AtomicU64, Ordering};

/// The id of one task's attempt to acquire one key. Later attempts have greater numbers.
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
    /// Creates the id with this number, for tests that number attempts themselves.
    pub(crate) fn numbered(number: u64) -> Self {
        Self(number)
    }
}
