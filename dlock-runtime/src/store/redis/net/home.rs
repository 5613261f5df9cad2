//! The runtime of a store's background tasks, and their move to dlock's own thread.
//!
//! A request is answered sooner if it does not change threads on its way. So the tasks of a store run on the runtime
//! on which the store was created. That runtime may not run: a single-threaded one runs only inside of
//! `block_on`, and a body may block its only worker. Requests of other runtimes would then wait in vain.
//!
//! # Rules
//!
//! - A request of another runtime that has no answer after a quarter of its time limit, or is given up before, makes
//!   dlock spawn an empty task on the runtime of the connection. If that task does not run within the same
//!   time again, all of the store's tasks there move to dlock's own thread, for good.
//!   (`requests_of_other_runtimes_do_not_wait_for_one_that_is_not_polled`)
//! - One rule for all tasks of a store: connections, watchers of a cluster, the confirmation by replicas, and process
//!   records. Each of them is a service (`service.rs`), and a service lives in a home.
//! - **[S]** The socket of a connection that moves is closed before the next one is opened: its future is dropped, from
//!   outside of the runtime that does not poll it (`task.rs`). A request that it has not sent is never sent.
//!   (`a_request_of_a_runtime_that_stood_still_is_never_sent_later`)
//! - A runtime without sockets cannot have the tasks. They move at the first attempt to connect.
//!   (`a_runtime_without_sockets_has_no_connection`)
//! - A runtime that runs keeps the tasks, whichever runtimes send requests.
//!   (`a_runtime_that_runs_keeps_its_connection`)
//!
//! With RESP2, the library owns the task of the second connection, for hints. That socket is closed when the runtime
//! runs again, or ends. No request uses it.

use std::{
    sync::{
        Arc, Mutex, OnceLock, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{runtime::Handle, time::timeout};
use tracing::debug;

use crate::{
    lane,
    telemetry::{TARGET, told},
};

/// A store with a long response timeout does not wait longer than this for a runtime.
const LONGEST_PATIENCE: Duration = Duration::from_secs(1);

/// The runtime of the tasks of a store.
pub(crate) struct Home {
    callers: Handle,
    /// dlock's own thread, once the tasks have moved there.
    own: OnceLock<Handle>,
    /// The time for which a request waits before the runtime is doubted, and then for the runtime.
    patience: Duration,
    residents: Mutex<Vec<Weak<dyn Resident>>>,
    is_asked: AtomicBool,
}

/// A task that can move.
pub(crate) trait Resident: Send + Sync {
    /// Moves from the runtime `from` to `to`, if it is there.
    fn leave(self: Arc<Self>, from: &Handle, to: &Handle);
}

impl Home {
    /// Returns the home of a store on `runtime`, whose requests have the limit `response_timeout`.
    pub(crate) fn on(runtime: Handle, response_timeout: Duration) -> Arc<Self> {
        Arc::new(Self {
            callers: runtime,
            own: OnceLock::new(),
            patience: (response_timeout / 4).min(LONGEST_PATIENCE),
            residents: Mutex::default(),
            is_asked: AtomicBool::new(false),
        })
    }

    /// Returns the time after which a request without an answer doubts its runtime.
    pub(super) fn patience(&self) -> Duration {
        self.patience
    }

    /// Returns the runtime of new tasks.
    pub(super) fn runtime(&self) -> &Handle {
        self.own.get().unwrap_or(&self.callers)
    }

    /// Returns the runtime of a task whose runtime has ended, for a request on `current`.
    pub(super) fn next<'a>(&'a self, current: &'a Handle) -> &'a Handle {
        self.own.get().unwrap_or(current)
    }

    pub(super) fn enter(&self, resident: Weak<dyn Resident>) {
        let mut residents = self
            .residents
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        residents.retain(|it| it.strong_count() > 0);
        residents.push(resident);
    }

    /// Finds out whether `runtime` runs, and moves its tasks if it does not. The caller is not on it, and not in a forked
    /// child.
    pub(super) fn doubt(self: &Arc<Self>, runtime: &Handle) {
        if self.is_asked.swap(true, Ordering::AcqRel) {
            return;
        }
        let asked = Asked(self.clone());
        let Ok(own) = lane::for_blocking() else {
            return;
        };
        if own.id() == runtime.id() {
            return;
        }
        let (runtime, runs) = (runtime.clone(), runtime.spawn(async {}));
        let to = own.clone();
        own.spawn(async move {
            // A runtime that has ended drops its tasks, which start again by themselves.
            if timeout(asked.0.patience, runs).await.is_err() {
                asked.0.move_all(&runtime, to);
            }
        });
    }

    fn move_all(&self, from: &Handle, to: Handle) {
        told(|| {
            debug!(
                target: TARGET,
                "the tokio runtime of a connection does not run: its tasks move to a thread of dlock's"
            );
        });
        let to = self.own.get_or_init(|| to);
        let residents = self.residents.lock();
        let residents = residents.unwrap_or_else(PoisonError::into_inner).clone();
        for resident in residents.iter().filter_map(Weak::upgrade) {
            resident.leave(from, to);
        }
    }

    /// Returns dlock's own thread for a task whose runtime lacks what it needs. Every later one starts there.
    pub(super) fn move_out(&self) -> Option<&Handle> {
        let own = lane::for_blocking().ok()?;
        Some(self.own.get_or_init(|| own))
    }
}

/// A question to a runtime. One is under way at a time.
struct Asked(Arc<Home>);

impl Drop for Asked {
    fn drop(&mut self) {
        self.0.is_asked.store(false, Ordering::Release);
    }
}
