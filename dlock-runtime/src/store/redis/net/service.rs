//! Background tasks of a store that restart after every interruption.
//!
//! A task ends early in two ways. If it or a function that it calls panics, it continues after a pause that
//! grows with each consecutive panic. If its runtime ends, it is dropped at any await; its work then waits for
//! the next request, and continues on the runtime of that request. A runtime that does not run is left in the same
//! way: the task is dropped from outside, and the work continues on dlock's own thread (`home.rs`).

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use futures_util::FutureExt;
use pin_project_lite::pin_project;
use tokio::{
    runtime,
    sync::watch,
    time::{Instant, Sleep, sleep, sleep_until},
};

use super::{
    home::{Home, Resident},
    task::{Task, TaskEnd},
};
use crate::{
    lane,
    process::Process,
    store::{StoreError, StoreErrorKind, redis::protocol::errors},
};

/// The first pause after a panic.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The names by which tokio's panics tell what a runtime lacks.
const LACKS: [&str; 2] = ["enable_io", "enable_time"];

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
    /// The last task, and its runtime.
    running: Mutex<Option<(TaskEnd, runtime::Handle)>>,
    home: Arc<Home>,
    process: Process,
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
    /// Starts the work in `home`.
    pub(crate) fn start(work: W, home: &Arc<Home>) -> Self {
        Self::start_watched(work, home, Arc::default())
    }

    /// The same. `is_interrupted` is set when the task ends early.
    pub(crate) fn start_watched(
        work: W,
        home: &Arc<Home>,
        is_interrupted: Arc<AtomicBool>,
    ) -> Self {
        let cell = Arc::new(WorkCell {
            work: Mutex::new(Some(work)),
            running: Mutex::default(),
            home: home.clone(),
            process: Process::this(),
            stage: watch::Sender::new(Stage::Idle),
            is_interrupted,
        });
        let resident: Arc<dyn Resident> = cell.clone();
        home.enter(Arc::downgrade(&resident));
        cell.run_on(home.runtime());
        Self(cell)
    }

    /// Returns the outcome of a request that needs the work, or `None` at `until`. If it takes long, or its caller gives
    /// up, the runtime of the work is doubted.
    pub(crate) fn attend<F: Future>(&self, until: Instant, request: F) -> Attended<'_, W, F> {
        let doubted = Instant::now() + self.0.home.patience();
        Attended {
            request,
            timer: sleep_until(doubted.min(until)),
            until,
            unanswered: UnansweredRequest(Some(&self.0)),
        }
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
            self.0.run_on(self.0.home.next(&here));
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
        // In a forked child, a thread that it does not have may have locked the mutex.
        if self.0.process == Process::this()
            && let Some((task, _)) = self.0.running().take()
        {
            task.end();
        }
    }
}

pin_project! {
    /// A request that needs the work of a service.
    ///
    /// An `async fn` would double the size of the request.
    pub(crate) struct Attended<'a, W: Work, F> {
        #[pin]
        request: F,
        // One timer for both times, so that a request that is answered soon costs no more.
        #[pin]
        timer: Sleep,
        until: Instant,
        unanswered: UnansweredRequest<'a, W>,
    }
}

impl<W: Work, F: Future> Future for Attended<'_, W, F> {
    type Output = Option<F::Output>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        if let Poll::Ready(outcome) = this.request.poll(context) {
            this.unanswered.0 = None;
            return Poll::Ready(Some(outcome));
        }
        loop {
            ready!(this.timer.as_mut().poll(context));
            if this.timer.deadline() >= *this.until {
                this.unanswered.0 = None;
                return Poll::Ready(None);
            }
            if let Some(cell) = this.unanswered.0 {
                cell.doubt();
            }
            this.timer.as_mut().reset(*this.until);
        }
    }
}

/// A request without an answer. Dropped, it makes the runtime of the work doubted.
struct UnansweredRequest<'a, W: Work>(Option<&'a Arc<WorkCell<W>>>);

impl<W: Work> Drop for UnansweredRequest<'_, W> {
    fn drop(&mut self) {
        if let Some(cell) = self.0 {
            cell.doubt();
        }
    }
}

impl<W: Work> Drop for Service<W> {
    fn drop(&mut self) {
        self.close();
    }
}

impl<W: Work> WorkCell<W> {
    /// Runs the work on `runtime`, unless a task runs it.
    fn run_on(self: &Arc<Self>, runtime: &runtime::Handle) {
        let mut running = self.running();
        let Some(work) = self.take() else {
            return;
        };
        self.enter(Stage::Running);
        let task = WorkTask {
            work: Some(work),
            cell: self.clone(),
        };
        // Not under the mutex of the work: a runtime that has ended drops the task at once.
        let task = Task::spawn(task.run(), runtime);
        *running = Some((task.end(), runtime.clone()));
    }

    fn running(&self) -> MutexGuard<'_, Option<(TaskEnd, runtime::Handle)>> {
        // Every change under the mutex is complete before a panic is possible.
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Finds out whether the runtime of the work runs, unless the caller is on it.
    fn doubt(&self) {
        if self.process != Process::this() || *self.stage.borrow() != Stage::Running {
            return;
        }
        let Some((_, runtime)) = self.running().clone() else {
            return;
        };
        match runtime::Handle::try_current() {
            Ok(current) if current.id() == runtime.id() => {}
            // A test that pauses the clock drives its runtimes itself.
            Ok(_) if lane::has_virtual_clock() => {}
            Err(error) if error.is_thread_local_destroyed() => {}
            _ => self.home.doubt(&runtime),
        }
    }

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
        let mut pause = FIRST_PAUSE;
        while let Some(work) = &mut self.work {
            let begun = Instant::now();
            let run = AssertUnwindSafe(work.run()).catch_unwind();
            let Err(panic) = run.await else {
                self.cell.stage.send_replace(Stage::Closed);
                return;
            };
            let text = words(&*panic);
            // The payload of a panic may panic too when it is dropped.
            drop(catch_unwind(AssertUnwindSafe(|| drop(panic))));
            if LACKS.iter().any(|lack| text.contains(lack))
                && let Some(own) = self.cell.home.move_out().cloned()
            {
                let cell = self.cell.clone();
                drop(self);
                cell.run_on(&own);
                return;
            }
            interrupt(work, Some(&text));
            if begun.elapsed() > pause {
                pause = FIRST_PAUSE;
            }
            sleep(pause).await;
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

impl<W: Work> Resident for WorkCell<W> {
    fn leave(self: Arc<Self>, from: &runtime::Handle, to: &runtime::Handle) {
        let left = self
            .running()
            .take_if(|(_, runtime)| runtime.id() == from.id());
        if let Some((task, _)) = left {
            // Dropped, it stores the work.
            task.end();
            self.run_on(to);
        }
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

    /// The response timeout: four times as long as a request waits for a runtime.
    const LIMIT: Duration = Duration::from_millis(400);

    /// Longer than anything takes here, also on a busy machine.
    const LONG: Duration = Duration::from_secs(60);

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

    fn home(runtime: &runtime::Handle) -> Arc<Home> {
        Home::on(runtime.clone(), LIMIT)
    }

    fn runtime() -> Runtime {
        Builder::new_current_thread().enable_all().build().unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn what_panics_goes_on_after_growing_pauses() {
        const PANICS: usize = 12;
        let (work, _, moments) = Fragile::new(PANICS);
        let is_going = work.is_going.subscribe();
        let _service = Service::start(work, &home(&runtime::Handle::current()));
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
        let service = Service::start(work, &home(first.handle()));
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
        let service = Service::start(work, &home(&handle));
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
        let service = Service::start(work, &home(&runtime::Handle::current()));
        going(is_going.clone()).await;
        drop(service);
        let mut is_going = is_going;
        while is_going.changed().await.is_ok() {}
    }

    /// A request for the work; it has no answer before the work moves.
    async fn request(service: &Service<Fragile>, mut is_going: watch::Receiver<bool>) {
        is_going.borrow_and_update();
        let moved = async {
            is_going.changed().await.unwrap();
            going(is_going).await;
        };
        let until = Instant::now() + LONG;
        service.attend(until, moved).await.expect("it moves");
    }

    #[test]
    fn work_moves_from_a_runtime_that_is_not_polled_and_stays_away() {
        let (unpolled, other) = (runtime(), runtime());
        let home = home(unpolled.handle());
        let (work, runs, _) = Fragile::new(0);
        let is_going = work.is_going.subscribe();
        let service = Service::start(work, &home);
        unpolled.block_on(going(is_going.clone()));
        // All of the home move with it, also what was not begun.
        let (beside, runs_beside, _) = Fragile::new(0);
        let is_beside = beside.is_going.subscribe();
        let _beside = Service::start(beside, &home);
        other.block_on(async {
            request(&service, is_going).await;
            going(is_beside).await;
        });
        assert_eq!(runs.load(Ordering::SeqCst), 2);
        assert_eq!(runs_beside.load(Ordering::SeqCst), 1);
        // For good, also when the runtime runs again.
        assert_ne!(home.runtime().id(), unpolled.handle().id());
        assert_eq!(home.next(unpolled.handle()).id(), home.runtime().id());
        let (later, ..) = Fragile::new(0);
        let is_later = later.is_going.subscribe();
        let _later = Service::start(later, &home);
        other.block_on(going(is_later));
    }

    #[test]
    fn a_request_that_is_given_up_moves_the_work_too() {
        let (unpolled, other) = (runtime(), runtime());
        let (work, ..) = Fragile::new(0);
        let is_going = work.is_going.subscribe();
        let service = Service::start(work, &home(unpolled.handle()));
        other.block_on(async {
            let brief = Duration::from_millis(1);
            let until = Instant::now() + LONG;
            let given_up =
                tokio::time::timeout(brief, service.attend(until, std::future::pending::<()>()));
            given_up.await.expect_err("nothing answers");
            going(is_going).await;
        });
    }

    #[test]
    fn work_stays_on_a_runtime_that_runs() {
        let running = Builder::new_multi_thread().enable_all().build().unwrap();
        let home = home(running.handle());
        let (work, runs, _) = Fragile::new(0);
        let service = Service::start(work, &home);
        runtime().block_on(async {
            let until = Instant::now() + 3 * LIMIT;
            let asked = service.attend(until, std::future::pending::<()>());
            assert!(asked.await.is_none(), "nothing answers");
        });
        assert_eq!(home.runtime().id(), running.handle().id());
        assert_eq!(runs.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn a_runtime_does_not_doubt_itself() {
        let runtime = runtime();
        let home = home(runtime.handle());
        let service = Service::start(Fragile::new(0).0, &home);
        runtime.block_on(async {
            let until = Instant::now() + LONG;
            let mut given_up = Box::pin(service.attend(until, std::future::pending::<()>()));
            assert!(given_up.as_mut().now_or_never().is_none());
            drop(given_up);
            // It is not polled for longer than a request would wait for it.
            std::thread::sleep(LIMIT);
        });
        assert_eq!(home.runtime().id(), runtime.handle().id());
    }

    /// Needs a runtime with sockets.
    struct Connects(watch::Sender<bool>);

    impl Work for Connects {
        async fn run(&mut self) {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await;
            self.0.send_replace(listener.is_ok());
            std::future::pending::<()>().await;
        }

        fn interrupted(&mut self, panic: Option<&str>) {
            assert_eq!(panic, None);
        }
    }

    #[test]
    fn work_moves_from_a_runtime_that_lacks_something() {
        let bare = Builder::new_current_thread().enable_time().build().unwrap();
        let home = home(bare.handle());
        let connects = Connects(watch::Sender::new(false));
        let is_going = connects.0.subscribe();
        let _service = Service::start(connects, &home);
        bare.block_on(going(is_going));
        assert_ne!(home.runtime().id(), bare.handle().id());
    }

    #[test]
    fn work_that_is_closed_ends_although_its_runtime_is_not_polled() {
        let unpolled = runtime();
        let (work, ..) = Fragile::new(0);
        let mut is_going = work.is_going.subscribe();
        let service = Service::start(work, &home(unpolled.handle()));
        unpolled.block_on(going(is_going.clone()));
        service.close();
        runtime().block_on(async { while is_going.changed().await.is_ok() {} });
    }
}
