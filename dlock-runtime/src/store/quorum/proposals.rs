//! The fence to propose to all nodes: a combination of this machine's clock and of all observed fences.

use std::sync::atomic::{AtomicU64, Ordering};

/// No store counts beyond this value. A greater one must be wrong: no later fence could exceed it.
const FAR: u64 = 1 << 50;

/// Proposes growing fences, independent of the clock.
#[derive(Default)]
pub(super) struct Proposals(AtomicU64);

impl Proposals {
    /// Returns a fence greater than every earlier proposal and every observed fence, and not below `now`, the
    /// value of the clock.
    pub(super) fn next(&self, now: u64) -> u64 {
        let next = |last: u64| now.max(last + 1);
        let update = |last| Some(next(last));
        let last = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, update);
        next(last.expect("there is always a next one"))
    }

    /// Records that a node has counted up to `fence`.
    pub(super) fn saw(&self, fence: u64) {
        if fence < FAR {
            self.0.fetch_max(fence, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fence::fence_by_the_clock;

    #[test]
    fn proposals_exceed_each_other_the_clock_and_what_was_seen() {
        let proposals = Proposals::default();
        let before = fence_by_the_clock();
        let first = proposals.next(before);
        assert!(first >= before);
        assert!(proposals.next(before) > first);
        let ahead = before + 1_000_000_000;
        proposals.saw(ahead);
        proposals.saw(7);
        assert_eq!(proposals.next(before), ahead + 1);
        proposals.saw(u64::MAX);
        proposals.saw(FAR);
        assert_eq!(proposals.next(before), ahead + 2);
        assert_eq!(proposals.next(ahead + 7), ahead + 7);
        proposals.saw(FAR - 1);
        assert_eq!(proposals.next(before), FAR);
    }
}
