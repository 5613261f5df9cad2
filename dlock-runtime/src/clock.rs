//! The clock of a manager: time as a lease measures it, by two clocks, because one of them stops while the machine is suspended.
//!
//! A store reads it to date its requests. A test can replace it; most tests of code under locks need only tokio's paused clock and
//! [`LockManager::memory`](crate::LockManager::memory).
//!
//! ```
//! # extern crate dlock_runtime as dlock;
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::SystemTime;
//! use dlock::{LockManager, clock::{Clock, Moment, SystemClock}};
//!
//! /// A machine on which no suspension is ever detected.
//! #[derive(Debug)]
//! struct WithoutTimeOfDay;
//!
//! impl Clock for WithoutTimeOfDay {
//!     fn now(&self) -> Moment {
//!         SystemClock.now()
//!     }
//!
//!     fn time_of_day(&self) -> Option<SystemTime> {
//!         None
//!     }
//! }
//!
//! let manager = LockManager::builder().clock(WithoutTimeOfDay).connect("memory://").await?;
//! manager.lock("order:42").run(async |_lease| ()).await?;
//! # Ok(()) }
//! ```

use std::time::{Duration, SystemTime};

use tokio::time::Instant;

/// A moment, read from two clocks at once.
///
/// The monotonic clock drives timers. On Linux it stops while the machine is suspended, but the store's clock
/// continues. Leases are therefore also checked against the boot clock, which includes the suspended time.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// use std::time::Duration;
/// use dlock::clock::{Clock, SystemClock};
///
/// let begin = SystemClock.now();
/// let deadline = begin.plus(Duration::from_secs(30));
/// assert!(!deadline.is_reached(begin));
/// assert_eq!(deadline.remaining(begin), Duration::from_secs(30));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The time of tokio's clock, which tests can pause.
    pub monotonic: Instant,
    /// The time since the machine started, including suspended time.
    pub boot: Duration,
}

impl Moment {
    /// Reads the machine's clocks without tokio, whose clock panics in a thread that has lost tokio's context.
    #[doc(hidden)]
    #[must_use]
    pub fn of_machine() -> Self {
        Self {
            monotonic: std::time::Instant::now().into(),
            boot: boot_time(),
        }
    }

    /// Returns the moment `after` later, on both clocks. It saturates far beyond the end of any lease.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use std::time::Duration;
    /// use dlock::clock::{Clock, SystemClock};
    ///
    /// let now = SystemClock.now();
    /// let later = now.plus(Duration::from_secs(2));
    /// assert_eq!(later.boot - now.boot, Duration::from_secs(2));
    /// assert_eq!(later.monotonic - now.monotonic, Duration::from_secs(2));
    /// ```
    #[must_use]
    pub fn plus(self, after: Duration) -> Self {
        // 100 years: longer than any lease, and an `Instant` can still represent it.
        const FAR: Duration = Duration::from_secs(36_500 * 24 * 3600);
        let after = after.min(FAR);
        Self {
            monotonic: self.monotonic + after,
            boot: self.boot.saturating_add(after),
        }
    }

    /// Returns `true` if, at `now`, either clock has reached this moment.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use std::time::Duration;
    /// use dlock::clock::{Clock, Moment, SystemClock};
    ///
    /// let now = SystemClock.now();
    /// let deadline = now.plus(Duration::from_secs(30));
    /// assert!(!deadline.is_reached(now));
    /// // The machine was suspended, which only one of the clocks includes.
    /// let awake = Moment { boot: now.boot + Duration::from_secs(60), ..now };
    /// assert!(deadline.is_reached(awake));
    /// ```
    #[must_use]
    pub fn is_reached(self, now: Self) -> bool {
        now.monotonic >= self.monotonic || now.boot >= self.boot
    }

    /// Returns the time until this moment at `now`, by the clock that reaches it first.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use std::time::Duration;
    /// use dlock::clock::{Clock, SystemClock};
    ///
    /// let now = SystemClock.now();
    /// let deadline = now.plus(Duration::from_secs(30));
    /// assert_eq!(deadline.remaining(now.plus(Duration::from_secs(10))), Duration::from_secs(20));
    /// assert_eq!(deadline.remaining(now.plus(Duration::from_secs(40))), Duration::ZERO);
    /// ```
    #[must_use]
    pub fn remaining(self, now: Self) -> Duration {
        let monotonic = self.monotonic.saturating_duration_since(now.monotonic);
        monotonic.min(self.boot.saturating_sub(now.boot))
    }

    /// Returns the time until this moment at `now`, by the clock that reaches it last. It is for events that
    /// must not happen earlier.
    pub(crate) fn longest_remaining(self, now: Self) -> Duration {
        let monotonic = self.monotonic.saturating_duration_since(now.monotonic);
        monotonic.max(self.boot.saturating_sub(now.boot))
    }

    /// Returns the earlier of two moments, clock by clock.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use std::time::Duration;
    /// use dlock::clock::{Clock, SystemClock};
    ///
    /// let now = SystemClock.now();
    /// let later = now.plus(Duration::from_secs(1));
    /// assert_eq!(now.earlier(later), now);
    /// ```
    #[must_use]
    pub fn earlier(self, other: Self) -> Self {
        Self {
            monotonic: self.monotonic.min(other.monotonic),
            boot: self.boot.min(other.boot),
        }
    }

    /// Returns the later of two moments, clock by clock.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use std::time::Duration;
    /// use dlock::clock::{Clock, SystemClock};
    ///
    /// let now = SystemClock.now();
    /// let later = now.plus(Duration::from_secs(1));
    /// assert_eq!(now.later(later), later);
    /// ```
    #[must_use]
    pub fn later(self, other: Self) -> Self {
        Self {
            monotonic: self.monotonic.max(other.monotonic),
            boot: self.boot.max(other.boot),
        }
    }

    /// Returns the time since this moment at `now`, by the clock that has advanced further.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use std::time::Duration;
    /// use dlock::clock::{Clock, SystemClock};
    ///
    /// let now = SystemClock.now();
    /// let later = now.plus(Duration::from_secs(1));
    /// assert_eq!(now.elapsed(later), Duration::from_secs(1));
    /// assert_eq!(later.elapsed(now), Duration::ZERO);
    /// ```
    #[must_use]
    pub fn elapsed(self, now: Self) -> Duration {
        let monotonic = now.monotonic.saturating_duration_since(self.monotonic);
        monotonic.max(now.boot.saturating_sub(self.boot))
    }
}

/// The clock of a manager.
///
/// It is a parameter, so that a test can advance one clock further than the other. It must not panic: a guard
/// that is dropped at such a moment stays held.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// use std::{sync::{Arc, Mutex}, time::Duration};
/// use dlock::{LockManager, clock::{Clock, Moment, SystemClock}};
///
/// /// The machine's clocks, on which a test lets time asleep pass.
/// #[derive(Clone, Default)]
/// struct Asleep(Arc<Mutex<Duration>>);
///
/// impl Clock for Asleep {
///     fn now(&self) -> Moment {
///         let Moment { monotonic, boot } = SystemClock.now();
///         let asleep = *self.0.lock().expect("no panic while it is locked");
///         Moment { monotonic, boot: boot + asleep }
///     }
/// }
///
/// let clock = Asleep::default();
/// let builder = LockManager::builder().clock(clock.clone());
/// *clock.0.lock().expect("no panic while it is locked") += Duration::from_secs(60);
/// # drop(builder);
/// ```
pub trait Clock: Send + Sync + 'static {
    /// Returns the current moment.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::clock::{Clock, SystemClock};
    ///
    /// let begin = SystemClock.now();
    /// println!("it took {:?}", begin.elapsed(SystemClock.now()));
    /// ```
    fn now(&self) -> Moment;

    /// Returns the time of day, or `None` if it is not known.
    ///
    /// It decides nothing by itself. If it has advanced further than the other clocks, the machine may have
    /// been paused without their knowledge, like a paused virtual machine. All leases are then renewed at
    /// once. With `None`, such a pause goes unnoticed.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::clock::{Clock, SystemClock};
    ///
    /// assert!(SystemClock.time_of_day().is_some());
    /// ```
    fn time_of_day(&self) -> Option<SystemTime> {
        None
    }
}

/// The machine's own clocks.
///
/// Pausing tokio's clock does not pause the boot clock: a test that pauses it must not take longer than its
/// leases in real time.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// use dlock::clock::{Clock, SystemClock};
///
/// let (one, next) = (SystemClock.now(), SystemClock.now());
/// assert!(one.boot <= next.boot && one.monotonic <= next.monotonic);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Moment {
        Moment {
            monotonic: Instant::now(),
            boot: boot_time(),
        }
    }

    fn time_of_day(&self) -> Option<SystemTime> {
        Some(SystemTime::now())
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn boot_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::new(
        u64::try_from(time.tv_sec).expect("time since boot is not negative"),
        u32::try_from(time.tv_nsec).expect("a nanosecond part is below 10^9"),
    )
}

/// Other systems use the standard monotonic clock. On macOS and Windows it may or may not include suspended
/// time. There, the guarantees rest on the store's own expiry and the fencing token.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn boot_time() -> Duration {
    use std::{sync::LazyLock, time};
    static START: LazyLock<time::Instant> = LazyLock::new(time::Instant::now);
    START.elapsed()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(monotonic_ms: u64, boot_ms: u64) -> Moment {
        static START: std::sync::LazyLock<Instant> = std::sync::LazyLock::new(Instant::now);
        Moment {
            monotonic: *START + Duration::from_millis(monotonic_ms),
            boot: Duration::from_millis(boot_ms),
        }
    }

    #[test]
    fn time_asleep_counts() {
        let deadline = moment(0, 0).plus(Duration::from_millis(100));
        assert!(!deadline.is_reached(moment(99, 99)));
        assert!(deadline.is_reached(moment(10, 100)), "slept for 90 ms");
        assert!(deadline.is_reached(moment(100, 10)), "a paused test clock");
        assert_eq!(
            deadline.remaining(moment(10, 60)),
            Duration::from_millis(40)
        );
    }

    #[test]
    fn the_longest_wait_does_not_overflow() {
        let far = SystemClock.now().plus(Duration::MAX);
        assert!(!far.is_reached(SystemClock.now()));
    }

    #[test]
    fn the_boot_clock_goes_forward() {
        let first = SystemClock.now();
        let second = SystemClock.now();
        assert!(second.boot >= first.boot && !second.boot.is_zero());
    }
}
