//! Directories of keys that this process has made, and has not used for a while. ZooKeeper removes those that are empty, but at most
//! 10,000 a minute: a service whose keys are always new would leave more and more.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::{StreamExt, stream};
use tokio::time::{Instant, interval};
use zookeeper_client::Client;

/// So many are left to the server. A key that is used from time to time keeps its directory.
const KEPT: usize = 2000;

/// A key that is used again within this time keeps its directory as well.
const IDLE: Duration = Duration::from_secs(10);

/// The pause between two steps, and the most directories of a step.
const PAUSE: Duration = Duration::from_secs(1);
const STEP: usize = 1000;

/// The requests that are under way at a time.
const AT_A_TIME: usize = 16;

/// The directories that were made, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Leftovers(Mutex<VecDeque<(Instant, String)>>);

impl Leftovers {
    fn made(&self) -> MutexGuard<'_, VecDeque<(Instant, String)>> {
        // Every change is complete before any code can panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn note(&self, directory: &str) {
        self.made()
            .push_back((Instant::now(), directory.to_owned()));
    }

    /// Takes those that are to be removed now.
    fn due(&self, now: Instant) -> Vec<String> {
        let mut made = self.made();
        let old = made.iter().take_while(|(at, _)| *at + IDLE <= now).count();
        let count = old.min(made.len().saturating_sub(KEPT)).min(STEP);
        made.drain(..count)
            .map(|(_, directory)| directory)
            .collect()
    }

    /// Removes directories as long as the session lasts. One that is in use is refused, and then left to the server.
    pub(crate) async fn remove(&self, client: &Client) {
        let mut step = interval(PAUSE);
        loop {
            step.tick().await;
            let due = stream::iter(self.due(Instant::now()));
            let removed = due.for_each_concurrent(AT_A_TIME, |directory| async move {
                drop(client.delete(&directory, None).await);
            });
            removed.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_many_and_old_directories_are_due() {
        let made = Leftovers::default();
        let begin = Instant::now();
        for number in 0..KEPT + 3 {
            made.note(&number.to_string());
        }
        assert!(made.due(begin + IDLE - PAUSE).is_empty(), "they are new");
        assert_eq!(made.due(begin + IDLE), ["0", "1", "2"]);
        assert!(made.due(begin + 2 * IDLE).is_empty(), "they are few");
        tokio::time::advance(IDLE).await;
        for number in 0..2 * STEP {
            made.note(&number.to_string());
        }
        assert_eq!(
            made.due(Instant::now()).len(),
            STEP,
            "the old ones, in steps"
        );
        assert_eq!(made.due(Instant::now()).len(), STEP);
        assert!(made.due(Instant::now()).is_empty());
    }
}
