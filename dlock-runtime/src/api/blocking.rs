//! Locks for code that blocks its thread: thread pools, command-line programs, build scripts.
//!
//! A manager is the same for both kinds of code. [`LockManager::blocking`] is its side for threads: what is awaited
//! elsewhere is waited for here. It needs no runtime. Timers and connections are on a thread of dlock's own, and so are
//! renewals: a thread that computes, sleeps or waits for a database while it holds a lock keeps it.
//!
//! A thread cannot be stopped from outside. So a body runs to its end even if its lease is lost, and the call then
//! ends in [`LockError::Lost`]. Long work asks [`Lease::is_lost`](crate::Lease::is_lost) between its steps, and
//! [`Lease::ensure_held`](crate::Lease::ensure_held) before a step that cannot be undone.
//!
//! Inside of an async task nothing may block: there a call is refused with [`LockError::WouldBlock`]. Inside of
//! `tokio::task::spawn_blocking` and `block_in_place` it is in its place. The clock is the machine's: a test that has
//! paused tokio's clock does not pause these threads.
//!
//! Connections are driven by the runtime on which a manager was made. One that [`LockManager::connect_blocking`] has made
//! depends on no runtime of the program; one that was made on a runtime of a single thread stands still with that thread.
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

/// The side of a manager for code that blocks its thread, made by [`LockManager::blocking`].
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
    /// A lock to be taken; see [`LockManager::lock`].
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

    /// Several locks to be taken together, all of them or none; see [`LockManager::lock_all`].
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

    /// Ends the manager's work in good order, and waits for that; see [`LockManager::shutdown`].
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use std::time::Duration;
    /// use dlock::{LockManager, ShutdownReport};
    ///
    /// let report = LockManager::memory().blocking().shutdown(Duration::from_secs(10));
    /// assert_eq!(report, ShutdownReport::default());
    /// ```
    ///
    /// # Panics
    ///
    /// Inside of an async task, whose thread it would block: await [`LockManager::shutdown`] there. And when no
    /// thread can be started.
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

    /// The manager itself.
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
    /// The side of this manager for code that blocks its thread; see the module [`blocking`](crate::blocking).
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

    /// [`connect`](Self::connect) for code that blocks its thread. It needs no runtime.
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
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect), and [`ConnectError::WouldBlock`] inside of an async task.
    pub fn connect_blocking(url: impl AsRef<str>) -> Result<Self, ConnectError> {
        Self::builder().connect_blocking(url)
    }

    /// [`connect_env`](Self::connect_env) for code that blocks its thread. It needs no runtime.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::{ConnectError, LockManager};
    ///
    /// // DLOCK_URL is not set here.
    /// assert!(matches!(LockManager::connect_env_blocking(), Err(ConnectError::NoUrl)));
    /// ```
    ///
    /// # Errors
    ///
    /// As [`connect_env`](Self::connect_env), and [`ConnectError::WouldBlock`] inside of an async task.
    pub fn connect_env_blocking() -> Result<Self, ConnectError> {
        Self::builder().connect_env_blocking()
    }
}

impl LockManagerBuilder {
    /// [`connect`](Self::connect) for code that blocks its thread. It needs no runtime.
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
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect), and [`ConnectError::WouldBlock`] inside of an async task.
    pub fn connect_blocking(self, url: impl AsRef<str>) -> Result<LockManager, ConnectError> {
        let url = url.as_ref();
        let connected = wait_for(self.connect(url));
        connected.unwrap_or_else(|no_wait| Err(not_made(&no_wait, "connect_blocking", "connect")))
    }

    /// [`connect_env`](Self::connect_env) for code that blocks its thread. It needs no runtime.
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
    ///
    /// # Errors
    ///
    /// As [`connect_env`](Self::connect_env), and [`ConnectError::WouldBlock`] inside of an async task.
    pub fn connect_env_blocking(self) -> Result<LockManager, ConnectError> {
        let connected = wait_for(self.connect_env());
        connected.unwrap_or_else(|no_wait| {
            Err(not_made(&no_wait, "connect_env_blocking", "connect_env"))
        })
    }
}

/// Runs `body` on this thread with `manager` in place of the installed one, as
/// [`with_manager`](crate::with_manager) does for a future: for tests and tenants.
///
/// It counts for annotated functions that `body` calls on this thread, and not for threads that it starts.
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

/// Shuts the installed manager down and waits for that, as [`BlockingManager::shutdown`] does; without one there is
/// nothing to do.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// use std::time::Duration;
///
/// // At the end of `main`.
/// let report = dlock::blocking::shutdown(Duration::from_secs(10));
/// assert_eq!(report.cut_short, 0);
/// ```
///
/// # Panics
///
/// As [`BlockingManager::shutdown`].
#[track_caller]
#[expect(clippy::must_use_candidate, reason = "as above")]
pub fn shutdown(limit: Duration) -> ShutdownReport {
    match global::installed() {
        Some(manager) => manager.blocking().shutdown(limit),
        None => ShutdownReport::default(),
    }
}

/// Tells operators of a call that could not wait, and returns its error; a key that is none is the first mistake.
pub(crate) fn refused(
    origin: Origin,
    no_wait: &NoWait,
    key: Result<&LockKey, &LockError>,
) -> LockError {
    let error = key.map_or_else(Clone::clone, |key| not_waited(no_wait, key));
    observe::not_asked(origin, error)
}

/// The error of a call for `key`.
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
            "no thread can be started for calls that block ({error}); raise the limits of threads and open files of \
             this process"
        ),
        _ => "a thread that is ending cannot wait; take the lock before its destructors run"
            .to_owned(),
    };
    StoreError::new(StoreErrorKind::NoRuntime, text).with_advice()
}
