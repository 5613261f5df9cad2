//! Randomness handed in, so that a simulation can replay it.

use std::time::Duration;

use uuid::Uuid;

/// Where a manager gets its random bits: the identity of the client, and jitter. It must not panic.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use dlock::{LockManager, Random};
///
/// /// The same numbers in each run of a test. Never in a service: its clients would meet.
/// struct Counting(AtomicU64);
///
/// impl Random for Counting {
///     fn next_u64(&self) -> u64 {
///         self.0.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed)
///     }
/// }
///
/// let builder = LockManager::builder().random(Counting(AtomicU64::new(1)));
/// # drop(builder);
/// ```
pub trait Random: Send + Sync + 'static {
    /// 64 uniformly random bits.
    fn next_u64(&self) -> u64;
}

/// Random bits of a generator in this process that the operating system seeds, by way of `uuid`.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// use dlock::{Random, SystemRandom};
///
/// assert_ne!(SystemRandom.next_u64(), SystemRandom.next_u64());
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemRandom;

impl Random for SystemRandom {
    fn next_u64(&self) -> u64 {
        // The upper half of a version 4 UUID carries the version, the lower half the variant:
        // folding both together leaves no bit fixed.
        let (high, low) = Uuid::new_v4().as_u64_pair();
        high.rotate_left(32) ^ low
    }
}

/// `least` and up to a quarter more, so that waiters fall out of step.
pub(crate) fn jittered(least: Duration, random: u64) -> Duration {
    let quarter = u64::try_from((least / 4).as_micros()).unwrap_or(u64::MAX);
    least + Duration::from_micros(random % quarter.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_stays_within_its_quarter() {
        for _ in 0..1000 {
            let jittered = jittered(Duration::from_secs(1), SystemRandom.next_u64());
            assert!(jittered >= Duration::from_secs(1) && jittered < Duration::from_millis(1250));
        }
        assert!(jittered(Duration::ZERO, 7).is_zero());
    }
}
