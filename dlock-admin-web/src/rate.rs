//! The number of grants per second.

use std::{collections::VecDeque, time::Duration};

use tokio::time::Instant;

/// The time over which it is averaged.
const SECONDS: u32 = 5;

/// Counts grants. Created when the messages about them can be heard.
#[derive(Debug)]
pub(super) struct Rate {
    since: Instant,
    /// The grants of each of the last seconds, with the number of the second.
    seconds: VecDeque<(u64, u64)>,
}

impl Rate {
    pub(super) fn since(since: Instant) -> Self {
        Self {
            since,
            seconds: VecDeque::new(),
        }
    }

    pub(super) fn count(&mut self, now: Instant) {
        let second = self.second(now);
        match self.seconds.back_mut() {
            Some((last, count)) if *last == second => *count += 1,
            _ => self.seconds.push_back((second, 1)),
        }
        let first = second.saturating_sub(u64::from(SECONDS));
        while self.seconds.front().is_some_and(|(at, _)| *at < first) {
            self.seconds.pop_front();
        }
    }

    /// Returns the average of the last complete seconds, rounded up; `None` in the first second.
    pub(super) fn per_second(&self, now: Instant) -> Option<u64> {
        let second = self.second(now);
        let complete = second.min(u64::from(SECONDS));
        if complete == 0 {
            return None;
        }
        let last = (second - complete)..second;
        let counts = self.seconds.iter().filter(|(at, _)| last.contains(at));
        let sum: u64 = counts.map(|(_, count)| count).sum();
        Some(sum.div_ceil(complete))
    }

    fn second(&self, now: Instant) -> u64 {
        let passed = now.checked_duration_since(self.since);
        passed.unwrap_or(Duration::ZERO).as_secs()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_seconds_count() {
        let began = Instant::now();
        let at = |ms| began + Duration::from_millis(ms);
        let mut rate = Rate::since(began);
        assert_eq!(rate.per_second(at(999)), None);
        assert_eq!(rate.per_second(at(1000)), Some(0));
        for ms in 0..1000 {
            rate.count(at(ms));
        }
        assert_eq!(rate.per_second(at(1500)), Some(1000));
        assert_eq!(rate.per_second(at(5500)), Some(200));
        assert_eq!(rate.per_second(at(6500)), Some(0));
        rate.count(at(9000));
        assert_eq!(rate.per_second(at(10_000)), Some(1), "it is rounded up");
        for second in 10..100 {
            for _ in 0..5 {
                rate.count(at(second * 1000));
            }
        }
        assert_eq!(rate.per_second(at(99_000)), Some(5));
        assert!(rate.seconds.len() <= 6, "{rate:?}");
    }
}
