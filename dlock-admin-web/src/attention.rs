//! Whether a browser looks. Without one, nothing is read from a store.

use std::{
    future::pending,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

/// The time for which reading goes on after the last browser has left: a page that is loaded again, or a program that asks
/// for one document after the other, finds a recent picture.
const LINGER: Duration = Duration::from_secs(5);

/// The time after which a task that has ended too early is replaced.
const PAUSE: Duration = Duration::from_secs(1);

/// The number of those who look at something, and whether a task reads it for them.
#[derive(Debug, Default)]
pub(super) struct Attention {
    state: Mutex<AttentionState>,
    /// Only the task waits for it.
    changed: Notify,
}

#[derive(Debug, Default)]
struct AttentionState {
    lookers: usize,
    /// The end of the time that begins when the last one leaves.
    until: Option<Instant>,
    is_served: bool,
    /// The time when a task has ended too early.
    failed: Option<Instant>,
}

/// One that looks, until it is dropped.
#[derive(Debug)]
pub(super) struct Looker(Arc<Attention>);

/// The task that reads. It is the only one until it is dropped, or attention is lost.
#[derive(Debug)]
pub(super) struct Duty {
    attention: Arc<Attention>,
    has_ended: bool,
}

impl Attention {
    /// Counts one that looks. Returns a [`Duty`] too if no task reads: the caller starts one.
    ///
    /// If it is the first one that looks, it calls `begin` before any other can look.
    pub(super) fn look(self: &Arc<Self>, begin: impl FnOnce()) -> (Looker, Option<Duty>) {
        let mut state = self.state();
        let starts = !std::mem::replace(&mut state.is_served, true);
        if starts {
            state.failed = None;
        }
        if starts && state.lookers == 0 {
            begin();
        }
        state.lookers += 1;
        drop(state);
        self.changed.notify_one();
        let duty = starts.then(|| Duty {
            attention: self.clone(),
            has_ended: false,
        });
        (Looker(self.clone()), duty)
    }

    /// Ends the task at once if none looks, and returns `true` then. The caller lets no other one look.
    pub(super) fn dismiss(&self) -> bool {
        let mut state = self.state();
        if state.lookers > 0 {
            return false;
        }
        state.until = Some(Instant::now());
        drop(state);
        self.changed.notify_one();
        true
    }

    /// Returns `true` if no task reads, which is so some time after the last one has left.
    pub(super) fn is_lost(&self) -> bool {
        !self.state().is_served
    }

    fn state(&self) -> MutexGuard<'_, AttentionState> {
        // Every change is complete.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Looker {
    /// Waits until another task must be started by another look, because the one that reads has ended too early. A task
    /// that ends while this waits is not noticed: it has to tell that by itself.
    pub(super) async fn forsaken(&self) {
        let failed = self.0.state().failed;
        match failed {
            Some(failed) => sleep_until(failed + PAUSE).await,
            None => pending().await,
        }
    }
}

impl Drop for Looker {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.lookers -= 1;
        if state.lookers == 0 {
            state.until = Some(Instant::now() + LINGER);
        }
        drop(state);
        self.0.changed.notify_one();
    }
}

impl Duty {
    /// Waits until no browser has looked for a while. From then on, the next one that looks starts another task.
    pub(super) async fn lost(&mut self) {
        loop {
            let until = {
                let mut state = self.attention.state();
                let until = state.until.filter(|_| state.lookers == 0);
                if until.is_some_and(|until| until <= Instant::now()) {
                    state.is_served = false;
                    self.has_ended = true;
                    return;
                }
                until
            };
            match until {
                Some(until) => tokio::select! {
                    () = sleep_until(until) => {}
                    () = self.attention.changed.notified() => {}
                },
                None => self.attention.changed.notified().await,
            }
        }
    }
}

impl Duty {
    /// Ends the duty when its task is dropped. Returns `true` if that is too early: the runtime may end, and a reading may
    /// panic.
    pub(super) fn ends_too_early(&mut self) -> bool {
        if std::mem::replace(&mut self.has_ended, true) {
            return false;
        }
        let mut state = self.attention.state();
        state.is_served = false;
        state.failed = Some(Instant::now());
        true
    }
}

impl Drop for Duty {
    fn drop(&mut self) {
        self.ends_too_early();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_task_reads_for_all_and_ends_some_time_after_the_last_has_left() {
        let attention = Arc::new(Attention::default());
        let (one, duty) = attention.look(|| ());
        let mut duty = duty.expect("it is the first");
        let (other, second) = attention.look(|| ());
        assert!(second.is_none(), "a task reads already");
        let began = Instant::now();
        let task = tokio::spawn(async move { duty.lost().await });
        tokio::time::sleep(LINGER * 3).await;
        drop(one);
        tokio::time::sleep(LINGER * 3).await;
        assert!(!task.is_finished(), "another one looks");
        drop(other);
        tokio::time::sleep(LINGER / 2).await;
        let (again, duty) = attention.look(|| ());
        assert!(duty.is_none(), "it lingers");
        tokio::time::sleep(LINGER * 2).await;
        assert!(!task.is_finished() && !attention.is_lost());
        drop(again);
        task.await.expect("it ends");
        assert_eq!(began.elapsed(), LINGER * 9 + LINGER / 2);
        assert!(attention.is_lost());
        assert!(attention.look(|| ()).1.is_some(), "another task is started");
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_none_looks_for_can_be_dismissed() {
        let attention = Arc::new(Attention::default());
        let (one, duty) = attention.look(|| ());
        let mut duty = duty.expect("it is the first");
        assert!(!attention.dismiss(), "one looks");
        drop(one);
        assert!(attention.dismiss());
        let began = Instant::now();
        duty.lost().await;
        assert_eq!(began.elapsed(), Duration::ZERO);
    }

    #[tokio::test]
    async fn a_task_that_was_dropped_is_replaced() {
        let attention = Arc::new(Attention::default());
        let (_one, duty) = attention.look(|| ());
        drop(duty);
        assert!(attention.look(|| ()).1.is_some());
    }
    #[tokio::test(start_paused = true)]
    async fn the_first_one_that_looks_begins_before_any_other_can_look() {
        let attention = Arc::new(Attention::default());
        let mut count = 0;
        let mut begin = || {
            count += 1;
            assert!(attention.state.try_lock().is_err(), "no other one can look");
        };
        let (one, duty) = attention.look(&mut begin);
        let (other, _) = attention.look(&mut begin);
        let mut duty = duty.expect("it is the first");
        drop((one, other));
        duty.lost().await;
        let (_one, duty) = attention.look(&mut begin);
        drop(duty);
        // It takes the place of a task that has ended too early, and others look already.
        assert!(attention.look(&mut begin).1.is_some());
        assert_eq!(count, 2);
    }

    #[tokio::test(start_paused = true)]
    async fn those_who_look_replace_a_task_after_a_pause() {
        let attention = Arc::new(Attention::default());
        let (one, duty) = attention.look(|| ());
        drop(duty);
        let began = Instant::now();
        one.forsaken().await;
        assert_eq!(began.elapsed(), PAUSE);
        let (other, duty) = attention.look(|| ());
        let waits = tokio::time::timeout(LINGER, other.forsaken());
        assert!(waits.await.is_err(), "another task reads");
        drop(duty);
    }
}
