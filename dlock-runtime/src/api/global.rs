//! The manager that an annotated function uses: the one in scope, else the installed one.

use std::{future::Future, time::Duration};

use once_cell::sync::OnceCell;

use crate::{
    api::manager::{LockManager, ShutdownReport},
    error::AlreadyInstalled,
};

/// Of `once_cell`: the standard cell has neither `get_or_try_init` nor `try_insert` yet.
static INSTALLED: OnceCell<LockManager> = OnceCell::new();

tokio::task_local! {
    static IN_SCOPE: LockManager;
}

/// Makes `manager` the one that annotated functions use in this process.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// use dlock::LockManager;
///
/// dlock::install(LockManager::memory())?;
/// assert!(dlock::install(LockManager::memory()).is_err(), "once is enough");
/// # Ok::<(), dlock::AlreadyInstalled>(())
/// ```
///
/// # Errors
///
/// [`AlreadyInstalled`] if there is one; the first stays.
pub fn install(manager: LockManager) -> Result<&'static LockManager, AlreadyInstalled> {
    INSTALLED.try_insert(manager).map_err(|_| AlreadyInstalled)
}

/// The installed manager, or else the one that `make` makes, which is then installed.
///
/// For tests and libraries, which have no one place where a process starts: of several callers at
/// a time one makes the manager and the others wait for it. If `make` fails nothing is installed.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// use dlock::{ConnectError, LockManager};
///
/// let first = dlock::install_with(|| Ok::<_, ConnectError>(LockManager::memory()))?;
/// let second = dlock::install_with(|| LockManager::builder().connect_lazy("memory://"))?;
/// assert!(std::ptr::eq(first, second));
/// # Ok::<(), ConnectError>(())
/// ```
///
/// # Errors
///
/// The error of `make`.
pub fn install_with<E>(
    make: impl FnOnce() -> Result<LockManager, E>,
) -> Result<&'static LockManager, E> {
    INSTALLED.get_or_try_init(make)
}

/// The installed manager.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// use dlock::LockManager;
///
/// assert!(dlock::installed().is_none());
/// dlock::install(LockManager::memory())?;
/// let active = dlock::installed().map_or(0, LockManager::active_keys);
/// assert_eq!(active, 0);
/// # Ok::<(), dlock::AlreadyInstalled>(())
/// ```
#[must_use]
pub fn installed() -> Option<&'static LockManager> {
    INSTALLED.get()
}

/// Shuts the installed manager down, as [`LockManager::shutdown`] does; without one there is
/// nothing to do.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock::LockError> {
/// use std::time::Duration;
///
/// // When the service was told to end, and takes no requests any more.
/// let shutdown = dlock::shutdown(Duration::from_secs(10)).await;
/// if shutdown.cut_short > 0 {
///     eprintln!("{} sections were cut short", shutdown.cut_short);
/// }
/// # Ok(()) }
/// ```
///
/// # Cancel safety
///
/// That of [`LockManager::shutdown`].
pub async fn shutdown(limit: Duration) -> ShutdownReport {
    match installed() {
        Some(manager) => manager.shutdown(limit).await,
        None => ShutdownReport::default(),
    }
}

/// Runs `future` with `manager` in place of the installed one, for tests and tenants.
///
/// It counts for all that `future` awaits, but a task that it spawns starts without it: wrap the
/// spawned future as well.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock::LockError> {
/// use dlock::{LockManager, with_manager};
///
/// let tenant = LockManager::memory();
/// with_manager(tenant, async { /* annotated functions use `tenant` here */ }).await;
/// # Ok(()) }
/// ```
///
/// # Cancel safety
///
/// That of `future`.
pub async fn with_manager<F: Future>(manager: LockManager, future: F) -> F::Output {
    IN_SCOPE.scope(manager, future).await
}

/// [`with_manager`] for code that blocks.
pub(crate) fn sync_scope<T>(manager: LockManager, body: impl FnOnce() -> T) -> T {
    IN_SCOPE.sync_scope(manager, body)
}

/// The manager of the running code.
pub(crate) fn current() -> Option<LockManager> {
    in_scope().or_else(|| installed().cloned())
}

/// The manager of [`with_manager`], if the running code is inside of one.
pub(crate) fn in_scope() -> Option<LockManager> {
    IN_SCOPE.try_with(LockManager::clone).ok()
}
