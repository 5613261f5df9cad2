//! The thread of a store, with its timers, renewals and waiters. It lasts as long as the store, whichever runtimes of the user
//! end or are blocked.

use std::{io, thread, time::Duration};

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
        let thread = thread::Builder::new().name("dlock-zookeeper".to_owned());
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

    /// Returns a value whose `changed` fails once the store is dropped.
    pub(crate) fn stopped(&self) -> watch::Receiver<()> {
        self.stop.subscribe()
    }
}
