//! A limit that a machine which was stopped does not use up.

use std::time::Duration;

use tokio::time::timeout;

/// The limit is counted in steps of this length.
const STEP: Duration = Duration::from_millis(500);

/// Returns the output of `future`, or `None` after `limit`.
///
/// A virtual machine can stop for longer than any limit, and its clock jumps when it goes on. A step of the
/// limit that ends late counts as one step, so that the future has the rest of the limit after the jump.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// use std::{future, time::Duration};
/// use dlock_waiting::within;
///
/// assert_eq!(within(Duration::from_secs(1), async { 42 }).await, Some(42));
/// assert_eq!(within(Duration::ZERO, future::pending::<()>()).await, None);
/// # }
/// ```
pub fn within<F: Future>(limit: Duration, future: F) -> impl Future<Output = Option<F::Output>> {
    // Boxed, since what a test waits for may be large.
    let mut future = Box::pin(future);
    let mut left = limit;
    async move {
        loop {
            let step = left.min(STEP);
            if let Ok(output) = timeout(step, future.as_mut()).await {
                return Some(output);
            }
            left -= step;
            if left.is_zero() {
                return None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::{Instant, advance, sleep};

    const LIMIT: Duration = Duration::from_secs(20);

    #[tokio::test(start_paused = true)]
    async fn it_ends_after_the_limit() {
        let start = Instant::now();
        assert_eq!(within(LIMIT, std::future::pending::<()>()).await, None);
        let took = start.elapsed();
        assert!((LIMIT..LIMIT + STEP).contains(&took), "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_clock_that_jumps_takes_one_step() {
        let stopped = async {
            advance(2 * LIMIT).await;
            sleep(LIMIT / 2).await;
        };
        assert_eq!(within(LIMIT, stopped).await, Some(()));
    }
}
