//! Background tasks of a store that restart after every interruption.
//!
//! A task ends early in two ways. If it or a function that it calls panics, it continues after a pause that
//! grows with each consecutive panic. If its runtime ends, it is dropped at any await; its work then waits for
//! the next request, and continues on the runtime of that request.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::FutureExt;
use tokio::{
    runtime,
    sync::watch,
    time::{Instant, sleep},
};

use crate::{
    process::here,
    store::{StoreError, StoreErrorKind, redis::protocol::errors},
};

/// The first pause after a panic.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The work of a service.
pub(crate) trait Work: Send + 'static {
    /// Runs until there is nothing left to do.
    ///
    /// It may be dropped at any await, and be called again after that.
    fn run(&mut self) -> impl Future<Output = ()> + Send;

    /// Called when a run has ended early, with the text of the panic if there was one.
    fn interrupted(&mut self, panic: Option<&str>);
}

/// A background task. It runs while this value lives.
pub(crate) struct Service<W: Work>(Arc<WorkCell<W>>);

struct WorkCell<W> {
    /// The work, while no task runs it.
    work: Mutex<Option<W>>,
    stage: watch::Sender<Stage>,
    /// Set when the task has ended early. Several services may share it.
    is_interrupted: Arc<AtomicBool>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// A task runs the work, as far as is known.
    Running,
    /// The task's runtime has ended.
    Idle,
    /// The work is not needed any more, or it is done.
    Closed,
}

impl<W: Work> Service<W> {
    /// Starts the work on `home`.
    pub(crate) fn start(work: W, home: &runtime::Handle) -> Self {
        Self::start_watched(work, home, Arc::default())
    }

    /// The same. `is_interrupted` is set when the task ends early.
    pub(crate) fn start_watched(
        work: W,
        home: &runtime::Handle,
        is_interrupted: Arc<AtomicBool>,
    ) -> Self {
        let service = Self(Arc::new(WorkCell {
            work: Mutex::new(Some(work)),
            stage: watch::Sender::new(Stage::Idle),
            is_interrupted,
        }));
        service.run_on(home);
        service
    }

    /// Restarts the work on the current runtime if its own has ended. Otherwise it costs almost nothing.
    pub(crate) fn revive(&self) {
        let is_interrupted = &self.0.is_interrupted;
        if is_interrupted.load(Ordering::Acquire) && runtime::Handle::try_current().is_ok() {
            is_interrupted.store(false, Ordering::SeqCst);
            self.revive_if_idle();
        }
    }

    /// The same, even if another caller has already reset `is_interrupted`.
    pub(crate) fn revive_if_idle(&self) {
        let is_idle = *self.0.stage.borrow() == Stage::Idle;
        if is_idle && let Ok(here) = runtime::Handle::try_current() {
            self.run_on(&here);
        }
    }

    /// Keeps the work running for a request that needs it. Returns the reason when that is impossible.
    pub(crate) async fn keep_going(&self) -> StoreError {
        let mut stage = self.0.stage.subscribe();
        loop {
            let ended = stage.wait_for(|stage| *stage != Stage::Running).await;
            // The sender lives as long as `self`.
            if ended.is_ok_and(|stage| *stage == Stage::Closed) {
                let message = "the connection was closed, because it is no longer needed";
                return StoreError::new(StoreErrorKind::Unreachable, message);
            }
            self.revive_if_idle();
            if *self.0.stage.borrow() == Stage::Idle {
                return errors::no_runtime("the tokio runtime of the request has shut down");
            }
        }
    }

    /// Ends the work permanently.
    pub(crate) fn close(&self) {
        self.0.stage.send_replace(Stage::Closed);
        drop(self.0.take());
    }

    fn run_on(&self, runtime: &runtime::Handle) {
        let Some(work) = self.0.take() else {
            return;
        };
        self.0.enter(Stage::Running);
        let task = WorkTask {
            work: Some(work),
            cell: self.0.clone(),
        };
        // Not under the mutex: a runtime that has ended drops the task at once.
        runtime.spawn(here(task.run()));
    }
}

impl<W: Work> Drop for Service<W> {
    fn drop(&mut self) {
        self.close();
    }
}

impl<W> WorkCell<W> {
    fn take(&self) -> Option<W> {
        // Every change under the mutex is complete before a panic is possible.
        let mut work = self.work.lock().unwrap_or_else(PoisonError::into_inner);
        work.take()
    }

    /// Stores the work for the next run, unless the service is closed.
    fn put(&self, work: W) {
        let mut cell = self.work.lock().unwrap_or_else(PoisonError::into_inner);
        if *self.stage.borrow() == Stage::Closed {
            drop(cell);
            drop(work);
            return;
        }
        *cell = Some(work);
    }

    fn enter(&self, next: Stage) {
        self.stage.send_if_modified(|stage| {
            let is_open = *stage != Stage::Closed;
            if is_open {
                *stage = next;
            }
            is_open
        });
    }
}

/// The work while a task runs it. Dropping it stores the work for the next run.
struct WorkTask<W: Work> {
    work: Option<W>,
    cell: Arc<WorkCell<W>>,
}

impl<W: Work> WorkTask<W> {
    async fn run(mut self) {
        let mut stage = self.cell.stage.subscribe();
        let mut pause = FIRST_PAUSE;
        while let Some(work) = &mut self.work {
            let begun = Instant::now();
            let run = AssertUnwindSafe(work.run()).catch_unwind();
            let outcome = tokio::select! {
                biased;
                _ = stage.wait_for(|stage| *stage == Stage::Closed) => Ok(()),
                outcome = run => outcome,
            };
            let Err(panic) = outcome else {
                self.cell.stage.send_replace(Stage::Closed);
                return;
            };
            interrupt(work, Some(&words(&*panic)));
            // The payload of a panic may panic too when it is dropped.
            drop(catch_unwind(AssertUnwindSafe(|| drop(panic))));
            if begun.elapsed() > pause {
                pause = FIRST_PAUSE;
            }
            tokio::select! {
                _ = stage.wait_for(|stage| *stage == Stage::Closed) => {}
                () = sleep(pause) => {}
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

impl<W: Work> Drop for WorkTask<W> {
    fn drop(&mut self) {
        let Some(mut work) = self.work.take() else {
            return;
        };
        if *self.cell.stage.borrow() == Stage::Closed {
            return;
        }
        interrupt(&mut work, None);
        self.cell.put(work);
        self.cell.enter(Stage::Idle);
        self.cell.is_interrupted.store(true, Ordering::SeqCst);
    }
}

fn interrupt(work: &mut impl Work, panic: Option<&str>) {
    drop(catch_unwind(AssertUnwindSafe(|| work.interrupted(panic))));
}

/// Returns the text of a panic.
fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("unknown cause").to_owned()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use tokio::runtime::{Builder, Runtime};

    use super::*;

    /// Panics several times, and then runs forever.
    struct Fragile {
        panics: usize,
        runs: Arc<AtomicUsize>,
        moments: Arc<Mutex<Vec<Instant>>>,
        is_going: watch::Sender<bool>,
    }

    impl Fragile {
        fn new(panics: usize) -> (Self, Arc<AtomicUsize>, Arc<Mutex<Vec<Instant>>>) {
            let (runs, moments) = (Arc::default(), Arc::default());
            let fragile = Self {
                panics,
                runs: Arc::clone(&runs),
                moments: Arc::clone(&moments),
                is_going: watch::Sender::new(false),
            };
            (fragile, runs, moments)
        }
    }

    impl Work for Fragile {
        async fn run(&mut self) {
            self.moments.lock().unwrap().push(Instant::now());
            let run = self.runs.fetch_add(1, Ordering::SeqCst);
            assert!(run >= self.panics, "run {run}");
            self.is_going.send_replace(true);
            std::future::pending::<()>().await;
        }

        fn interrupted(&mut self, panic: Option<&str>) {
            assert!(panic.is_none_or(|it| it.starts_with("run ")));
            self.is_going.send_replace(false);
            panic!("not even this ends it");
        }
    }

    async fn going(mut is_going: watch::Receiver<bool>) {
        is_going.wait_for(|it| *it).await.expect("it lives");
    }

    fn runtime() -> Runtime {
        Builder::new_current_thread().enable_all().build().unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn what_panics_goes_on_after_growing_pauses() {
        const PANICS: usize = 12;
        let (work, _, moments) = Fragile::new(PANICS);
        let is_going = work.is_going.subscribe();
        let _service = Service::start(work, &runtime::Handle::current());
        going(is_going).await;
        let moments = moments.lock().unwrap();
        assert_eq!(moments.len(), PANICS + 1);
        let pauses: Vec<_> = moments.windows(2).map(|two| two[1] - two[0]).collect();
        assert!(pauses[0] >= FIRST_PAUSE, "{pauses:?}");
        assert!(pauses.is_sorted(), "{pauses:?}");
        assert!(pauses[PANICS - 1] >= LONGEST_PAUSE, "{pauses:?}");
    }

    #[test]
    fn the_work_goes_on_on_the_runtime_of_who_needs_it() {
        let (work, runs, _) = Fragile::new(0);
        let (is_going, first) = (work.is_going.subscribe(), runtime());
        let service = Service::start(work, first.handle());
        first.block_on(going(is_going.clone()));
        drop(first);
        assert!(!*is_going.borrow());

        for round in 2..5 {
            let next = runtime();
            next.block_on(async {
                tokio::select! {
                    error = service.keep_going() => panic!("{error}"),
                    () = going(is_going.clone()) => {}
                }
                service.revive();
                service.revive_if_idle();
            });
            assert_eq!(runs.load(Ordering::SeqCst), round);
        }
    }

    #[test]
    fn a_runtime_that_has_ended_is_named_and_no_endless_loop() {
        let (work, runs, _) = Fragile::new(0);
        let (ended, alive) = (runtime(), runtime());
        let handle = ended.handle().clone();
        drop(ended);
        let service = Service::start(work, &handle);
        let error = {
            let _inside = handle.enter();
            service
                .keep_going()
                .now_or_never()
                .expect("the caller gets it at once")
        };
        assert_eq!(error.kind(), StoreErrorKind::NoRuntime, "{error}");
        assert_eq!(runs.load(Ordering::SeqCst), 0);
        alive.block_on(async {
            service.close();
            let error = service.keep_going().await;
            assert_eq!(error.kind(), StoreErrorKind::Unreachable, "{error}");
        });
    }

    #[tokio::test]
    async fn work_that_is_closed_is_dropped() {
        let (work, ..) = Fragile::new(0);
        let is_going = work.is_going.subscribe();
        let service = Service::start(work, &runtime::Handle::current());
        going(is_going.clone()).await;
        drop(service);
        let mut is_going = is_going;
        while is_going.changed().await.is_ok() {}
    }
}
