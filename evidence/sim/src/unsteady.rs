//! A task that is polled when the seed wants it: late, behind others, or not again.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use tokio::time::{Instant, Sleep, sleep_until};

use crate::{host::Host, world::World};

/// A future that is polled late, and dropped after so many polls.
pub(crate) struct Unsteady<F> {
    world: Arc<World>,
    host: Arc<Host>,
    inner: Option<Pin<Box<F>>>,
    /// It is dropped when it would be polled once more.
    polls_left: Option<u64>,
    nap: Option<Pin<Box<Sleep>>>,
    gave_way: bool,
}

impl<F: Future> Unsteady<F> {
    pub(crate) fn new(world: &Arc<World>, host: &Arc<Host>, polls: Option<u64>, inner: F) -> Self {
        Self {
            world: world.clone(),
            host: host.clone(),
            inner: Some(Box::pin(inner)),
            polls_left: polls,
            nap: None,
            gave_way: false,
        }
    }

    /// Whether it has to wait before it is polled.
    fn rests(&mut self, context: &mut Context<'_>) -> bool {
        loop {
            if let Some(nap) = &mut self.nap {
                if nap.as_mut().poll(context).is_pending() {
                    return true;
                }
                self.nap = None;
                if let Some(until) = self.host.frozen_until() {
                    self.nap = Some(Box::pin(sleep_until(until)));
                    continue;
                }
                return false;
            }
            let (world, dice) = (&self.world, &self.world.dice);
            if let Some(until) = self.host.frozen_until() {
                self.nap = Some(Box::pin(sleep_until(until)));
            } else if world.plan.late_polls && !world.is_calm() && dice.chance(30) {
                let until = Instant::now() + dice.time(Duration::from_secs(3));
                self.nap = Some(Box::pin(sleep_until(until)));
                self.host.is_late_until(until);
                world.count(|counts| counts.event("poll late"));
            } else if !self.gave_way && dice.chance(100) {
                self.gave_way = true;
                context.waker().wake_by_ref();
                return true;
            } else {
                self.gave_way = false;
                return false;
            }
        }
    }
}

impl<F: Future> Future for Unsteady<F> {
    /// `None` if it was dropped.
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.rests(context) {
            return Poll::Pending;
        }
        match &mut self.polls_left {
            Some(0) => {
                self.inner = None;
                return Poll::Ready(None);
            }
            Some(left) => *left -= 1,
            None => {}
        }
        let inner = self.inner.as_mut();
        let inner = inner.expect("a future is not polled after its end");
        inner.as_mut().poll(context).map(Some)
    }
}
