//! Random numbers from a seed.
//!
//! `SplitMix64` has a published algorithm, so a seed gives the same numbers with every version of its crate. Numbers are
//! reduced to a range here: the distributions of `rand` may change with its version.

use std::time::Duration;

use rand_xoshiro::{
    SplitMix64,
    rand_core::{RngCore, SeedableRng},
};

pub(crate) struct Random(SplitMix64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(SplitMix64::seed_from_u64(seed))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end).expect("a usize fits");
        usize::try_from(self.next() % end).expect("it is below a usize")
    }

    /// A time between these two.
    pub(crate) fn between(&mut self, shortest: Duration, longest: Duration) -> Duration {
        let micros = longest.saturating_sub(shortest).as_micros();
        let micros = u64::try_from(micros).expect("these are seconds at the most");
        shortest + Duration::from_micros(self.next() % (micros + 1))
    }

    /// A time of at most `longest` milliseconds.
    pub(crate) fn millis(&mut self, longest: u64) -> Duration {
        self.between(Duration::ZERO, Duration::from_millis(longest))
    }

    /// `true` in one of `times` calls.
    pub(crate) fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    pub(crate) fn shuffle<T>(&mut self, list: &mut [T]) {
        for last in (1..list.len()).rev() {
            list.swap(last, self.below(last + 1));
        }
    }

    /// `count` random items, in random order.
    pub(crate) fn some<T>(&mut self, mut of: Vec<T>, count: usize) -> Vec<T> {
        self.shuffle(&mut of);
        of.truncate(count);
        of
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_keeps_its_numbers() {
        let numbers = |seed| {
            let mut random = Random::new(seed);
            [(); 4].map(|()| random.next())
        };
        assert_eq!(numbers(7), numbers(7));
        assert_ne!(numbers(7), numbers(8));
        // Seeds are noted in findings: with other numbers they would replay other rounds.
        assert_eq!(
            numbers(7)[..2],
            [0x63cb_e1e4_5932_0dd7, 0x044c_3cd7_f43c_661c]
        );
    }

    #[test]
    fn a_shuffled_list_has_all_it_had() {
        let mut random = Random::new(1);
        let mut list = random.some((0..20).collect(), 20);
        assert!(!list.is_sorted());
        list.sort_unstable();
        assert_eq!(list, (0..20).collect::<Vec<_>>());
        assert_eq!(random.some(list, 3).len(), 3);
    }
}
