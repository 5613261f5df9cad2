//! dlock's own threads, each with a runtime: one renews leases, one serves code that blocks.
//!
//! A renewal must not depend on the application's runtimes. A body that blocks its thread may block the
//! worker that currently drives tokio's timers and sockets. Everything that waits for one of these then
//! stops, even on idle workers. The renewer, its timers and its connections therefore run on a separate
//! thread. That thread runs only application code that must return at once: metrics recorders and log
//! subscribers that receive a renewal's events, the manager's clock and random numbers, and the credentials
//! callback.
//!
//! Code that blocks may have no runtime. Its own thread polls the future that it waits for. The timers and
//! sockets behind that future run on the second thread, so they cannot delay a renewal.
//!
//! A thread starts when it is first needed. For renewals, that is the first lease of the process that has to
//! be renewed: a blocked runtime could not start the thread later. Without work, the thread sleeps.

use std::{future::pending, io, process, sync::PoisonError, thread};

use tokio::{
    runtime::{Builder, Handle},
    time::Instant,
};

use crate::sync::Mutex;

/// A thread, once it has started.
struct Lane {
    name: &'static str,
    /// Its runtime, and the process of the thread: a fork copies the value but not the thread.
    runtime: Mutex<Option<(u32, Handle)>>,
}

static RENEWALS: Lane = Lane::new("dlock-renewals");

static BLOCKING: Lane = Lane::new("dlock-blocking");

/// Returns the runtime for renewals, or `None` if the machine has no thread or file descriptor left for it.
pub(crate) fn runtime() -> Option<Handle> {
    RENEWALS.runtime().ok()
}

/// Returns the runtime for code that blocks.
///
/// # Errors
///
/// Returns an error if the machine has no thread or file descriptor left for it.
pub(super) fn for_blocking() -> io::Result<Handle> {
    BLOCKING.runtime()
}

impl Lane {
    const fn new(name: &'static str) -> Self {
        Self {
            name,
            runtime: Mutex::new(None),
        }
    }

    fn runtime(&self) -> io::Result<Handle> {
        let process = process::id();
        // Every change under the mutex is complete before a panic can occur.
        let mut lane = self.runtime.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, runtime)) = lane.as_ref().filter(|(of, _)| *of == process) {
            return Ok(runtime.clone());
        }
        let runtime = self.start()?;
        *lane = Some((process, runtime.clone()));
        Ok(runtime)
    }

    fn start(&self) -> io::Result<Handle> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let thread = thread::Builder::new().name(self.name.to_owned());
        thread.spawn(move || runtime.block_on(pending::<()>()))?;
        Ok(handle)
    }
}

/// Returns `true` if tokio's clock here is not the machine's: a test has paused or advanced it.
///
/// The thread would then measure leases by another clock than their bodies.
pub(crate) fn has_virtual_clock() -> bool {
    let before = std::time::Instant::now();
    let told = Instant::now().into_std();
    told < before || told > std::time::Instant::now()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn a_paused_clock_is_told_apart_from_the_start() {
        assert!(!has_virtual_clock());
        tokio::time::pause();
        assert!(has_virtual_clock());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(has_virtual_clock());
        tokio::time::resume();
        assert!(has_virtual_clock(), "it is ahead for good");
    }

    #[test]
    fn there_is_one_thread_and_it_runs() {
        let (one, other) = (runtime().unwrap(), runtime().unwrap());
        assert_eq!(one.id(), other.id());
        let (told, ran) = std::sync::mpsc::channel();
        one.spawn(async move { told.send(thread::current().name().map(str::to_owned)) });
        let name = ran.recv_timeout(Duration::from_secs(60)).unwrap();
        assert_eq!(name.as_deref(), Some("dlock-renewals"));
    }
}
