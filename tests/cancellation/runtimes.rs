//! Runtimes that end while something is at any of its awaits, on them, and others that live on.

use std::{
    panic::{AssertUnwindSafe, resume_unwind},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread::{self, ScopedJoinHandle},
};

use dlock_testkit::eventually;
use futures_util::FutureExt;
use tokio::{
    runtime::{Builder, Runtime},
    sync::oneshot,
};

use crate::common::{LIMIT, soon};
use crate::{
    operations::{ALL, OF_A_QUORUM, Operation, QUICK},
    panics::{assert_no_others, watch_for_others},
    stage::{Count, Parking, REAL, Scale, Stage, Tally, assert_no_task_is_left},
    stepwise::Steps,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flavor {
    OneThread,
    Threads,
}

impl Flavor {
    fn runtime(self) -> Runtime {
        let mut builder = match self {
            Self::OneThread => Builder::new_current_thread(),
            Self::Threads => Builder::new_multi_thread(),
        };
        builder.worker_threads(2).enable_all().build().unwrap()
    }
}

/// Where the manager was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Home {
    /// On the runtime that lives on.
    Elsewhere,
    /// On the one that ends, so that nobody is left who could ask the store for anything; the store
    /// can release without a runtime.
    Here,
    /// The same, but the store cannot. The TTL frees the lock.
    HereAndUnableToRelease,
}

/// What becomes of the operation when its runtime ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// It is a task of it.
    EndsWithIt,
    /// It was only blocked on, and is dropped later, outside of any runtime.
    IsDroppedLater,
    /// Another runtime goes on with it, whose timers it does not know.
    GoesOnElsewhere,
}

/// When the runtime ends.
#[derive(Clone, Copy, Debug)]
enum Moment {
    /// When the operation has been polled so many times.
    Polled(usize),
    /// When the store has come so far, whoever asks it.
    Stepped(usize),
}

const EVERYWHERE: [(Flavor, Home); 4] = [
    (Flavor::OneThread, Home::Here),
    (Flavor::OneThread, Home::Elsewhere),
    (Flavor::Threads, Home::Here),
    (Flavor::Threads, Home::Elsewhere),
];

/// Makes what an experiment needs, on the runtime that is entered.
type Make<'a> = &'a (dyn Fn(Scale, bool) -> (Stage, Arc<Steps>) + Sync);

/// Experiments wait more than they work, so there are more threads than processors.
const WORKERS: usize = 32;

/// The number of consecutive moments of one operation that are tried at the same time: how many there are is not known
/// before, and the longest operation would be the last one to end.
const AT_ONCE: usize = 4;

struct Experiment<'a> {
    operation: &'a Operation,
    make: Make<'a>,
    flavor: Flavor,
    home: Home,
    fate: Fate,
    at_once: usize,
}

impl Experiment<'_> {
    /// Whether there may be nobody left who can give back the lock, or who may: a store that releases
    /// at once would do so before the `min_hold` is over.
    fn needs_ttl(&self) -> bool {
        match self.home {
            Home::Elsewhere => false,
            Home::Here => self.operation.keeps,
            Home::HereAndUnableToRelease => true,
        }
    }

    /// Whether all was over before its moment had come.
    fn at(&self, elsewhere: &Runtime, moment: Moment) -> bool {
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
        let (tell, told) = oneshot::channel();
        let mut parking = Box::pin(Parking {
            scene: Some(stage.noting((self.operation.begin)(stage.clone()))),
            left: polls,
            tell: Some(tell),
        });
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

    /// What is left after the end of the runtime.
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

    /// The number of moments at which the runtime could end.
    fn everywhere(&self, elsewhere: &Runtime, moment: fn(usize) -> Moment) -> usize {
        let at = |count| self.at(elsewhere, moment(count));
        let mut groups = (0..).step_by(self.at_once);
        let end = groups.find_map(|first| {
            let were_over = thread::scope(|scope| {
                let moments =
                    (first..first + self.at_once).map(|count| scope.spawn(move || at(count)));
                let moments: Vec<_> = moments.collect();
                let ended = moments.into_iter().map(ScopedJoinHandle::join);
                ended
                    .map(|it| it.unwrap_or_else(|panic| resume_unwind(panic)))
                    .collect::<Vec<_>>()
            });
            let end = were_over.into_iter().position(|was_over| was_over);
            end.map(|end| first + end)
        });
        end.expect("an operation ends")
    }
}

/// Says which interruption it was, should the test fail.
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
        stage.manager().active() == 0
    })
    .await;
}

/// In one way or the other.
fn end(runtime: Runtime, way: usize) {
    if way.is_multiple_of(2) {
        drop(runtime);
    } else {
        runtime.shutdown_background();
    }
}

/// What is interrupted, and where.
struct Series<'a> {
    what: &'static str,
    operations: &'a [&'a Operation],
    runtimes: &'a [(Flavor, Home)],
    fate: Fate,
    at_once: usize,
    /// The least of each kind of moment that an operation is to have.
    least: fn(&Operation) -> [usize; 2],
}

impl Series<'_> {
    /// Tries everything, with what `prepare` makes once for each thread that works on it.
    fn run<M: Fn(Scale, bool) -> (Stage, Arc<Steps>) + Sync>(
        &self,
        prepare: impl Fn() -> M + Sync,
    ) {
        const MOMENTS: [fn(usize) -> Moment; 2] = [Moment::Polled, Moment::Stepped];

        watch_for_others();
        let mut ways = Vec::new();
        for operation in 0..self.operations.len() {
            for runtime in self.runtimes {
                ways.extend([0, 1].map(|moment| (operation, *runtime, moment)));
            }
        }
        let next = AtomicUsize::new(0);
        let counts = Mutex::new(vec![None; ways.len()]);
        let work = || {
            let elsewhere = Flavor::Threads.runtime();
            let make = {
                let _elsewhere = elsewhere.enter();
                prepare()
            };
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some(&(operation, (flavor, home), moment)) = ways.get(number) else {
                    break;
                };
                let experiment = Experiment {
                    operation: self.operations[operation],
                    make: &make,
                    flavor,
                    home,
                    fate: self.fate,
                    at_once: self.at_once,
                };
                let interruptions = experiment.everywhere(&elsewhere, MOMENTS[moment]);
                let least = (self.least)(experiment.operation)[moment];
                let count = Count {
                    interruptions,
                    least,
                };
                counts.lock().unwrap()[number] = Some((operation, count));
            }
            drop(make);
            let metrics = elsewhere.metrics();
            elsewhere.block_on(assert_no_task_is_left(&metrics, 0));
        };
        thread::scope(|scope| {
            for _ in 0..WORKERS.min(ways.len()) {
                scope.spawn(work);
            }
        });
        let counts: Vec<_> = counts.into_inner().unwrap().into_iter().flatten().collect();
        assert_eq!(counts.len(), ways.len(), "each has been counted");
        let mut tally = Tally::of(self.what);
        for (number, operation) in self.operations.iter().enumerate() {
            let its = counts.iter().filter(|(it, _)| *it == number);
            tally.note(operation, its.map(|(_, count)| *count).collect());
        }
        tally.finish();
        assert_no_others();
    }
}

fn every_operation(
    what: &'static str,
    operations: &[Operation],
    make: fn(Scale, bool) -> (Stage, Arc<Steps>),
    runtimes: &[(Flavor, Home)],
    fate: Fate,
) {
    let operations: Vec<_> = operations.iter().collect();
    let series = Series {
        what,
        operations: &operations,
        runtimes,
        fate,
        at_once: AT_ONCE,
        // What two threads do at the same time wakes it once.
        least: |operation| [operation.awaits.div_ceil(2), operation.steps],
    };
    series.run(|| make);
}

#[test]
fn a_runtime_that_ends_with_whatever_it_runs_leaves_nothing() {
    every_operation(
        "the runtime ends, with the task",
        ALL,
        Stage::stepwise,
        &EVERYWHERE,
        Fate::EndsWithIt,
    );
}

#[test]
fn a_runtime_that_ends_before_what_it_was_blocked_on_leaves_nothing() {
    every_operation(
        "the runtime ends, and the future is dropped later",
        QUICK,
        Stage::stepwise,
        &EVERYWHERE[1..3],
        Fate::IsDroppedLater,
    );
}

#[test]
fn whatever_goes_on_on_another_runtime_than_it_began_ends_there() {
    every_operation(
        "the runtime ends, and another one polls the future",
        QUICK,
        Stage::stepwise,
        &EVERYWHERE[1..3],
        Fate::GoesOnElsewhere,
    );
}

#[test]
fn a_runtime_that_ends_alone_leaves_the_rest_to_the_ttl() {
    every_operation(
        "the only runtime ends, and the store cannot release without one",
        // Each interruption costs a TTL.
        &ALL[..8],
        Stage::stepwise,
        &[
            (Flavor::OneThread, Home::HereAndUnableToRelease),
            (Flavor::Threads, Home::HereAndUnableToRelease),
        ],
        Fate::EndsWithIt,
    );
}

#[test]
fn a_runtime_that_ends_while_a_quorum_is_asked_leaves_nothing() {
    every_operation(
        "the runtime ends, of several stores",
        OF_A_QUORUM,
        Stage::quorum,
        &EVERYWHERE,
        Fate::EndsWithIt,
    );
}

/// Over a real connection, which lives where the manager was made, and to a real server.
#[cfg(feature = "redis")]
#[test]
fn a_runtime_that_ends_while_a_server_is_asked_leaves_nothing() {
    use crate::common::{Env, Redis};

    let runtime = Flavor::Threads.runtime();
    let env = runtime.block_on(Redis::start());
    let operations: Vec<_> = QUICK.iter().filter(|it| !it.ends_manager()).collect();
    let series = Series {
        what: "the runtime ends, over a server",
        operations: &operations,
        runtimes: &[
            (Flavor::OneThread, Home::Elsewhere),
            (Flavor::Threads, Home::Elsewhere),
        ],
        fate: Fate::EndsWithIt,
        // Those of one thread share a manager, which has to be idle at the end.
        at_once: 1,
        // When an answer comes is not for the test to say: some of its awaits may not be. A server
        // is not stopped at its steps.
        least: |_| [1, 0],
    };
    series.run(|| {
        let connect = async { [env.manager().await, env.manager().await] };
        let [manager, other] = tokio::runtime::Handle::current().block_on(connect);
        move |scale, _| {
            let stage = Stage::of(manager.clone(), other.clone(), Vec::new(), scale);
            (stage, Arc::default())
        }
    });
    runtime.block_on(async {
        assert_eq!(env.locks().await, Vec::<String>::new());
    });
}
