//! The random numbers of a run: one generator, which starts from the seed.
//!
//! `SplitMix64` has a published algorithm, so a seed gives the same run with every version of its crate. Numbers are
//! reduced to a range here: the distributions of `rand` may change with its version.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use dlock::random::Random;
use rand_xoshiro::{
    SplitMix64,
    rand_core::{RngCore, SeedableRng},
};

/// A generator. Clones draw from the same sequence.
#[derive(Clone, Debug)]
pub(crate) struct Dice(Arc<Mutex<SplitMix64>>);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        // Consecutive seeds start far apart.
        let start = SplitMix64::seed_from_u64(seed).next_u64();
        Self(Arc::new(Mutex::new(SplitMix64::seed_from_u64(start))))
    }

    /// A separate sequence, whose seed is drawn from this one.
    pub(crate) fn fork(&self) -> Self {
        Self::new(self.next())
    }

    pub(crate) fn next(&self) -> u64 {
        let mut generator = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        generator.next_u64()
    }

    /// A number below `end`, which is not 0.
    pub(crate) fn below(&self, end: u64) -> u64 {
        // The bias of the remainder does not matter for numbers this small.
        self.next() % end
    }

    /// An index into something of this length.
    pub(crate) fn index(&self, length: usize) -> usize {
        let length = u64::try_from(length).expect("nothing is that long");
        usize::try_from(self.below(length)).expect("it is below a length")
    }

    pub(crate) fn pick<T: Copy>(&self, of: &[T]) -> T {
        of[self.index(of.len())]
    }

    /// `true` in `per_mille` of 1000 calls.
    pub(crate) fn chance(&self, per_mille: u64) -> bool {
        self.below(1000) < per_mille
    }

    /// A time up to `longest`. Half of the times are shorter than an eighth of it.
    pub(crate) fn time(&self, longest: Duration) -> Duration {
        let micros = u64::try_from(longest.as_micros()).expect("no time here is that long");
        let whole = self.below(1 << 20);
        let cubed = (u128::from(whole).pow(3) * u128::from(micros)) >> 60;
        Duration::from_micros(u64::try_from(cubed).expect("it is at most the longest"))
    }
}

impl Random for Dice {
    fn next_u64(&self) -> u64 {
        self.next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seeds are noted in findings and tests: with other numbers they would replay other runs.
    #[test]
    fn a_seed_keeps_its_numbers() {
        let dice = Dice::new(7);
        assert_eq!(
            [dice.next(), dice.next(), dice.fork().next()],
            [
                0xb8b4_c297_7eab_ce45,
                0xa653_05fd_338e_c8fe,
                0x7d74_3d98_6d18_b4bf
            ]
        );
    }
}
