//! Dropping a future at a chosen await, so that a test can try every one of them.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// The state of a future that was polled a limited number of times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Polled<T> {
    /// It was ready before the polls ran out.
    Finished(T),
    /// It was still pending and has been dropped.
    Dropped,
}

/// Polls `future` at most `polls` times, each time only after it asked to be woken, then
/// drops it where it waits.
///
/// Counting up until the answer is [`Polled::Finished`] visits every await. A future that is
/// never woken waits for ever, as it would anywhere: put a timeout around the call.
///
/// ```no_run
/// # async fn work() {}
/// # async fn doc() {
/// use dlock_waiting::{Polled, poll_times};
///
/// for polls in 0.. {
///     if let Polled::Finished(()) = poll_times(work(), polls).await {
///         break;
///     }
///     // Dropped at its await number `polls`: look at what it left behind.
/// }
/// # }
/// ```
pub async fn poll_times<F: Future>(future: F, polls: usize) -> Polled<F::Output> {
    drive(future, polls, Last::Parked).await
}

/// Like [`poll_times`], but drops the future only when it has been woken after the last poll.
///
/// This is the nastier half of cancellation: what the future waited for has been given to it,
/// and it is dropped before it could take it.
pub async fn poll_times_then_wake<F: Future>(future: F, polls: usize) -> Polled<F::Output> {
    drive(future, polls, Last::Woken).await
}

/// The state in which a future is dropped.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Last {
    Parked,
    Woken,
}

async fn drive<F: Future>(future: F, polls: usize, last: Last) -> Polled<F::Output> {
    if polls == 0 {
        return Polled::Dropped;
    }
    let mut future = pin!(future);
    let mut left = polls;
    let relay = Arc::new(Relay::default());
    let waker = Waker::from(Arc::clone(&relay));
    poll_fn(|context| {
        // First the waker, then the question: a wake-up in between is not missed.
        relay.pass_on_to(context.waker());
        if !relay.woken.swap(false, Ordering::AcqRel) {
            return Poll::Pending;
        }
        if left == 0 {
            return Poll::Ready(Polled::Dropped);
        }
        left -= 1;
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => Poll::Ready(Polled::Finished(output)),
            Poll::Pending if left == 0 && last == Last::Parked => Poll::Ready(Polled::Dropped),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// Tells a wake-up of the future apart from one of the task around it.
struct Relay {
    woken: AtomicBool,
    outer: Mutex<Waker>,
}

impl Default for Relay {
    fn default() -> Self {
        Self {
            // The first poll needs no wake-up.
            woken: AtomicBool::new(true),
            outer: Mutex::new(Waker::noop().clone()),
        }
    }
}

impl Relay {
    fn pass_on_to(&self, waker: &Waker) {
        let mut outer = self.outer.lock().unwrap_or_else(PoisonError::into_inner);
        outer.clone_from(waker);
    }
}

impl Wake for Relay {
    fn wake(self: Arc<Self>) {
        self.woken.store(true, Ordering::Release);
        let outer = self
            .outer
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        // Outside the lock: an executor may run the task right here.
        outer.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::sync::oneshot;
    use tokio::task::yield_now;

    #[tokio::test]
    async fn every_await_is_reached() {
        let reached = Mutex::new(0);
        for polls in 0..=4 {
            *reached.lock().unwrap() = 0;
            let outcome = poll_times(
                async {
                    for step in 1..=3 {
                        *reached.lock().unwrap() = step;
                        yield_now().await;
                    }
                    "done"
                },
                polls,
            )
            .await;
            assert_eq!(*reached.lock().unwrap(), polls.min(3));
            let expected = if polls == 4 {
                Polled::Finished("done")
            } else {
                Polled::Dropped
            };
            assert_eq!(outcome, expected);
        }
    }

    #[tokio::test]
    async fn wake_ups_of_the_task_are_not_polls() {
        let (sender, receiver) = oneshot::channel();
        let noise = async {
            for _ in 0..10 {
                yield_now().await;
            }
            sender.send(7).unwrap();
        };
        let (outcome, ()) = tokio::join!(poll_times(receiver, 2), noise);
        assert_eq!(outcome, Polled::Finished(Ok(7)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_woken_future_is_dropped_before_it_looks() {
        let before = tokio::time::Instant::now();
        let sleep = tokio::time::sleep(Duration::from_secs(1));
        assert_eq!(poll_times_then_wake(sleep, 1).await, Polled::Dropped);
        assert!(before.elapsed() >= Duration::from_secs(1));
    }
}
