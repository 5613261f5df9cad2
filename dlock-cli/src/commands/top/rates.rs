//! Counts the grants in each of the last seconds.

use std::collections::VecDeque;

/// The number of seconds that are stored.
const MINUTE: usize = 60;

#[derive(Clone, Debug, Default)]
pub(crate) struct Rates {
    seconds: VecDeque<u64>,
    /// The reason why the number is unknown.
    blind: Option<String>,
}

impl Rates {
    /// Adds a second with this number of grants.
    pub(crate) fn push(&mut self, count: u64) {
        if self.blind.is_some() {
            return;
        }
        if self.seconds.len() == MINUTE {
            self.seconds.pop_front();
        }
        self.seconds.push_back(count);
    }

    /// Marks the number as unknown from now on, and discards earlier numbers.
    pub(crate) fn blind(&mut self, reason: String) {
        self.seconds.clear();
        self.blind = Some(reason);
    }

    /// Marks the number as known again.
    pub(crate) fn seeing(&mut self) {
        self.blind = None;
    }

    /// Returns the reason why the number is unknown, if it is.
    pub(crate) fn reason(&self) -> Option<&str> {
        self.blind.as_deref()
    }

    /// Returns the average of the last five seconds, rounded up; `None` if it is unknown.
    pub(crate) fn per_second(&self) -> Option<u64> {
        const LAST: usize = 5;
        let last: Vec<_> = self.seconds.iter().rev().take(LAST).collect();
        let seconds = u64::try_from(last.len()).ok().filter(|&it| it > 0)?;
        let sum: u64 = last.into_iter().sum();
        Some(sum.div_ceil(seconds))
    }

    /// Returns the last `count` seconds, the newest one last, with 0 for unknown ones.
    pub(crate) fn last(&self, count: usize) -> Vec<u64> {
        let known = self.seconds.iter().rev().copied();
        let mut seconds: Vec<_> = known.chain(std::iter::repeat(0)).take(count).collect();
        seconds.reverse();
        seconds
    }

    pub(crate) fn peak(&self) -> u64 {
        self.seconds.iter().copied().max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minute_is_remembered() {
        let mut rates = Rates::default();
        assert_eq!(rates.per_second(), None);
        for second in 1..=100 {
            rates.push(second);
        }
        assert_eq!(rates.seconds.len(), MINUTE);
        assert_eq!(rates.last(3), [98, 99, 100]);
        assert_eq!(rates.per_second(), Some(98));
        assert_eq!(rates.peak(), 100);
    }

    #[test]
    fn a_single_grant_is_not_rounded_away() {
        let mut rates = Rates::default();
        for second in [0, 0, 1, 0, 0] {
            rates.push(second);
        }
        assert_eq!(rates.per_second(), Some(1));
        assert_eq!(rates.last(7), [0, 0, 0, 0, 1, 0, 0]);
    }

    #[test]
    fn rates_are_unknown_without_messages() {
        let mut rates = Rates::default();
        rates.push(7);
        rates.blind("NOPERM".to_owned());
        rates.push(0);
        assert_eq!((rates.per_second(), rates.peak()), (None, 0));
        assert_eq!(rates.reason(), Some("NOPERM"));
        rates.seeing();
        rates.push(3);
        assert_eq!(rates.per_second(), Some(3));
    }
}
