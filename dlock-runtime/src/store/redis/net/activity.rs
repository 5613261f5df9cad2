//! Counts the reads of a connection, so that any bytes from the server prove that it is alive.
//!
//! Answers arrive in the order of the requests. While other requests are ahead of a PING, its missing answer
//! says nothing about the server; the answers to those requests do.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use redis::RedisError;
use tokio::time::timeout;

use super::stream::{ObservedStream, ReadObserver};
use crate::store::{StoreError, redis::protocol::errors};

/// A counter of reads on a connection.
#[derive(Clone, Default)]
pub(crate) struct Activity(Arc<AtomicU64>);

impl Activity {
    fn beat(&self) {
        // Only a change counts, and each connection has one reader.
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of reads so far.
    pub(crate) fn beats(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Returns the answer to one of the connection's own requests, or an error if no bytes at all have arrived within
    /// `limit`.
    pub(crate) async fn answered<T>(
        &self,
        limit: Duration,
        answer: impl Future<Output = Result<T, RedisError>>,
    ) -> Result<T, StoreError> {
        let mut answer = pin!(answer);
        loop {
            let before = self.beats();
            match timeout(limit, &mut answer).await {
                Ok(answer) => return answer.map_err(|error| errors::of_request(&error, limit)),
                Err(_) if self.beats() == before => return Err(StoreError::timed_out(limit)),
                // The server answers other requests.
                Err(_) => {}
            }
        }
    }
}

impl ReadObserver for Activity {
    fn read(&mut self, _bytes: &[u8]) {
        self.beat();
    }
}

/// A stream that counts its activity.
pub(crate) type ActivityStream<S> = ObservedStream<S, Activity>;

impl<S> ActivityStream<S> {
    pub(crate) fn new(stream: S) -> (Self, Activity) {
        let activity = Activity::default();
        (Self::observed(stream, activity.clone()), activity)
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt, duplex},
        time::{Instant, sleep},
    };

    use super::*;
    use crate::store::StoreErrorKind;

    const LIMIT: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn who_answers_others_has_time_to_answer() {
        let (mut server, stream) = duplex(64);
        let (mut stream, activity) = ActivityStream::new(stream);
        let slow = async {
            for _ in 0..20 {
                sleep(LIMIT * 9 / 10).await;
                server.write_u8(b'+').await.unwrap();
                assert_eq!(stream.read_u8().await.unwrap(), b'+');
            }
            Ok(())
        };
        let begun = Instant::now();
        assert_eq!(activity.answered(LIMIT, slow).await, Ok(()));
        assert!(begun.elapsed() >= LIMIT * 18);
    }

    #[tokio::test(start_paused = true)]
    async fn silence_is_told_after_the_limit() {
        let (mut server, stream) = duplex(64);
        let (mut stream, activity) = ActivityStream::new(stream);
        let begun = Instant::now();
        let silent = activity.answered(LIMIT, pending::<Result<(), RedisError>>());
        let error = silent.await.expect_err("nothing comes");
        assert_eq!(error.kind(), StoreErrorKind::TimedOut, "{error}");
        assert_eq!(begun.elapsed(), LIMIT);

        // Some answers, and then none: this is detected within twice the limit.
        let falls_silent = async {
            for _ in 0..3 {
                sleep(LIMIT / 2).await;
                server.write_u8(b'+').await.unwrap();
                assert_eq!(stream.read_u8().await.unwrap(), b'+');
            }
            pending::<Result<(), RedisError>>().await
        };
        let begun = Instant::now();
        let error = activity.answered(LIMIT, falls_silent).await;
        error.expect_err("nothing comes any more");
        assert!(begun.elapsed() <= LIMIT * 3 / 2 + 2 * LIMIT);
    }
}
