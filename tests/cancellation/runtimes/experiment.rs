//! One experiment: an operation begins on a runtime, and that ends at a chosen moment.

use std::{panic::AssertUnwindSafe, sync::Arc, thread};

use dlock_testkit::eventually;
use futures_util::FutureExt;
use tokio::{
    runtime::{Builder, Runtime},
    sync::oneshot,
};

use crate::{
    common::{LIMIT, soon},
    driver::Parking,
    operations::Operation,
    stage::{REAL, Scale, Stage},
    stepwise::Steps,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flavor {
    OneThread,
    Threads,
}

impl Flavor {
    pub(super) fn runtime(self) -> Runtime {
        let mut builder = match self {
            Self::OneThread => Builder::new_current_thread(),
            Self::Threads => Builder::new_multi_thread(),
        };
        builder.worker_threads(2).enable_all().build().unwrap()
    }
}

/// The runtime on which the manager was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Home {
    /// On the runtime that lives on.
    Elsewhere,
    /// On the one that ends, so that no task is left that could ask the store for anything; the store
    /// can release without a runtime.
    Here,
    /// The same, but the store cannot. The TTL frees the lock.
    HereAndUnableToRelease,
}

/// The operation's fate when its runtime ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is a task of it.
    EndsWithIt,
    /// It was only blocked on, and is dropped later, outside of any runtime.
    IsDroppedLater,
    /// Another runtime goes on with it, whose timers it does not know.
    GoesOnElsewhere,
}

/// The moment at which the runtime ends.
#[derive(Clone, Copy, Debug)]
pub(super) enum Moment {
    /// When the operation has been polled so many times.
    Polled(usize),
    /// When the store has come so far, whichever task asks it.
    Stepped(usize),
}

/// Makes the stage of an experiment, on the runtime that is entered.
pub(super) type Make<'a> = &'a dyn Fn(Scale, bool) -> (Stage, Arc<Steps>);

pub(super) struct Experiment<'a> {
    pub(super) operation: &'a Operation,
    pub(super) make: Make<'a>,
    pub(super) flavor: Flavor,
    pub(super) home: Home,
    pub(super) fate: Fate,
}

impl Experiment<'_> {
    /// Whether there may be no task left that can give back the lock, or that may: a store that releases
    /// at once would do so before the `min_hold` is over.
    fn needs_ttl(&self) -> bool {
        match self.home {
            Home::Elsewhere => false,
            Home::Here => self.operation.keeps,
            Home::HereAndUnableToRelease => true,
        }
    }

    /// Whether all was over before its moment had come.
    pub(super) fn at(&self, elsewhere: &Runtime, moment: Moment) -> bool {
        let _shown = Shown(self, moment);
        let here = self.flavor.runtime();
        let scale = Scale {
            // It is waited for where nothing else frees the lock.
            ttl: if self.needs_ttl() {
                REAL.brief
            } else {
                REAL.ttl
            },
            ..REAL
        };
        let (stage, steps) = {
            let _home = match self.home {
                Home::Elsewhere => elsewhere.enter(),
                _ => here.enter(),
            };
            (self.make)(scale, self.home != Home::HereAndUnableToRelease)
        };
        let around = elsewhere.spawn((self.operation.around)(stage.clone()));
        elsewhere.block_on(soon(stage.until_ready()));
        steps.count();
        let polls = match moment {
            Moment::Polled(polls) => polls,
            Moment::Stepped(step) => {
                steps.freeze_at(step);
                usize::MAX
            }
        };
        let scene = stage.noting((self.operation.begin)(stage.clone()));
        let (mut parking, told) = Parking::after(scene, polls);
        let was_over = if self.fate == Fate::EndsWithIt {
            here.spawn(parking);
            here.block_on(reached(told, &stage, &steps))
        } else {
            let was_over = here.block_on(async {
                tokio::select! {
                    () = &mut parking => unreachable!("it never ends"),
                    was_over = reached(told, &stage, &steps) => was_over,
                }
            });
            end(here, polls);
            steps.thaw();
            if let Some(scene) = parking.scene.take()
                && self.fate == Fate::GoesOnElsewhere
            {
                // It ends, or panics at a timer of the runtime that has gone.
                elsewhere
                    .block_on(soon(AssertUnwindSafe(scene).catch_unwind()))
                    .ok();
            }
            drop(parking);
            return self.look(elsewhere, &stage, &steps, around, was_over);
        };
        end(here, polls);
        steps.thaw();
        self.look(elsewhere, &stage, &steps, around, was_over)
    }

    /// Checks what is left after the end of the runtime.
    fn look(
        &self,
        elsewhere: &Runtime,
        stage: &Stage,
        steps: &Steps,
        around: tokio::task::JoinHandle<()>,
        was_over: bool,
    ) -> bool {
        stage.is_over();
        elsewhere.block_on(async {
            soon(around).await.unwrap();
            stage.assert_clean().await;
        });
        if !self.needs_ttl() {
            steps.assert_nothing_is_owed(self.operation.keeps);
        }
        was_over
    }
}

/// Prints the interruption, should the test fail.
struct Shown<'a>(&'a Experiment<'a>, Moment);

impl Drop for Shown<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            let Experiment {
                operation,
                flavor,
                home,
                fate,
                ..
            } = self.0;
            eprintln!(
                "{}: {flavor:?}, {home:?}, {fate:?}, {:?}",
                operation.name, self.1
            );
        }
    }
}

/// Whether the operation and what it has left behind is over; else it stands where it is to stand.
async fn reached(told: oneshot::Receiver<bool>, stage: &Stage, steps: &Steps) -> bool {
    let both = async {
        tokio::select! {
            has_ended = told => if !has_ended.unwrap() { return false },
            () = steps.frozen() => return false,
        }
        stage.is_over();
        tokio::select! {
            () = idle(stage) => true,
            () = steps.frozen() => false,
        }
    };
    soon(both).await
}

async fn idle(stage: &Stage) {
    eventually(LIMIT, "the manager has no key left", async || {
        stage.manager().active_keys() == 0
    })
    .await;
}

/// Ends it in one way or the other.
fn end(runtime: Runtime, way: usize) {
    if way.is_multiple_of(2) {
        drop(runtime);
    } else {
        runtime.shutdown_background();
    }
}
