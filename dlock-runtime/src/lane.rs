//! dlock's own threads, each with a runtime: one renews leases, one serves callers whose runtime may not run.
//!
//! A renewal must not depend on the application's runtimes. A body that blocks its thread may block the
//! worker that currently drives tokio's timers and sockets. Everything that waits for one of these then
//! stops, even on idle workers. The renewer, its timers and its connections therefore run on a separate
//! thread. That thread runs only application code that must return at once: metrics recorders and log
//! subscribers that receive a renewal's events, and the manager's clock and random numbers.
//!
//! Code that blocks may have no runtime. Its own thread polls the future that it waits for. The timers and
//! sockets behind that future run on the second thread, so they cannot delay a renewal. The connections of a
//! runtime that is not polled move there too (`store/redis/net/home.rs`), and the credentials callback runs there.
//!
//! A thread starts when it is first needed. For renewals, that is the first lease of the process that has to
//! be renewed: a blocked runtime could not start the thread later. Without work, the thread sleeps.

use std::{
    future::pending,
    io, process,
    sync::atomic::{AtomicU32, Ordering},
    thread,
};

use once_cell::race::OnceBox;
use tokio::{
    runtime::{Builder, Handle, Runtime},
    time::Instant,
};

/// A thread that starts when it is needed.
///
/// It has no mutex: in a forked child, a mutex that another thread had locked is never unlocked.
struct Lane {
    name: &'static str,
    started: OnceBox<Started>,
    /// The process in which a thread calls [`Lane::start`] at this moment; 0 otherwise.
    starting: AtomicU32,
}

/// The running thread of one process. A fork copies this value but not the thread.
struct Started {
    process: u32,
    runtime: Handle,
    /// The value of a forked child.
    next: OnceBox<Started>,
}

static RENEWALS: Lane = Lane::new("dlock-renewals");

static BLOCKING: Lane = Lane::new("dlock-blocking");

/// Returns the runtime for renewals, or `None` if the machine has no thread or file descriptor left for it.
pub(crate) fn runtime() -> Option<Handle> {
    RENEWALS.runtime().ok()
}

/// Returns the runtime for callers that block, or whose own runtime is not polled.
///
/// # Errors
///
/// Returns an error if the machine has no thread or file descriptor left for it.
pub(crate) fn for_blocking() -> io::Result<Handle> {
    BLOCKING.runtime()
}

impl Lane {
    const fn new(name: &'static str) -> Self {
        Self {
            name,
            started: OnceBox::new(),
            starting: AtomicU32::new(0),
        }
    }

    fn runtime(&self) -> io::Result<Handle> {
        let process = process::id();
        loop {
            if let Ok(runtime) = self.runtime_in(process) {
                return Ok(runtime);
            }
            // The mark of a parent process has no meaning here.
            if self.starting.swap(process, Ordering::AcqRel) != process {
                let _starting = Starting(&self.starting);
                return match self.runtime_in(process) {
                    Ok(runtime) => Ok(runtime),
                    Err(place) => self.start(process, place),
                };
            }
            // Another thread of this process starts it.
            thread::yield_now();
        }
    }

    /// Returns the runtime of `process`, or the place for it.
    fn runtime_in(&self, process: u32) -> Result<Handle, &OnceBox<Started>> {
        let mut place = &self.started;
        while let Some(started) = place.get() {
            if started.process == process {
                return Ok(started.runtime.clone());
            }
            place = &started.next;
        }
        Err(place)
    }

    fn start(&self, process: u32, place: &OnceBox<Started>) -> io::Result<Handle> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let thread = thread::Builder::new().name(self.name.to_owned());
        let driven = Driven(Some(runtime));
        thread.spawn(move || driven.run())?;
        let started = Started {
            process,
            runtime: handle.clone(),
            next: OnceBox::new(),
        };
        let set = place.set(Box::new(started));
        debug_assert!(set.is_ok(), "only the marked thread sets it");
        Ok(handle)
    }
}

/// Removes the mark, also while unwinding.
struct Starting<'a>(&'a AtomicU32);

impl Drop for Starting<'_> {
    fn drop(&mut self) {
        self.0.store(0, Ordering::Release);
    }
}

/// A runtime that may be dropped inside an async task, where tokio's own drop panics.
///
/// If the thread cannot be started, its closure is dropped by the caller of [`Lane::start`].
struct Driven(Option<Runtime>);

impl Driven {
    fn run(self) {
        if let Some(runtime) = &self.0 {
            runtime.block_on(pending::<()>());
        }
    }
}

impl Drop for Driven {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// Returns `true` if tokio's clock here is not the machine's: a test has paused or advanced it.
///
/// The thread would then measure leases by another clock than their bodies.
pub(crate) fn has_virtual_clock() -> bool {
    is_virtual(|| {
        let before = std::time::Instant::now();
        let told = Instant::now().into_std();
        [before, told, std::time::Instant::now()]
    })
}

/// Decides by readings of the machine's clock, tokio's, and the machine's again.
///
/// A thread that is paused between them takes a clock that is ahead for the machine's, but not twice: by then
/// that clock is behind, or as far ahead as before.
fn is_virtual(mut read: impl FnMut() -> [std::time::Instant; 3]) -> bool {
    let mut differs = || {
        let [before, told, after] = read();
        told < before || told > after
    };
    differs() || differs()
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
        assert!(has_virtual_clock(), "it stays ahead");
    }

    #[test]
    fn a_thread_that_stands_still_takes_no_virtual_clock_for_the_machines() {
        let start = std::time::Instant::now();
        let at = |seconds: [u64; 3]| seconds.map(|it| start + Duration::from_secs(it));
        for (first, second, expected) in [
            // Paused, and ahead until the thread went on; ahead, and not paused.
            ([1, 2, 3], [3, 2, 3], true),
            ([1, 2, 3], [3, 4, 3], true),
            ([1, 1, 3], [3, 3, 3], false),
        ] {
            let mut readings = [first, second].map(at).into_iter();
            let read = || readings.next().expect("two are enough");
            assert_eq!(is_virtual(read), expected, "{first:?} {second:?}");
        }
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

    /// The mark that a child has of its parent is of a thread that the child does not have.
    #[test]
    fn a_thread_is_started_by_one_at_a_time_in_each_process() {
        static LANE: Lane = Lane::new("dlock-test");
        let own = process::id();
        LANE.starting.store(own, Ordering::Release);
        let (started, other) = std::sync::mpsc::channel();
        thread::spawn(move || started.send(LANE.runtime().unwrap().id()));
        let early = other.recv_timeout(Duration::from_millis(100));
        assert!(early.is_err() && LANE.runtime_in(own).is_err());
        LANE.starting.store(0, Ordering::Release);
        let id = other.recv_timeout(Duration::from_secs(60)).unwrap();
        assert_eq!(LANE.starting.load(Ordering::Acquire), 0);
        assert_eq!(LANE.runtime().unwrap().id(), id);

        let parent = own.wrapping_add(1);
        let child = Lane::new("dlock-test");
        child.starting.store(parent, Ordering::Release);
        child.runtime().unwrap();
        assert_eq!(child.starting.load(Ordering::Acquire), 0);
    }
}
