//! The driver of all interruptions: each operation, in each way, at one point after the other until the
//! operation ends before the point comes.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use dlock_testkit::{Polled, poll_times, poll_times_then_wake};
use tokio::sync::oneshot;

use crate::{
    operations::{ALL, OF_A_QUORUM, Operation},
    stage::{PAUSED, Scale, Scene, Stage},
    stepwise::Steps,
};

/// The state in which a future is dropped: while it waits, or when what it waited for has come.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Drops {
    Parked,
    Woken,
}

/// Polls a future so many times and drops it, unless it has ended by then.
pub(crate) async fn poll<F: Future>(future: F, polls: usize, drops: Drops) -> Polled<F::Output> {
    // Boxed: what is polled here is large, and there are many of it.
    let future = Box::pin(future);
    match drops {
        Drops::Parked => poll_times(future, polls).await,
        Drops::Woken => poll_times_then_wake(future, polls).await,
    }
}

/// Interrupts at one point after the other until `has_ended` says that the end came first; the number of
/// interruptions.
pub(crate) async fn until_the_end(
    points: impl IntoIterator<Item = usize>,
    mut has_ended: impl AsyncFnMut(usize) -> bool,
) -> usize {
    for (interruptions, point) in points.into_iter().enumerate() {
        if has_ended(point).await {
            return interruptions;
        }
    }
    unreachable!("an operation ends")
}

/// The same for drops after each of these numbers of polls, parked and woken.
pub(crate) async fn at_every_await(
    polls: impl IntoIterator<Item = usize> + Clone,
    mut has_ended: impl AsyncFnMut(usize, Drops) -> bool,
) -> [usize; 2] {
    let mut interruptions = [0; 2];
    for (count, drops) in interruptions.iter_mut().zip([Drops::Parked, Drops::Woken]) {
        *count = until_the_end(polls.clone(), async |polls| has_ended(polls, drops).await).await;
    }
    interruptions
}

/// Interrupts one operation after the other, each in as many ways as `interrupt` counts; `what` is the
/// name of this in the output.
pub(crate) async fn every_operation(
    what: &'static str,
    operations: &[Operation],
    mut interrupt: impl AsyncFnMut(&Operation) -> Vec<Count>,
) {
    let mut tally = Tally::of(what);
    for operation in operations {
        tally.note(operation, interrupt(operation).await);
    }
    tally.finish();
}

/// Stores that can be stopped at every step, and what is interrupted over them.
pub(crate) struct Stepped {
    pub(crate) operations: &'static [Operation],
    pub(crate) make: fn(Scale, bool) -> (Stage, Arc<Steps>),
    /// The number of stores that get each request at least.
    least: usize,
}

pub(crate) const ONE_STORE: Stepped = Stepped {
    operations: ALL,
    make: Stage::stepwise,
    least: 1,
};

pub(crate) const QUORUM: Stepped = Stepped {
    operations: OF_A_QUORUM,
    make: Stage::quorum,
    // The majority of five.
    least: 3,
};

/// Interrupts every operation at one step of its stores after the other, with paused time.
pub(crate) async fn at_every_step(
    what: &'static str,
    stores: Stepped,
    mut has_ended: impl AsyncFnMut(&Operation, usize, (Stage, Arc<Steps>)) -> bool,
) {
    every_operation(what, stores.operations, async |operation| {
        let interruptions = until_the_end(0.., async |step| {
            has_ended(operation, step, (stores.make)(PAUSED, false)).await
        });
        counts([interruptions.await], stores.least * operation.steps)
    })
    .await;
}

/// Numbers of polls: each at first. An operation that fails asks again and again, and then longer and longer
/// steps are enough.
pub(crate) fn polls() -> impl Iterator<Item = usize> + Clone {
    const EACH: usize = 12;
    std::iter::successors(Some(0), |polls| Some(polls + 1 + polls / EACH * polls / 4))
}

/// The number of interruptions in one way, and the least that is to be.
#[derive(Clone, Copy)]
pub(crate) struct Count {
    pub(crate) interruptions: usize,
    pub(crate) least: usize,
}

/// Each of these with the same least.
pub(crate) fn counts(interruptions: impl IntoIterator<Item = usize>, least: usize) -> Vec<Count> {
    let counts = interruptions.into_iter().map(|interruptions| Count {
        interruptions,
        least,
    });
    counts.collect()
}

/// The number of interruptions of each operation.
pub(crate) struct Tally {
    what: &'static str,
    /// One count for each way in which the operation was interrupted.
    tried: Vec<(&'static str, Vec<Count>)>,
}

impl Tally {
    pub(crate) fn of(what: &'static str) -> Self {
        let tried = Vec::new();
        Self { what, tried }
    }

    /// Notes the interruptions of `operation`, one count for each way.
    pub(crate) fn note(&mut self, operation: &Operation, counts: Vec<Count>) {
        self.tried.push((operation.name, counts));
    }

    /// Prints all of them, and checks that they are enough: an await that is not reached any more would
    /// not be noticed otherwise. One way does not make up for another.
    pub(crate) fn finish(self) {
        let sum = |counts: &[Count]| counts.iter().map(|it| it.interruptions).sum::<usize>();
        let all: usize = self.tried.iter().map(|(_, counts)| sum(counts)).sum();
        println!("{}: {all} interruptions", self.what);
        let mut is_enough = true;
        for (name, counts) in &self.tried {
            let ways = counts.iter().map(|it| {
                let Count {
                    interruptions,
                    least,
                } = it;
                format!(" {interruptions}/{least}")
            });
            println!("{:>6}  {name}:{}", sum(counts), ways.collect::<String>());
            is_enough &= !counts.is_empty();
            is_enough &= counts.iter().all(|it| it.interruptions >= it.least);
        }
        assert!(is_enough && !self.tried.is_empty(), "{}", self.what);
    }
}

/// An operation that is polled so many times, each time after it was woken, and held where it waits then.
pub(crate) struct Parking {
    pub(crate) scene: Option<Scene>,
    left: usize,
    /// Gets `true` if the operation has ended, `false` when it is held.
    tell: Option<oneshot::Sender<bool>>,
}

impl Parking {
    /// With the receiver of what [`Parking::tell`] sends.
    pub(crate) fn after(scene: Scene, polls: usize) -> (Pin<Box<Self>>, oneshot::Receiver<bool>) {
        let (tell, told) = oneshot::channel();
        let parking = Self {
            scene: Some(scene),
            left: polls,
            tell: Some(tell),
        };
        (Box::pin(parking), told)
    }
}

impl Future for Parking {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut has_ended = false;
        if self.left > 0
            && let Some(scene) = &mut self.scene
        {
            has_ended = scene.as_mut().poll(context).is_ready();
            self.left -= 1;
        }
        if has_ended {
            self.scene = None;
        }
        if (has_ended || self.left == 0)
            && let Some(tell) = self.tell.take()
        {
            tell.send(has_ended).ok();
        }
        // The runtime is to have it as long as it lives.
        Poll::Pending
    }
}
