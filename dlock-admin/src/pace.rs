//! The limit on the time of a server that listings of locks take, and their progress.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use dlock_runtime::admin::Budget;
use tokio::time::{Instant, sleep_until};

/// The longest pause. A step that takes longer than a twentieth of it was read by a server without time to spare.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Keeps all listings of an inspector together within 5 % of the server's time in any minute, by pauses between their steps.
/// For stores of other crates.
///
/// Listings use 4 % of the time. After a time without a listing they use more at first: half a second of the server's time
/// without a pause after 12.5 s, and less after a shorter time. [`begin`](Self::begin) is for programs that have just started.
///
/// ```
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
#[derive(Debug)]
pub struct Pace {
    is_lifted: AtomicBool,
    has_begun: AtomicBool,
    budget: tokio::sync::Mutex<Budget>,
    progress: Mutex<Option<f64>>,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            is_lifted: AtomicBool::default(),
            has_begun: AtomicBool::default(),
            budget: tokio::sync::Mutex::new(Budget::new(Instant::now())),
            progress: Mutex::default(),
        }
    }
}

impl Pace {
    /// Waits until the next step may begin, and runs it. `read` returns its result with the time that the server spent, by
    /// which the following pause is measured: with the step 25 times as long, and at most two seconds. No pause follows a step
    /// that the saved time pays for.
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
        let mut budget = self.budget.lock().await;
        if self.has_begun.load(Ordering::Relaxed) {
            budget.begin(Instant::now());
        }
        sleep_until(budget.due()).await;
        let began = Instant::now();
        let (result, took) = read.await?;
        budget.book(began, took);
        budget.end_pause(Instant::now() + LONGEST_PAUSE);
        Ok(result)
    }

    /// Lets the next steps use half a second of the server's time without a pause, as after a rest. Later calls have no effect.
    ///
    /// For the first inspector of a program that goes on to list locks. One that replaces it after a failure must not have
    /// more: a server that fails again and again would have no time for others.
    ///
    /// ```
    /// use dlock::admin::Pace;
    ///
    /// let pace = Pace::default();
    /// pace.begin();
    /// ```
    pub fn begin(&self) {
        self.has_begun.store(true, Ordering::Relaxed);
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
    use dlock_runtime::store::StoreError;

    use super::*;

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

    async fn step(pace: &Pace, took: u64) {
        let took = Duration::from_millis(took);
        let read = async {
            tokio::time::advance(took).await;
            Ok::<_, StoreError>(((), took))
        };
        pace.step(read).await.expect("it is read");
    }

    #[tokio::test(start_paused = true)]
    async fn pauses_follow_the_steps_unless_the_limit_is_lifted() {
        let pace = Pace::default();
        let began = Instant::now();
        // Each step begins 25 times the cost of the one before after it, and two seconds after the end of a long one.
        for (took, ended) in [(10, 10), (10, 260), (1000, 1500), (10, 3510)] {
            step(&pace, took).await;
            assert_eq!(began.elapsed(), Duration::from_millis(ended));
        }
        pace.lift_limit();
        step(&pace, 10).await;
        assert_eq!(began.elapsed(), Duration::from_millis(3520));
    }

    #[tokio::test(start_paused = true)]
    async fn a_program_that_has_just_begun_and_one_that_has_rested_read_without_pauses_at_first() {
        let pace = Pace::default();
        pace.begin();
        for _ in 0..2 {
            let began = Instant::now();
            for number in 1..=50 {
                step(&pace, 10).await;
                assert_eq!(began.elapsed(), Duration::from_millis(number * 10));
            }
            pace.begin();
            for _ in 0..10 {
                step(&pace, 10).await;
            }
            // The time of the steps has paid for three of them.
            let least = Duration::from_millis(7 * 250 + 500);
            assert!(began.elapsed() >= least, "{:?}", began.elapsed());
            tokio::time::advance(Duration::from_secs(13)).await;
        }
    }
}
