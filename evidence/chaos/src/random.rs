//! Numbers that follow from a seed.

use std::time::Duration;

/// `SplitMix64`: small, and the same on every machine.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Some number below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end).expect("a usize fits");
        usize::try_from(self.next() % end).expect("it is below a usize")
    }

    /// Some time between these two.
    pub(crate) fn between(&mut self, shortest: Duration, longest: Duration) -> Duration {
        let micros = longest.saturating_sub(shortest).as_micros();
        let micros = u64::try_from(micros).expect("these are seconds at the most");
        shortest + Duration::from_micros(self.next() % (micros + 1))
    }

    /// Some time up to so many milliseconds.
    pub(crate) fn millis(&mut self, longest: u64) -> Duration {
        self.between(Duration::ZERO, Duration::from_millis(longest))
    }

    /// One in so many times.
    pub(crate) fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    pub(crate) fn shuffle<T>(&mut self, list: &mut [T]) {
        for last in (1..list.len()).rev() {
            list.swap(last, self.below(last + 1));
        }
    }

    /// So many of them, in any order.
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
    fn a_seed_says_it_all() {
        let numbers = |seed| {
            let mut random = Random::new(seed);
            [(); 4].map(|()| random.next())
        };
        assert_eq!(numbers(7), numbers(7));
        assert_ne!(numbers(7), numbers(8));
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
