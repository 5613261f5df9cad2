//! The numbers by which this process distinguishes its attempts. Stores do not see them.

use std::sync::atomic::{AtomicU64, Ordering};

/// The id of one task's attempt to acquire one key. Later attempts have greater numbers.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(test), derive(PartialEq, Eq, PartialOrd, Ord))]
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

/// The number of comparisons shows how many attempts an event has looked at.
#[cfg(test)]
pub(crate) mod compared {
    use std::{cell::Cell, cmp::Ordering};

    use super::AttemptId;

    thread_local! {
        static COUNT: Cell<usize> = const { Cell::new(0) };
    }

    /// Returns how many ids of this thread `act` compares.
    pub(crate) fn during(act: impl FnOnce()) -> usize {
        let before = COUNT.get();
        act();
        COUNT.get() - before
    }

    impl Ord for AttemptId {
        fn cmp(&self, other: &Self) -> Ordering {
            COUNT.set(COUNT.get() + 1);
            self.0.cmp(&other.0)
        }
    }

    impl PartialOrd for AttemptId {
        fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
            Some(self.cmp(other))
        }
    }

    impl PartialEq for AttemptId {
        fn eq(&self, other: &Self) -> bool {
            self.cmp(other).is_eq()
        }
    }

    impl Eq for AttemptId {}
}
