//! The limit on the time of a server that listings of locks take, and their progress.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::time::{Instant, sleep_until};

/// Per unit of the server's time, this many units of pause follow: 5 % are used.
const PAUSES: u32 = 19;

/// The longest pause. A step that takes longer than a twentieth of it was read by a server without time to spare.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Keeps all listings of an inspector together within 5 % of the server's time, by pauses between their steps. For stores
/// of other crates.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// use std::time::Duration;
/// use dlock::{StoreError, admin::Pace};
///
/// /// Reads the keys page by page. `read` returns a page, and the time that the server spent on it.
/// async fn list(
///     pace: &Pace,
///     pages: u64,
///     read: impl AsyncFn(u64) -> Result<(Vec<String>, Duration), StoreError>,
/// ) -> Result<Vec<String>, StoreError> {
///     let walk = pace.walk();
///     let mut keys = Vec::new();
///     for page in 0..pages {
///         keys.extend(pace.step(read(page)).await?);
///         walk.show(page + 1, pages);
///     }
///     Ok(keys)
/// }
/// # drop(list(&Pace::default(), 0, async |_| Ok((Vec::new(), Duration::ZERO))));
/// ```
#[derive(Debug, Default)]
pub struct Pace {
    is_lifted: AtomicBool,
    /// The end of the pause after the last step.
    free: tokio::sync::Mutex<Option<Instant>>,
    progress: Mutex<Option<f64>>,
}

impl Pace {
    /// Waits until the next step may begin, and runs it. `read` returns its result with the time that the server spent, by
    /// which the following pause is measured: 19 times as long, and at most two seconds.
    ///
    /// # Errors
    ///
    /// Those of `read`.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, so is `read`. No pause follows it.
    pub async fn step<T, E>(
        &self,
        read: impl Future<Output = Result<(T, Duration), E>>,
    ) -> Result<T, E> {
        if self.is_lifted.load(Ordering::Relaxed) {
            return Ok(read.await?.0);
        }
        let mut free = self.free.lock().await;
        if let Some(free) = *free {
            sleep_until(free).await;
        }
        let (result, took) = read.await?;
        *free = Some(Instant::now() + took.saturating_mul(PAUSES).min(LONGEST_PAUSE));
        Ok(result)
    }

    /// Removes the limit from now on.
    pub fn lift_limit(&self) {
        self.is_lifted.store(true, Ordering::Relaxed);
    }

    /// Begins a listing of all locks. Its progress is that of [`progress`](Self::progress) until the value is dropped.
    #[must_use]
    pub fn walk(&self) -> Walk<'_> {
        self.set(Some(0.0));
        Walk(self)
    }

    /// Returns the completed part of a listing of all locks, from 0 to 1; `None` while none is in progress.
    #[must_use]
    pub fn progress(&self) -> Option<f64> {
        *self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, progress: Option<f64>) {
        // It is one value: every change is complete.
        *self.progress.lock().unwrap_or_else(PoisonError::into_inner) = progress;
    }
}

/// A listing of all locks that is in progress. Created by [`Pace::walk`].
#[derive(Debug)]
pub struct Walk<'a>(&'a Pace);

impl Walk<'_> {
    /// Shows that so many of the expected keys have been read. The expected number may be too small, or 0 if it is not known.
    pub fn show(&self, done: u64, expected: u64) {
        self.0.set(Some(part(done, expected)));
    }
}

impl Drop for Walk<'_> {
    fn drop(&mut self) {
        self.0.set(None);
    }
}

#[allow(clippy::cast_precision_loss, reason = "it is shown in percent")]
fn part(done: u64, expected: u64) -> f64 {
    match expected {
        0 => 0.0,
        _ if expected > done => done as f64 / expected as f64,
        _ => 0.99,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::StoreError;

    #[test]
    fn a_walk_is_never_complete_before_its_end() {
        for (done, expected, shown) in [
            (0, 0, 0.0),
            (500, 0, 0.0),
            (500, 1000, 0.5),
            (500, 400, 0.99),
        ] {
            let part = part(done, expected);
            assert!((part - shown).abs() < 1e-9, "{done} of {expected}: {part}");
        }
        let pace = Pace::default();
        assert_eq!(pace.progress(), None);
        let walk = pace.walk();
        assert_eq!(pace.progress(), Some(0.0));
        walk.show(1, 2);
        assert_eq!(pace.progress(), Some(0.5));
        drop(walk);
        assert_eq!(pace.progress(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_twentieth_of_the_time_is_used_unless_the_limit_is_lifted() {
        let pace = Pace::default();
        let began = Instant::now();
        let step = async |took| {
            let read = async move { Ok::<_, StoreError>(((), took)) };
            pace.step(read).await.expect("it is read");
        };
        for after in [0, 190, 380, 2380] {
            let took = if after == 380 { 1000 } else { 10 };
            step(Duration::from_millis(took)).await;
            assert_eq!(began.elapsed(), Duration::from_millis(after));
        }
        pace.lift_limit();
        step(Duration::ZERO).await;
        assert_eq!(began.elapsed(), Duration::from_millis(2380));
    }
}
