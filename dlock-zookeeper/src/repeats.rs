//! Repeats of what the leader has refused, since it has other data than the server that was read.
//!
//! Usually another process has just changed them: a server answers for a transaction, also for one that was refused, after it has
//! carried out all before it, so what it says next fits. Only a server that has lost step with the others goes on to
//! show what the leader does not have. It is asked with pauses then, and at last given up: requests of callers that are gone
//! would pile up.

use std::time::Duration;

use dlock_runtime::store::{StoreError, StoreErrorKind};
use tokio::time::sleep;

/// The repeats without a pause.
const AT_ONCE: u32 = 3;
const MOST: u32 = 20;
const PAUSE: Duration = Duration::from_millis(200);

/// The repeats of one request.
#[derive(Debug, Default)]
pub(crate) struct Repeats(u32);

impl Repeats {
    /// Waits before another repeat, beyond the first ones.
    ///
    /// # Errors
    ///
    /// [`StoreErrorKind::Refused`] after many of them.
    pub(crate) async fn again(&mut self) -> Result<(), StoreError> {
        self.0 += 1;
        if self.0 > MOST {
            let message = "the connected server of ZooKeeper has other data than its leader: it has lost step with the others; find \
                           it by its log, delete its data, and let it load them from the leader";
            return Err(StoreError::new(StoreErrorKind::Refused, message).with_advice());
        }
        if self.0 > AT_ONCE {
            sleep(PAUSE).await;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn repeats_have_pauses_and_end() {
        let (begun, mut repeats) = (Instant::now(), Repeats::default());
        for _ in 0..AT_ONCE {
            repeats.again().await.unwrap();
        }
        assert_eq!(begun.elapsed(), Duration::ZERO);
        for number in 1..=MOST - AT_ONCE {
            repeats.again().await.unwrap();
            assert_eq!(begun.elapsed(), PAUSE * number);
        }
        let error = repeats.again().await.unwrap_err();
        assert!(error.to_string().contains("lost step"), "{error}");
    }
}
