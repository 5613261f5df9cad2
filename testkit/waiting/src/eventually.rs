//! Waiting for a condition without guessing how long it takes.

use std::panic::Location;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::within::within;

/// The pauses between two questions. One that takes long is asked less often: many tests share the processors.
const SHORTEST: Duration = Duration::from_millis(5);
const LONGEST: Duration = Duration::from_millis(40);

/// Asks `condition` again and again until it is true.
///
/// Panics with `what` if it is not true within `deadline`, also when one question hangs.
/// The panic names the line of the caller.
///
/// ```no_run
/// # async fn keys() -> Vec<String> { Vec::new() }
/// # async fn doc() {
/// use std::time::Duration;
/// use dlock_waiting::eventually;
///
/// eventually(Duration::from_secs(5), "the lock is gone", async || keys().await.is_empty()).await;
/// # }
/// ```
#[track_caller]
pub fn eventually<C>(deadline: Duration, what: &str, condition: C) -> impl Future<Output = ()>
where
    C: AsyncFnMut() -> bool,
{
    // Taken here, because an `async fn` does not know its caller.
    wait(deadline, what, condition, Location::caller())
}

async fn wait<C>(deadline: Duration, what: &str, mut condition: C, caller: &Location<'_>)
where
    C: AsyncFnMut() -> bool,
{
    let begun = Instant::now();
    let held = within(deadline, async {
        while !condition().await {
            sleep((begun.elapsed() / 8).clamp(SHORTEST, LONGEST)).await;
        }
    });
    assert!(
        held.await.is_some(),
        "not within {deadline:?}: {what} (waited for at {caller})"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn asks_until_true() {
        let mut asked = 0;
        eventually(Duration::from_secs(1), "asked three times", async || {
            asked += 1;
            asked == 3
        })
        .await;
        assert_eq!(asked, 3);
    }

    #[tokio::test(start_paused = true)]
    #[should_panic(expected = "not within 1s: pigs fly (waited for at")]
    async fn says_what_did_not_happen() {
        eventually(Duration::from_secs(1), "pigs fly", async || false).await;
    }

    #[tokio::test(start_paused = true)]
    #[should_panic(expected = "an answer comes")]
    async fn a_question_that_hangs_counts_as_no() {
        eventually(Duration::from_secs(1), "an answer comes", async || {
            std::future::pending().await
        })
        .await;
    }
}
