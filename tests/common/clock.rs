//! A clock of which the test decides how long the machine was asleep.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, SystemTime},
};

use dlock::clock::{Clock, Moment};
use tokio::time::Instant;

/// tokio's clock, and a boot clock that has run ahead of it by what the test says.
#[derive(Clone)]
pub(crate) struct TestClock {
    start: Instant,
    asleep: Arc<Mutex<Duration>>,
    /// By how much the time of day is ahead.
    ahead: Arc<Mutex<Duration>>,
}

impl TestClock {
    pub(crate) fn new() -> Self {
        Self {
            start: Instant::now(),
            asleep: Arc::default(),
            ahead: Arc::default(),
        }
    }

    /// The machine was suspended for `time`: tokio's clock stood still, the boot clock did not.
    pub(crate) fn suspend(&self, time: Duration) {
        *self.asleep.lock().unwrap() += time;
    }

    /// The time of day jumps by `time`, and no other clock does.
    #[allow(dead_code, reason = "not every suite needs it")]
    pub(crate) fn put_time_of_day_forward(&self, time: Duration) {
        *self.ahead.lock().unwrap() += time;
    }
}

impl Clock for TestClock {
    fn now(&self) -> Moment {
        let monotonic = Instant::now();
        let asleep = *self.asleep.lock().unwrap();
        Moment {
            monotonic,
            boot: monotonic.duration_since(self.start) + asleep,
        }
    }

    fn time_of_day(&self) -> Option<SystemTime> {
        Some(SystemTime::now() + *self.ahead.lock().unwrap())
    }
}
