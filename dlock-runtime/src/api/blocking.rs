//! Locks for code without async: thread pools, command-line programs and build scripts.
//!
//! [`LockManager::blocking`] is a view of a manager whose calls block the thread instead of returning
//! futures. It needs no runtime. Timers, connections and renewals run on dlock's own threads. A thread that
//! computes, sleeps or waits for a database therefore keeps its lock.
//!
//! A thread cannot be cancelled from outside. A body runs to its end even if its lease is lost, and the call
//! then returns [`LockError::Lost`]. A long body should check [`Lease::is_lost`](crate::Lease::is_lost)
//! between its steps, and call [`Lease::ensure_held`](crate::Lease::ensure_held) before a step that cannot be
//! undone.
//!
//! Code inside an async task must not block: there, a call fails with [`LockError::WouldBlock`]. Inside
//! `tokio::task::spawn_blocking` and `block_in_place`, these calls are allowed. If a test has paused tokio's clock
//! there, they use that clock.
//!
//! The runtime on which a manager was created drives its connections. A manager from
//! [`LockManager::connect_blocking`] does not depend on a runtime of the program. A manager that was created
//! on a single-threaded runtime cannot send or receive while nothing drives that runtime: its calls then fail with
//! [`LockError::Unavailable`] after the whole [`wait`](BlockingRequest::wait).
//!
//! A [`BlockingGuard`] may be dropped anywhere, also in a destructor. Inside an async task and while a thread
//! ends, its lock is released in the background.
//!
//! ```
//! # extern crate dlock_runtime as dlock;
//! use std::time::Duration;
//! use dlock::{LockManager, LockError};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let manager = LockManager::connect_blocking("memory://")?;
//! let rows = manager
//!     .blocking()
//!     .lock("import:prices")
//!     .wait(Duration::from_secs(5))
//!     .run(|lease| {
//!         lease.ensure_held()?; // before a step that cannot be undone
//!         Ok::<_, LockError>(3)
//!     })??;
//! assert_eq!(rows, 3);
//! # Ok(()) }
//! ```

pub(crate) mod guard;
mod request;

use std::time::Duration;

pub use self::{guard::BlockingGuard, request::BlockingRequest};
use crate::{
    api::{
        builder::LockManagerBuilder,
        global,
        manager::{LockManager, ShutdownReport},
    },
    engine::blocking::{NoWait, wait_for},
    error::{ConnectError, LockError, StoreError, StoreErrorKind},
    key::LockKey,
    observe,
    site::Origin,
};

/// A view of a manager for code that blocks its thread, created by [`LockManager::blocking`].
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// use dlock::LockManager;
///
/// # fn main() -> Result<(), dlock::LockError> {
/// let locks = LockManager::memory().blocking();
/// let guard = locks.lock("report:daily").acquire()?;
/// println!("token {}", guard.fencing_token());
/// guard.release()
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct BlockingManager(LockManager);

impl BlockingManager {
    /// Creates a request for the lock `key`; see [`LockManager::lock`].
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # fn main() -> Result<(), dlock::LockError> {
    /// # let manager = dlock::LockManager::memory();
    /// manager.blocking().lock("order:42").run(|_lease| println!("alone"))
    /// # }
    /// ```
    pub fn lock<K>(&self, key: K) -> BlockingRequest
    where
        K: TryInto<LockKey>,
        K::Error: Into<LockError>,
    {
        BlockingRequest::new(self.0.lock(key))
    }

    /// Creates a request for several locks: all of them or none; see [`LockManager::lock_all`].
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # fn main() -> Result<(), dlock::LockError> {
    /// # let manager = dlock::LockManager::memory();
    /// let both = manager.blocking().lock_all(["account:7", "account:4"]).acquire()?;
    /// assert_eq!(both.fencing_tokens().count(), 2);
    /// both.release()
    /// # }
    /// ```
    pub fn lock_all<I, K>(&self, keys: I) -> BlockingRequest
    where
        I: IntoIterator<Item = K>,
        K: TryInto<LockKey>,
        K::Error: Into<LockError>,
    {
        BlockingRequest::new(self.0.lock_all(keys))
    }

    /// Shuts the manager down and blocks until that is done; see [`LockManager::shutdown`].
    ///
    /// # Panics
    ///
    /// Panics inside an async task, whose thread it would block: await [`LockManager::shutdown`] there.
    /// Panics if no thread can be started.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use std::time::Duration;
    /// use dlock::{LockManager, ShutdownReport};
    ///
    /// let report = LockManager::memory().blocking().shutdown(Duration::from_secs(10));
    /// assert_eq!(report, ShutdownReport::default());
    /// ```
    #[track_caller]
    #[expect(
        clippy::must_use_candidate,
        reason = "the end of the program may be all that is wanted"
    )]
    pub fn shutdown(&self, limit: Duration) -> ShutdownReport {
        match wait_for(self.0.shutdown(limit)) {
            Ok(report) => report,
            Err(NoWait::InAsyncTask) => {
                panic!("inside of an async task, await `LockManager::shutdown`")
            }
            Err(no_wait) => panic!("{}", no_thread(&no_wait)),
        }
    }

    /// Returns the manager itself.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// let locks = dlock::LockManager::memory().blocking();
    /// assert_eq!(locks.manager().active_keys(), 0);
    /// ```
    #[must_use]
    pub fn manager(&self) -> &LockManager {
        &self.0
    }
}

impl LockManager {
    /// Returns a view of this manager for code that blocks its thread; see the module
    /// [`blocking`](crate::blocking).
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # fn main() -> Result<(), dlock::LockError> {
    /// # let manager = dlock::LockManager::memory();
    /// let workers = [1, 2].map(|id| {
    ///     let locks = manager.blocking();
    ///     std::thread::spawn(move || locks.lock("stock:42").run(|_lease| println!("worker {id}")))
    /// });
    /// for worker in workers {
    ///     worker.join().expect("it does not panic")?;
    /// }
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn blocking(&self) -> BlockingManager {
        BlockingManager(self.clone())
    }

    /// Connects like [`connect`](Self::connect), but blocks the thread. It needs no runtime.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`connect`](Self::connect), and [`ConnectError::WouldBlock`] inside an async
    /// task.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # fn main() -> Result<(), dlock::ConnectError> {
    /// use dlock::LockManager;
    ///
    /// let manager = LockManager::connect_blocking("memory://")?;
    /// # drop(manager);
    /// # Ok(()) }
    /// ```
    pub fn connect_blocking(url: impl AsRef<str>) -> Result<Self, ConnectError> {
        Self::builder().connect_blocking(url)
    }

    /// Connects like [`connect_env`](Self::connect_env), but blocks the thread. It needs no runtime.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`connect_env`](Self::connect_env), and [`ConnectError::WouldBlock`] inside an
    /// async task.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::{ConnectError, LockManager};
    ///
    /// // DLOCK_URL is not set here.
    /// assert!(matches!(LockManager::connect_env_blocking(), Err(ConnectError::NoUrl)));
    /// ```
    pub fn connect_env_blocking() -> Result<Self, ConnectError> {
        Self::builder().connect_env_blocking()
    }
}

impl LockManagerBuilder {
    /// Connects like [`connect`](Self::connect), but blocks the thread. It needs no runtime.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`connect`](Self::connect), and [`ConnectError::WouldBlock`] inside an async
    /// task.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # fn main() -> Result<(), dlock::ConnectError> {
    /// use std::time::Duration;
    /// use dlock::LockManager;
    ///
    /// let builder = LockManager::builder().application("import").ttl(Duration::from_secs(20));
    /// let manager = builder.connect_blocking("memory://")?;
    /// # drop(manager);
    /// # Ok(()) }
    /// ```
    pub fn connect_blocking(self, url: impl AsRef<str>) -> Result<LockManager, ConnectError> {
        let url = url.as_ref();
        let connected = wait_for(self.connect(url));
        connected.unwrap_or_else(|no_wait| Err(not_made(&no_wait, "connect_blocking", "connect")))
    }

    /// Connects like [`connect_env`](Self::connect_env), but blocks the thread. It needs no runtime.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`connect_env`](Self::connect_env), and [`ConnectError::WouldBlock`] inside an
    /// async task.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # extern crate dlock_runtime as dlock;
    /// # fn main() -> Result<(), dlock::ConnectError> {
    /// use dlock::LockManager;
    ///
    /// let manager = LockManager::builder().application("import").connect_env_blocking()?;
    /// # drop(manager);
    /// # Ok(()) }
    /// ```
    pub fn connect_env_blocking(self) -> Result<LockManager, ConnectError> {
        let connected = wait_for(self.connect_env());
        connected.unwrap_or_else(|no_wait| {
            Err(not_made(&no_wait, "connect_env_blocking", "connect_env"))
        })
    }
}

/// Runs `body` on this thread with `manager` instead of the installed manager, for tests and tenants.
///
/// It applies to annotated functions that `body` calls on this thread, but not to threads that `body` starts.
/// [`with_manager`](crate::with_manager) does the same for a future.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// use dlock::{LockManager, blocking};
///
/// let tenant = LockManager::memory();
/// blocking::with_manager(tenant, || { /* annotated functions use `tenant` here */ });
/// ```
pub fn with_manager<T>(manager: LockManager, body: impl FnOnce() -> T) -> T {
    global::sync_scope(manager, body)
}

/// Shuts the installed manager down and blocks until that is done, like [`BlockingManager::shutdown`].
///
/// Without an installed manager it does nothing.
///
/// # Panics
///
/// Panics in the same cases as [`BlockingManager::shutdown`].
///
/// # Examples
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// use std::time::Duration;
///
/// // At the end of `main`.
/// let report = dlock::blocking::shutdown(Duration::from_secs(10));
/// assert_eq!(report.cut_short, 0);
/// ```
#[track_caller]
#[expect(clippy::must_use_candidate, reason = "as above")]
pub fn shutdown(limit: Duration) -> ShutdownReport {
    match global::installed() {
        Some(manager) => manager.blocking().shutdown(limit),
        None => ShutdownReport::default(),
    }
}

/// Reports a call that could not block, and returns its error. An invalid key takes precedence.
pub(crate) fn refused(
    origin: Origin,
    no_wait: &NoWait,
    key: Result<&LockKey, &LockError>,
) -> LockError {
    let error = key.map_or_else(Clone::clone, |key| not_waited(no_wait, key));
    observe::not_asked(origin, error)
}

/// Returns the error of a call for `key` that could not block.
fn not_waited(no_wait: &NoWait, key: &LockKey) -> LockError {
    let key = key.clone();
    match no_wait {
        NoWait::InAsyncTask => LockError::WouldBlock { key },
        NoWait::ThreadEnds | NoWait::NoThread(_) => LockError::Unavailable {
            key,
            waited: Duration::ZERO,
            reason: no_thread(no_wait),
        },
    }
}

fn not_made(no_wait: &NoWait, function: &'static str, instead: &'static str) -> ConnectError {
    match no_wait {
        NoWait::InAsyncTask => ConnectError::WouldBlock { function, instead },
        NoWait::ThreadEnds | NoWait::NoThread(_) => ConnectError::Unavailable {
            url: "…".to_owned(),
            reason: no_thread(no_wait),
        },
    }
}

fn no_thread(no_wait: &NoWait) -> StoreError {
    let text = match no_wait {
        NoWait::NoThread(error) => format!(
            "cannot start a thread for blocking calls ({error}); raise the limits of threads and open files of \
             this process"
        ),
        _ => "a thread that is exiting cannot wait; acquire the lock before its destructors run"
            .to_owned(),
    };
    StoreError::new(StoreErrorKind::NoRuntime, text).with_advice()
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;
    use crate::mode::LockMode;

    #[test]
    fn a_thread_that_cannot_wait_learns_why_and_what_to_do() {
        let key = LockKey::new("order:42").unwrap();
        for (no_wait, told) in [
            (
                NoWait::ThreadEnds,
                "a thread that is exiting cannot wait; acquire the lock before its destructors run",
            ),
            (
                NoWait::NoThread(io::Error::other("too many")),
                "cannot start a thread for blocking calls (too many); raise the limits of threads and open files of \
                 this process",
            ),
        ] {
            let LockError::Unavailable { waited, reason, .. } = not_waited(&no_wait, &key) else {
                panic!("{no_wait:?}");
            };
            assert_eq!((waited, &*reason.to_string()), (Duration::ZERO, told));
            assert_eq!(reason.kind(), StoreErrorKind::NoRuntime);
            let error = not_made(&no_wait, "connect_blocking", "connect");
            assert_eq!(
                error.to_string(),
                format!("cannot use the store at `…`: {told}")
            );
        }
        let in_a_task = not_waited(&NoWait::InAsyncTask, &key);
        assert_eq!(in_a_task, LockError::WouldBlock { key });
        let in_a_task = not_made(&NoWait::InAsyncTask, "connect_blocking", "connect");
        assert_eq!(
            in_a_task.to_string(),
            "`connect_blocking` would block the thread of this async task; call `connect`"
        );
    }

    #[test]
    fn an_invalid_key_is_the_error_of_a_call_that_could_not_wait_either() {
        let origin = Origin {
            site: None,
            template: None,
            mode: LockMode::Exclusive,
        };
        let invalid = LockKey::new("").unwrap_err();
        let error = refused(origin, &NoWait::InAsyncTask, Err(&invalid));
        assert_eq!(error, invalid);
    }
}
