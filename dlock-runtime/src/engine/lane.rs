//! The threads of a process that are dlock's own, each with a runtime: one renews leases, one serves code that blocks.
//!
//! A renewal must not depend on the runtimes that users bring. A body that blocks its thread may be the one
//! that tokio has just let drive its timers and sockets: then everything that waits for either stands
//! still, also on workers that idle. So the renewer, its timers and its connections are on a thread of their own. Of a
//! user's code it runs only what must answer at once: the recorders and subscribers that are told of a renewal, the
//! manager's clock and random numbers, and the source of credentials.
//!
//! Code that blocks may have no runtime at all. What it waits for is polled on its own thread; the timers and sockets
//! behind that are the other thread's, so that nothing of it can hold up a renewal.
//!
//! A thread starts when it is needed first, which for renewals is the first lease of the process that is to be
//! renewed: a runtime that is stuck could not start it later. Without work it sleeps.

use std::{future::pending, io, process, sync::PoisonError, thread};

use tokio::{
    runtime::{Builder, Handle},
    time::Instant,
};

use crate::sync::Mutex;

/// A thread, once it was started.
struct Lane {
    name: &'static str,
    /// Its runtime, and the process that has the thread: a fork copies one and not the other.
    runtime: Mutex<Option<(u32, Handle)>>,
}

static RENEWALS: Lane = Lane::new("dlock-renewals");

static BLOCKING: Lane = Lane::new("dlock-blocking");

/// The runtime for renewals; `None` if the machine has no thread or no descriptor left for it.
pub(crate) fn runtime() -> Option<Handle> {
    RENEWALS.runtime().ok()
}

/// The runtime for code that blocks.
///
/// # Errors
///
/// When the machine has no thread or no descriptor left for it.
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
        // Every change under the mutex is complete before anything can panic.
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

/// `true` if tokio's clock is not the machine's where this is called: a test has paused or advanced
/// it.
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
