//! Notices bodies that are not polled, although they could go on.
//!
//! A lease is renewed whether its body gets anywhere or not. One that blocks its thread, whose runtime is stuck, or
//! whose future is not polled any more keeps its lock for as long as that lasts: the log and a metric say so.
//!
//! A body that only waits is not polled either. So one that has been quiet for half of its TTL is woken, which shows
//! that it can be.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Duration,
};

use crate::clock::Moment;

/// When the body of a section was polled.
#[derive(Default)]
pub(crate) struct Polls {
    /// The begin of the last poll, in ms of the boot clock and one more; 0 if there is no body.
    last: AtomicU64,
    is_told: AtomicBool,
}

/// The state of a body.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Liveness {
    /// It was polled not long ago, or there is none.
    Good,
    /// It has not been polled for a while: it is to be woken.
    Quiet,
    /// Nor has it been after that, for so long; said once.
    Stalled(Duration),
}

impl Polls {
    /// A poll of the body begins.
    pub(crate) fn begin(&self, now: Moment) {
        self.last.store(milliseconds(now) + 1, Ordering::Relaxed);
    }

    /// There is no body any more.
    pub(crate) fn end(&self) {
        self.last.store(0, Ordering::Relaxed);
    }

    /// The state of the body of a lease with this TTL; called at least three times in a TTL.
    pub(crate) fn look(&self, now: Moment, ttl: Duration) -> Liveness {
        let last = self.last.load(Ordering::Relaxed);
        let since = (milliseconds(now) + 1).saturating_sub(last);
        let since = Duration::from_millis(since);
        if last == 0 || since < ttl / 2 {
            self.is_told.store(false, Ordering::Relaxed);
            Liveness::Good
        } else if since > ttl && !self.is_told.swap(true, Ordering::Relaxed) {
            Liveness::Stalled(since)
        } else {
            Liveness::Quiet
        }
    }
}

fn milliseconds(moment: Moment) -> u64 {
    u64::try_from(moment.boot.as_millis()).unwrap_or(u64::MAX - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{Clock, SystemClock};

    const TTL: Duration = Duration::from_secs(3);

    #[test]
    fn a_body_that_is_not_polled_is_woken_and_then_told_of_once() {
        let (polls, begin) = (Polls::default(), SystemClock.now());
        let at = |thirds: u32| begin.plus(TTL / 3 * thirds);
        assert_eq!(polls.look(at(9), TTL), Liveness::Good, "there is no body");
        polls.begin(begin);
        assert_eq!(polls.look(at(1), TTL), Liveness::Good);
        assert_eq!(polls.look(at(2), TTL), Liveness::Quiet);
        assert_eq!(
            polls.look(at(3), TTL),
            Liveness::Quiet,
            "not for longer than its TTL"
        );
        assert_eq!(polls.look(at(4), TTL), Liveness::Stalled(TTL / 3 * 4));
        assert_eq!(polls.look(at(5), TTL), Liveness::Quiet);
        // It goes on, and stops again.
        polls.begin(at(6));
        assert_eq!(polls.look(at(7), TTL), Liveness::Good);
        assert_eq!(polls.look(at(10), TTL), Liveness::Stalled(TTL / 3 * 4));
        polls.end();
        assert_eq!(polls.look(at(20), TTL), Liveness::Good);
    }

    #[test]
    fn one_that_answers_when_it_is_woken_is_never_told_of() {
        let (polls, begin) = (Polls::default(), SystemClock.now());
        polls.begin(begin);
        for third in 1..30 {
            let now = begin.plus(TTL / 3 * third);
            match polls.look(now, TTL) {
                Liveness::Good => {}
                Liveness::Quiet => polls.begin(now),
                stalled @ Liveness::Stalled(_) => panic!("{stalled:?}"),
            }
        }
    }
}
