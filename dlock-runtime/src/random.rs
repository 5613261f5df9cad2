//! The random numbers of a manager: its identity and its jitter. A parameter, so that a simulation can replay them.

use std::time::Duration;

/// The source of a manager's random bits: the identity of the client, and jitter. It must not panic.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use dlock::{LockManager, random::Random};
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
    /// Returns 64 uniformly random bits.
    fn next_u64(&self) -> u64;
}

/// Random bits of the operating system, with one system call for each number.
///
/// A generator inside the process would be cheaper, but a fork copies it: two children would draw the same
/// numbers, and the store could not tell them apart. Acquiring a free lock needs no random bits. They are
/// drawn when a manager is created, and for the pause after a refusal or a failure.
///
/// # Panics
///
/// Panics if the operating system has no random bits, which does not happen once it has started.
///
/// # Examples
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// use dlock::random::{Random, SystemRandom};
///
/// assert_ne!(SystemRandom.next_u64(), SystemRandom.next_u64());
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemRandom;

impl Random for SystemRandom {
    fn next_u64(&self) -> u64 {
        getrandom::u64().expect("an operating system that runs has random bits")
    }
}

/// Returns `least` plus up to a quarter of it, so that waiters do not stay in step.
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
