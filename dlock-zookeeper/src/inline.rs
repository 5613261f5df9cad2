//! Tasks that run where they are woken, so that a request changes threads once: on the way back to its caller.
//!
//! A caller's thread starts its request and writes it to the socket. The thread that sees the answer reads it, ends the request
//! and wakes the caller. On the thread of the store, each request would change threads twice more.
//!
//! # Rules
//!
//! - A request goes on without its caller, also if that is dropped or its thread is blocked: other threads wake its task.
//!   (`a_task_goes_on_without_its_caller`)
//! - **Safety.** A forked child runs no task, and drops none: it has a copy of the socket, and shares the selector of its parent.
//!   (`a_forked_child_runs_no_task`)
//! - A task that is woken while another one runs on this thread waits for it to return, so no task is woken into a mutex that the
//!   other one holds. Code that wakes a session, by sending a request or otherwise, holds no mutex of the store.
//!   (`a_task_that_is_woken_by_another_one_runs_behind_it`)
//! - Wakes from outside run a session at once. A request runs where its session does, or else on the thread of the store.
//! - A thread runs a few tasks, and leaves the rest to the thread of the store: it belongs to its caller.
//!   (`a_thread_is_not_kept_for_the_tasks_of_others`)
//! - Each task has the timers of the store's thread, whichever thread runs it.
//!
//! A thread that the system does not run while it polls a session, as one of the lowest priority on a busy machine, holds up
//! that session, with its renewals. A body that blocks its thread does not: it polls none.

use std::{
    cell::RefCell,
    collections::VecDeque,
    future::{Future, poll_fn},
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::{Pin, pin},
    process,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU8, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use tokio::{runtime::Handle, sync::oneshot};

/// A thread runs so many tasks for one wake: those of a few requests and their session.
const MOST: usize = 16;

const IDLE: u8 = 0;
/// It is about to run.
const WOKEN: u8 = 1;
const RUNNING: u8 = 2;
/// It was woken while it ran.
const AGAIN: u8 = 3;

thread_local! {
    /// The tasks that this thread is about to run, while it runs others.
    static HERE: RefCell<Option<VecDeque<Arc<Task>>>> = const { RefCell::new(None) };
}

/// The tasks of a store.
pub(crate) struct Tasks {
    worker: Handle,
    sessions: Mutex<Vec<Weak<Task>>>,
}

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

struct Task {
    process: u32,
    state: AtomicU8,
    is_session: bool,
    worker: Handle,
    /// `None` when it has ended.
    work: Mutex<Option<Work>>,
}

impl Tasks {
    pub(crate) fn new(worker: Handle) -> Self {
        Self {
            worker,
            sessions: Mutex::default(),
        }
    }

    /// Starts a request on this thread. The receiver gets nothing if it has panicked, or if the store was closed.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        request: impl Future<Output = T> + Send + 'static,
    ) -> oneshot::Receiver<T> {
        let (answer, answered) = oneshot::channel();
        let work = async move {
            // Its caller may be gone.
            answer.send(request.await).ok();
        };
        let task = Task::new(&self.worker, false, Box::pin(work));
        task.state.store(WOKEN, Ordering::Release);
        begin(task);
        answered
    }

    /// Polls a future that makes a session, whose task is run here then.
    pub(crate) async fn with_session<T>(&self, connecting: impl Future<Output = T>) -> T {
        let mut connecting = pin!(connecting);
        poll_fn(|context| {
            let _scope = spawns_core::enter(self);
            connecting.as_mut().poll(context)
        })
        .await
    }

    /// Drops the sessions.
    pub(crate) fn stop(&self) {
        let sessions = mem::take(&mut *locked(&self.sessions));
        for session in sessions.iter().filter_map(Weak::upgrade) {
            session.stop();
        }
    }
}

impl spawns_core::Spawn for Tasks {
    fn spawn(&self, task: spawns_core::Task) {
        let session = Task::new(&self.worker, true, Box::into_pin(task.future));
        let mut sessions = locked(&self.sessions);
        sessions.retain(|it| it.strong_count() > 0);
        sessions.push(Arc::downgrade(&session));
        drop(sessions);
        session.wake();
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Task {
    fn new(worker: &Handle, is_session: bool, work: Work) -> Arc<Self> {
        Arc::new(Self {
            process: process::id(),
            state: AtomicU8::new(IDLE),
            is_session,
            worker: worker.clone(),
            work: Mutex::new(Some(work)),
        })
    }

    /// Notes a wake. Returns `true` if the task has to be run for it.
    ///
    /// A wake that changes nothing writes the state, too, and whoever runs the task reads it in writing its own: what was done
    /// before the wake is then seen by the poll behind it.
    fn is_due(&self) -> bool {
        let change = |state| match state {
            IDLE => Some(WOKEN),
            RUNNING => Some(AGAIN),
            other => Some(other),
        };
        let before = self
            .state
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, change);
        before == Ok(IDLE)
    }

    fn run(self: Arc<Self>) {
        let waker = Waker::from(self.clone());
        let mut work = locked(&self.work);
        let Some(future) = &mut *work else {
            return;
        };
        self.state.swap(RUNNING, Ordering::AcqRel);
        let polled = catch_unwind(AssertUnwindSafe(|| {
            let _timers = self.worker.enter();
            future.as_mut().poll(&mut Context::from_waker(&waker))
        }));
        if !matches!(polled, Ok(Poll::Pending)) {
            // The hook of the process has told of a panic.
            let ended = work.take();
            drop(work);
            return drop(catch_unwind(AssertUnwindSafe(|| drop(ended))));
        }
        drop(work);
        let idle = self
            .state
            .compare_exchange(RUNNING, IDLE, Ordering::AcqRel, Ordering::Acquire);
        if idle.is_err() {
            self.state.swap(WOKEN, Ordering::AcqRel);
            queue(self);
        }
    }

    fn stop(&self) {
        let stopped = locked(&self.work).take();
        drop(stopped);
    }

    fn leave_to_worker(self: Arc<Self>) {
        let worker = self.worker.clone();
        worker.spawn(async move { begin(self) });
    }
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        // First of all: in a child, a thread that is not there may have locked the mutex.
        if self.process != process::id() {
            return mem::forget(self);
        }
        if self.is_due() {
            queue(self);
        }
    }
}

/// Runs a task behind those that run on this thread, or else where its kind is run.
fn queue(task: Arc<Task>) {
    if is_running() || task.is_session {
        begin(task);
    } else {
        task.leave_to_worker();
    }
}

fn is_running() -> bool {
    HERE.try_with(|here| here.borrow().is_some()) == Ok(true)
}

/// Runs a task on this thread, behind those that run.
fn begin(task: Arc<Task>) {
    let mut task = Some(task);
    let is_first = HERE.try_with(|here| {
        let mut here = here.borrow_mut();
        let is_first = here.is_none();
        here.get_or_insert_default().extend(task.take());
        is_first
    });
    match is_first {
        Ok(true) => run_all(),
        Ok(false) => {}
        // The thread is about to end.
        Err(_) => task.into_iter().for_each(Task::leave_to_worker),
    }
}

/// Polls a future so that a session which it wakes runs behind each poll: requests that it begins are sent together.
pub(crate) async fn together<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    poll_fn(|context| {
        let is_first = HERE.with(|here| {
            let mut here = here.borrow_mut();
            let is_first = here.is_none();
            here.get_or_insert_default();
            is_first
        });
        let _behind = is_first.then_some(Behind);
        future.as_mut().poll(context)
    })
    .await
}

/// Runs the tasks that wait behind this thread's work, also if that panics.
struct Behind;

impl Drop for Behind {
    fn drop(&mut self) {
        run_all();
    }
}

fn run_all() {
    for _ in 0..MOST {
        let Some(task) = next() else {
            return;
        };
        task.run();
    }
    while let Some(task) = next() {
        task.leave_to_worker();
    }
}

/// Takes the next task. Without one, this thread runs none any more.
fn next() -> Option<Arc<Task>> {
    HERE.with(|here| {
        let mut here = here.borrow_mut();
        let next = here.as_mut().and_then(VecDeque::pop_front);
        if next.is_none() {
            *here = None;
        }
        next
    })
}

#[cfg(test)]
mod tests;
