//! A task that can be ended from outside of its runtime, whether that runtime is polled or not.
//!
//! A runtime drops an aborted task only when it runs again. Until then the socket of the task is open, and what it
//! has not written yet would be sent later. So the future of such a task lies where others can drop it too.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, TryLockError, Weak},
    task::{Context, Poll},
};

use tokio::{
    runtime,
    task::{AbortHandle, JoinHandle},
};

use crate::process::{Process, here};

/// A task of this process. It goes on when this value is dropped.
pub(crate) struct Task {
    end: TaskEnd,
    task: JoinHandle<()>,
}

/// Ends a task.
#[derive(Clone)]
pub(crate) struct TaskEnd {
    work: Weak<TaskSlot>,
    abort: AbortHandle,
    process: Process,
}

type TaskFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The future of a task; `None` once it has ended.
type TaskSlot = Mutex<Option<TaskFuture>>;

impl Task {
    pub(crate) fn spawn(
        work: impl Future<Output = ()> + Send + 'static,
        runtime: &runtime::Handle,
    ) -> Self {
        let work: Arc<TaskSlot> = Arc::new(Mutex::new(Some(Box::pin(work))));
        let end = Arc::downgrade(&work);
        let task = runtime.spawn(here(Droppable(work)));
        Self {
            end: TaskEnd {
                work: end,
                abort: task.abort_handle(),
                process: Process::this(),
            },
            task,
        }
    }

    /// Waits until the task has ended by itself, or its runtime has.
    pub(crate) async fn ended(&mut self) {
        (&mut self.task).await.ok();
    }

    /// Ends the task, and waits while another thread polls it at this moment.
    pub(crate) async fn close(&mut self) {
        self.end.end();
        if !self.end.has_ended() {
            self.ended().await;
        }
    }

    pub(crate) fn end(&self) -> TaskEnd {
        self.end.clone()
    }
}

impl TaskEnd {
    /// Drops the future of the task now, or behind its poll if another thread polls it at this moment.
    pub(crate) fn end(&self) {
        // In a forked child, that would remove the sockets from the selector of the parent.
        if self.process != Process::this() {
            return;
        }
        let ended = self.work.upgrade().and_then(|work| match work.try_lock() {
            Ok(mut work) => work.take(),
            Err(TryLockError::Poisoned(work)) => work.into_inner().take(),
            Err(TryLockError::WouldBlock) => None,
        });
        drop(ended);
        self.abort.abort();
    }

    /// Returns `true` once the future was dropped.
    pub(crate) fn has_ended(&self) -> bool {
        let is_there = |work: Arc<TaskSlot>| work.try_lock().map_or(true, |work| work.is_some());
        !self.work.upgrade().is_some_and(is_there)
    }
}

/// A future that others may drop.
struct Droppable(Arc<TaskSlot>);

impl Future for Droppable {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        // A task that has panicked is not polled again, and nothing else panics under the mutex.
        let Ok(mut work) = self.0.lock() else {
            return Poll::Ready(());
        };
        match &mut *work {
            Some(work) => work.as_mut().poll(context),
            None => Poll::Ready(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{future::pending, sync::mpsc, time::Duration};

    use tokio::runtime::{Builder, Runtime};

    use super::*;

    fn runtime() -> Runtime {
        Builder::new_current_thread().enable_all().build().unwrap()
    }

    /// Sends on its channel when it is dropped.
    struct Tells(mpsc::Sender<()>);

    impl Drop for Tells {
        fn drop(&mut self) {
            self.0.send(()).ok();
        }
    }

    #[test]
    fn a_task_whose_runtime_is_not_polled_ends_at_once() {
        let unpolled = runtime();
        for begins in [false, true] {
            let (tell, told) = mpsc::channel();
            let tells = Tells(tell);
            let work = async move {
                let _tells = tells;
                pending::<()>().await;
            };
            let mut task = Task::spawn(work, unpolled.handle());
            if begins {
                unpolled.block_on(tokio::task::yield_now());
            }
            assert!(!task.end().has_ended());
            task.end().end();
            told.try_recv().expect("it was dropped at once");
            assert!(task.end().has_ended());
            runtime().block_on(task.close());
        }
    }

    #[test]
    fn a_task_that_is_polled_at_this_moment_ends_behind_its_poll() {
        let (running, told) = (
            Builder::new_multi_thread().build().unwrap(),
            mpsc::channel(),
        );
        let ((begun, begins), (go_on, goes_on)) = (mpsc::channel(), mpsc::channel::<()>());
        let tells = Tells(told.0);
        let work = async move {
            let _tells = tells;
            begun.send(()).unwrap();
            goes_on.recv().unwrap();
            pending::<()>().await;
        };
        let mut task = Task::spawn(work, running.handle());
        begins.recv().unwrap();
        task.end().end();
        assert!(!task.end().has_ended());
        go_on.send(()).unwrap();
        runtime().block_on(task.close());
        let limit = Duration::from_secs(60);
        told.1.recv_timeout(limit).expect("it was dropped");
    }

    #[test]
    fn a_child_drops_no_task_of_its_parent() {
        let (unpolled, (tell, told)) = (runtime(), mpsc::channel());
        let tells = Tells(tell);
        let work = async move { drop(tells) };
        let task = Task::spawn(work, unpolled.handle());
        let copy = TaskEnd {
            process: Process::other(),
            ..task.end()
        };
        copy.end();
        told.try_recv().expect_err("it is that of the parent");
    }
}
