//! Servers that several tests of a process use, one after the other: their start takes longer than most tests.

use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tokio::time::sleep;

/// The time between two tests: tasks and processes of the first may live a little longer than its servers.
const REST: Duration = Duration::from_millis(50);

/// Servers of one kind that no test uses at the moment, each with the time at which it was given back.
pub(crate) struct Pool<T>(Mutex<VecDeque<(Instant, T)>>);

impl<T> Pool<T> {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(VecDeque::new()))
    }

    /// The servers that have rested longest, if there are any.
    pub(crate) async fn take(&self) -> Option<T> {
        let (since, idle) = self.idle().pop_front()?;
        let rest = REST.saturating_sub(since.elapsed());
        if !rest.is_zero() {
            sleep(rest).await;
        }
        Some(idle)
    }

    pub(crate) fn put(&self, idle: T) {
        self.idle().push_back((Instant::now(), idle));
    }

    fn idle(&self) -> MutexGuard<'_, VecDeque<(Instant, T)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A server, or several that belong together, of which one test at a time has the use.
///
/// The test finds them empty, as after their start. Dropping them leaves them to another test, unless this one has
/// failed, or has changed more than data: has killed or paused a process, moved a slot, or set an option. All of
/// them end with the process of the tests.
pub struct Pooled<T> {
    /// Present until the drop.
    value: Option<T>,
    give_back: Option<fn(T)>,
}

impl<T> Pooled<T> {
    pub(crate) fn new(value: T, give_back: fn(T)) -> Self {
        Self {
            value: Some(value),
            give_back: Some(give_back),
        }
    }
}

/// Servers of a test's own, which end with it.
impl<T> From<T> for Pooled<T> {
    fn from(own: T) -> Self {
        Self {
            value: Some(own),
            give_back: None,
        }
    }
}

impl<T> Deref for Pooled<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value.as_ref().expect("it is there until the drop")
    }
}

/// A test that takes them apart keeps them.
impl<T> DerefMut for Pooled<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.give_back = None;
        self.value.as_mut().expect("it is there until the drop")
    }
}

impl<T> Drop for Pooled<T> {
    fn drop(&mut self) {
        if let (Some(value), Some(give_back)) = (self.value.take(), self.give_back)
            && !thread::panicking()
        {
            give_back(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static NUMBERS: Pool<u8> = Pool::new();

    #[tokio::test]
    async fn a_test_that_ends_well_leaves_what_it_has_not_changed() {
        let lend = |number| Pooled::new(number, |it| NUMBERS.put(it));
        drop(lend(1));
        *lend(2) = 3;
        drop(Pooled::from(4));
        let failed = thread::spawn(move || {
            let _lent = lend(5);
            panic!("a test fails");
        });
        assert!(failed.join().is_err());
        drop(lend(6));
        let left = [NUMBERS.take().await, NUMBERS.take().await];
        assert_eq!(left, [Some(1), Some(6)]);
        assert_eq!(NUMBERS.take().await, None);
    }
}
