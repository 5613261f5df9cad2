//! Repeats requests that the leader refused because its data differs from the data that was read.
//!
//! Usually another process has just changed the data: a server answers for a transaction, also for one that was refused, after it
//! has carried out all before it, so its next answer agrees with the leader. Only a server that has lost step with the others
//! continues to show other data. Requests to it are repeated with pauses, and then end with an error: those of callers
//! that are gone would pile up.

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
            let message = "the leader of ZooKeeper refuses what fits the data of the connected server, which may have lost step with the \
                           others; compare the logs of the servers, and if one has, stop it, delete its data, and start it again";
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
