//! The time that all processes of a machine read alike.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The time of the monotonic clock, which the whole machine shares: what several processes note by
/// it can be put in order.
#[must_use]
pub fn machine_time() -> Duration {
    let time = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(time.tv_sec).expect("the clock starts at zero");
    let nanoseconds = u32::try_from(time.tv_nsec).expect("a nanosecond part is below 10^9");
    Duration::new(seconds, nanoseconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_forward() {
        let first = machine_time();
        assert!(machine_time() >= first && !first.is_zero());
    }
}
