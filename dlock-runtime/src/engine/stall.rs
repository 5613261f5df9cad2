//! Detects bodies that are not polled although they could make progress.
//!
//! A lease is renewed whether its body makes progress or not. A body keeps its lock if it blocks its thread,
//! if its runtime is blocked, or if its future is not polled any more. A log event and a metric report that.
//!
//! A body that only waits is not polled either. A body without a poll for half of its TTL is therefore woken,
//! which shows whether it can be polled.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Duration,
};

use crate::clock::Moment;

/// Records when the body was polled.
#[derive(Default)]
pub(crate) struct Polls {
    /// The start of the last poll, in milliseconds of the boot clock plus one; 0 if there is no body.
    last: AtomicU64,
    is_told: AtomicBool,
}

/// The progress of a body.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Liveness {
    /// It was polled recently, or there is no body.
    Good,
    /// It has not been polled for a while and has to be woken.
    Quiet,
    /// It has not been polled after the wake-up either, for this long. Reported once.
    Stalled(Duration),
}

impl Polls {
    /// Records the start of a poll of the body.
    pub(crate) fn begin(&self, now: Moment) {
        self.last.store(milliseconds(now) + 1, Ordering::Relaxed);
    }

    /// Records that there is no body any more.
    pub(crate) fn end(&self) {
        self.last.store(0, Ordering::Relaxed);
    }

    /// Returns the progress of the body of a lease with this TTL. Call it at least three times per TTL.
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
        assert_eq!(polls.look(begin.plus(TTL / 2), TTL), Liveness::Quiet);
        assert_eq!(polls.look(at(2), TTL), Liveness::Quiet);
        assert_eq!(
            polls.look(at(3), TTL),
            Liveness::Quiet,
            "not for longer than its TTL"
        );
        assert_eq!(polls.look(at(4), TTL), Liveness::Stalled(TTL / 3 * 4));
        assert_eq!(polls.look(at(5), TTL), Liveness::Quiet);
        // The body continues, and stops again.
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
