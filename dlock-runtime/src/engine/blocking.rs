//! Connects code that blocks its thread to the futures of a lock.

use std::{
    cell::RefCell,
    future::Future,
    io,
    pin::pin,
    sync::{Arc, Condvar, Mutex, PoisonError},
    task::{Context, Poll, Wake, Waker},
};

use tokio::{runtime::Handle, task::coop::poll_proceed};

use crate::lane;

/// The reason why this thread cannot wait.
#[derive(Debug)]
pub(crate) enum NoWait {
    /// The code runs inside an async task.
    InAsyncTask,
    /// The code runs in a destructor of a thread whose tokio state is already gone.
    ThreadEnds,
    /// No thread can be started for timers and sockets.
    NoThread(io::Error),
}

thread_local! {
    /// The runtime to which this thread belongs, while it waits on another one.
    static OWN_RUNTIME: RefCell<Option<Handle>> = const { RefCell::new(None) };
}

/// Waits for `future` on this thread.
///
/// # Errors
///
/// Returns the errors of [`runtime`], before the future is polled.
pub(crate) fn wait_for<T>(future: impl Future<Output = T>) -> Result<T, NoWait> {
    Ok(runtime()?.block_on(future))
}

/// Waits for an acquire on this thread, on the runtime that [`runtime`] has returned.
pub(crate) fn wait_for_acquire<T>(runtime: &Handle, future: impl Future<Output = T>) -> T {
    struct Waits;

    impl Drop for Waits {
        fn drop(&mut self) {
            drop(OWN_RUNTIME.try_with(RefCell::take));
        }
    }

    let own = Handle::try_current().ok();
    let own = own.filter(|own| own.id() != runtime.id());
    drop(OWN_RUNTIME.try_with(|it| it.replace(own)));
    let _waits = Waits;
    runtime.block_on(future)
}

/// Returns the runtime to which this thread belongs, if it waits for an acquire on another one.
pub(crate) fn own_runtime() -> Option<Handle> {
    OWN_RUNTIME.try_with(|own| own.borrow().clone()).ok()?
}

/// Waits for a release on this thread. Unlike [`wait_for`], it never panics: destructors call it.
///
/// `Handle::block_on` panics where a runtime polls or drops a task without a budget (`unconstrained`, a worker
/// that shuts down, a combinator under `Runtime::block_on`), and in a thread that has lost its parker but not
/// the rest of tokio's state. A release ends within the response timeout.
pub(crate) fn wait_for_release<T>(runtime: &Handle, future: impl Future<Output = T>) -> T {
    let _entered = runtime.enter();
    let parker = Arc::new(Parker::default());
    let waker = Waker::from(parker.clone());
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        parker.park();
    }
}

/// Parks a thread without any state of the thread itself.
#[derive(Default)]
struct Parker {
    is_woken: Mutex<bool>,
    woken: Condvar,
}

impl Parker {
    fn park(&self) {
        let is_woken = self.is_woken.lock().unwrap_or_else(PoisonError::into_inner);
        let is_woken = self.woken.wait_while(is_woken, |is_woken| !*is_woken);
        *is_woken.unwrap_or_else(PoisonError::into_inner) = false;
    }
}

impl Wake for Parker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        *self.is_woken.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.woken.notify_one();
    }
}

/// Returns the runtime on which this thread may wait.
///
/// # Errors
///
/// Returns an error if the thread must not block, or if no runtime could drive a future.
pub(crate) fn runtime() -> Result<Handle, NoWait> {
    match Handle::try_current() {
        Ok(_) if is_in_async_task() => return Err(NoWait::InAsyncTask),
        // A test's time: the body reads this clock, so the lease must be measured by it.
        Ok(current) if lane::has_virtual_clock() => return Ok(current),
        Err(error) if error.is_thread_local_destroyed() => return Err(NoWait::ThreadEnds),
        _ => {}
    }
    lane::for_blocking().map_err(NoWait::NoThread)
}

/// Returns `true` inside the poll of a task, whose worker thread must not block.
///
/// tokio reports whether a thread may block only by a panic. But tokio limits how much a task does in one
/// poll, and does not do so in `spawn_blocking` and `block_in_place`. Only inside a task does this budget
/// end; this function then restores it.
fn is_in_async_task() -> bool {
    /// More than tokio's budget for one poll of a task.
    const MORE_THAN_ANY: usize = 256;

    let mut context = Context::from_waker(Waker::noop());
    let mut counted = Vec::with_capacity(MORE_THAN_ANY);
    let is_limited = loop {
        match poll_proceed(&mut context) {
            Poll::Ready(one) if counted.len() < MORE_THAN_ANY => counted.push(one),
            Poll::Ready(_) => break false,
            Poll::Pending => break true,
        }
    };
    // Each one restores the budget that it found, so the first must be dropped last.
    while counted.pop().is_some() {}
    is_limited
}

#[cfg(test)]
mod tests {
    use std::{thread, time::Duration};

    use tokio::{
        runtime::{Builder, Runtime},
        task::{LocalSet, block_in_place, coop::has_budget_remaining, spawn_local},
        time::{Instant, sleep},
    };

    use super::*;

    fn runtimes() -> [Runtime; 2] {
        [Builder::new_current_thread(), Builder::new_multi_thread()]
            .map(|mut builder| builder.enable_all().build().unwrap())
    }

    fn is_refused() -> bool {
        matches!(wait_for(async {}), Err(NoWait::InAsyncTask))
    }

    #[test]
    fn tasks_are_told_from_threads_that_may_block() {
        assert!(!is_refused(), "no runtime is here");
        for runtime in runtimes() {
            assert!(runtime.block_on(async { is_refused() }));
            let spawned = runtime.spawn(async { is_refused() });
            assert!(runtime.block_on(spawned).unwrap());
            let spawned = runtime.spawn_blocking(is_refused);
            assert!(!runtime.block_on(spawned).unwrap());
            let local = LocalSet::new();
            let spawned = local.run_until(async { spawn_local(async { is_refused() }).await });
            assert!(runtime.block_on(spawned).unwrap());
            let _entered = runtime.enter();
            assert!(!is_refused(), "a thread beside the runtime");
        }
    }

    #[test]
    fn a_worker_that_has_let_go_of_its_tasks_may_block() {
        let [_, runtime] = runtimes();
        let spawned = runtime.spawn(async { (block_in_place(is_refused), is_refused()) });
        assert_eq!(runtime.block_on(spawned).unwrap(), (false, true));
    }

    #[test]
    fn a_task_that_is_refused_has_lost_nothing_of_its_time() {
        for runtime in runtimes() {
            runtime.block_on(async {
                let mut context = Context::from_waker(Waker::noop());
                let mut left = 0;
                assert!(is_refused());
                while let Poll::Ready(one) = poll_proceed(&mut context) {
                    one.made_progress();
                    left += 1;
                    assert!(left < 1000, "a task has an end");
                }
                assert_eq!(left, 128, "as much as a task has from its start");
                assert!(!has_budget_remaining());
            });
        }
    }

    #[test]
    fn timers_run_for_a_thread_without_a_runtime() {
        let times = [(); 4].map(|()| {
            thread::spawn(|| {
                let begun = Instant::now();
                wait_for(async { sleep(Duration::from_millis(20)).await }).unwrap();
                begun.elapsed()
            })
        });
        for time in times {
            assert!(time.join().unwrap() >= Duration::from_millis(20));
        }
    }
}
