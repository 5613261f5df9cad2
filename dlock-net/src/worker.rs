//! The thread of a store.

use std::{future::Future, io, thread, time::Duration};

use tokio::{
    runtime::{Builder, Handle},
    sync::watch,
    task::JoinHandle,
};

/// The time that connections have to say goodbye.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// The thread of a store, with the runtime of its connections. It lasts as long as the store, whichever runtimes of the user
/// end or are blocked.
///
/// ```
/// use dlock_net::Worker;
///
/// let worker = Worker::start("shop-store")?;
/// let task = worker.tasks().spawn(async { /* connect, and connect again */ });
/// # worker.handle().block_on(task).expect("it ends");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Worker {
    handle: Handle,
    /// Dropped to stop.
    stop: watch::Sender<()>,
}

impl Worker {
    /// Starts the thread. Its runtime has all that the features of Tokio give it.
    ///
    /// # Errors
    ///
    /// If the system has no thread left.
    pub fn start(name: &str) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (stop, mut stopped) = watch::channel(());
        let thread = thread::Builder::new().name(name.to_owned());
        thread.spawn(move || {
            runtime.block_on(async { while stopped.changed().await.is_ok() {} });
            // Tasks that were told to stop have some time to do so.
            runtime.block_on(async { tokio::time::sleep(LAST_WORDS).await });
        })?;
        Ok(Self { handle, stop })
    }

    /// Returns the runtime of the thread. A task of it may go on for half a second after the worker was dropped.
    #[must_use]
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Returns a way to start tasks that end with the worker.
    #[must_use]
    pub fn tasks(&self) -> Tasks {
        Tasks {
            handle: self.handle.clone(),
            stopped: self.stop.subscribe(),
        }
    }

    /// Returns a value for work that is to be done although the worker is dropped: the thread runs until this value is
    /// dropped, too.
    #[must_use]
    pub fn work(&self) -> WorkGuard {
        WorkGuard {
            _stop: self.stop.clone(),
        }
    }
}

/// Work that the thread of a [`Worker`] has to end before it stops.
#[derive(Debug)]
pub struct WorkGuard {
    _stop: watch::Sender<()>,
}

/// Starts what runs on the thread of a [`Worker`] until that is dropped.
#[derive(Clone, Debug)]
pub struct Tasks {
    handle: Handle,
    stopped: watch::Receiver<()>,
}

impl Tasks {
    /// Starts a task.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
        let mut stopped = self.stopped.clone();
        self.handle.spawn(async move {
            tokio::select! {
                () = task => {}
                _ = stopped.changed() => {}
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::{sync::oneshot, task::yield_now, time::timeout};

    use super::*;

    const DEADLINE: Duration = Duration::from_secs(30);

    /// Starts a task that does not end by itself, and returns the other end of a channel that it holds.
    fn held_by_a_task(tasks: &Tasks) -> oneshot::Receiver<()> {
        let (held, other) = oneshot::channel();
        tasks.spawn(async move {
            let _held = held;
            pending::<()>().await;
        });
        other
    }

    async fn has_ended(held: oneshot::Receiver<()>) {
        let ended = timeout(DEADLINE, held).await;
        ended.expect("the task has ended").unwrap_err();
    }

    #[tokio::test]
    async fn tasks_end_with_the_worker() {
        let worker = Worker::start("a-store").unwrap();
        let held = held_by_a_task(&worker.tasks());
        drop(worker);
        has_ended(held).await;
    }

    #[tokio::test]
    async fn tasks_go_on_while_there_is_work() {
        let worker = Worker::start("a-store").unwrap();
        let (tasks, work) = (worker.tasks(), worker.work());
        drop(worker);
        let (tell, told) = oneshot::channel();
        tasks.spawn(async move {
            let name = thread::current().name().map(str::to_owned);
            tell.send(name).ok();
        });
        let name = timeout(DEADLINE, told).await.unwrap();
        assert_eq!(name, Ok(Some("a-store".to_owned())));
        let held = held_by_a_task(&tasks);
        drop(work);
        has_ended(held).await;
    }

    #[tokio::test]
    async fn a_connection_has_time_to_say_goodbye_after_the_end_of_the_worker() {
        let worker = Worker::start("a-store").unwrap();
        let mut stopped = worker.tasks().stopped;
        let (say, said) = oneshot::channel();
        worker.handle().spawn(async move {
            while stopped.changed().await.is_ok() {}
            for _ in 0..100 {
                yield_now().await;
            }
            say.send("goodbye").unwrap();
        });
        drop(worker);
        let heard = timeout(DEADLINE, said).await.unwrap();
        assert_eq!(heard, Ok("goodbye"));
    }
}
