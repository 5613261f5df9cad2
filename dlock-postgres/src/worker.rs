//! The thread with the connections of a store. It lasts as long as the store, whichever runtimes of the user end or are
//! blocked.

use std::{future::Future, io, thread, time::Duration};

use tokio::{
    runtime::{Builder, Handle},
    sync::watch,
};

/// The time that connections have to say goodbye.
const LAST_WORDS: Duration = Duration::from_millis(500);

pub(crate) struct Worker {
    handle: Handle,
    /// Dropped to stop.
    stop: watch::Sender<()>,
}

impl Worker {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// If the system has no thread left.
    pub(crate) fn start() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (stop, mut stopped) = watch::channel(());
        let thread = thread::Builder::new().name("dlock-postgres".to_owned());
        thread.spawn(move || {
            runtime.block_on(async { while stopped.changed().await.is_ok() {} });
            // Tasks that were told to stop have some time to do so.
            runtime.block_on(async { tokio::time::sleep(LAST_WORDS).await });
        })?;
        Ok(Self { handle, stop })
    }

    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }

    pub(crate) fn tasks(&self) -> Tasks {
        Tasks {
            handle: self.handle.clone(),
            stopped: self.stop.subscribe(),
        }
    }
}

/// Starts what runs on the thread until the store is dropped.
#[derive(Clone)]
pub(crate) struct Tasks {
    handle: Handle,
    stopped: watch::Receiver<()>,
}

impl Tasks {
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut stopped = self.stopped.clone();
        self.handle.spawn(async move {
            tokio::select! {
                () = task => {}
                _ = stopped.changed() => {}
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::{sync::oneshot, task::yield_now, time::timeout};

    use super::*;

    const DEADLINE: Duration = Duration::from_secs(30);

    #[tokio::test]
    async fn tasks_end_with_the_store() {
        let worker = Worker::start().unwrap();
        let (held, dropped) = oneshot::channel::<()>();
        worker.tasks().spawn(async move {
            let _held = held;
            pending::<()>().await;
        });
        drop(worker);
        let ended = timeout(DEADLINE, dropped).await;
        ended.expect("the task has ended").unwrap_err();
    }

    #[tokio::test]
    async fn a_connection_has_time_to_say_goodbye_after_the_end_of_the_store() {
        let worker = Worker::start().unwrap();
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
