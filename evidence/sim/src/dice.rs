//! All that is random in a run: one generator, and the seed that it began with.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use dlock::testing::Random;

/// `SplitMix64`. Clones draw from the same sequence.
#[derive(Clone, Debug)]
pub(crate) struct Dice(Arc<AtomicU64>);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        let dice = Self(Arc::new(AtomicU64::new(seed)));
        // Seeds that follow each other begin far apart.
        Self(Arc::new(AtomicU64::new(dice.next())))
    }

    /// A sequence of its own, which depends on this one only here.
    pub(crate) fn fork(&self) -> Self {
        Self::new(self.next())
    }

    pub(crate) fn next(&self) -> u64 {
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut z = self.0.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
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

    /// Whether it happens that happens so often in a thousand.
    pub(crate) fn chance(&self, per_mille: u64) -> bool {
        self.below(1000) < per_mille
    }

    /// Up to `longest`; half of the times are shorter than an eighth of it.
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
