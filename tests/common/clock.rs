//! A clock of which the test decides how long the machine was asleep.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use dlock::{Clock, Moment};
use tokio::time::Instant;

/// tokio's clock, and a boot clock that has run ahead of it by what the test says.
#[derive(Clone)]
pub(crate) struct TestClock {
    start: Instant,
    asleep: Arc<Mutex<Duration>>,
}

impl TestClock {
    pub(crate) fn new() -> Self {
        Self {
            start: Instant::now(),
            asleep: Arc::default(),
        }
    }

    /// The machine was suspended for `time`: tokio's clock stood still, the boot clock did not.
    pub(crate) fn suspend(&self, time: Duration) {
        *self.asleep.lock().unwrap() += time;
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
}
