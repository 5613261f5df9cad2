//! Selects the manager of an annotated function: the one in scope, otherwise the installed one.

use std::{future::Future, time::Duration};

use once_cell::sync::OnceCell;

use crate::{
    api::manager::{LockManager, ShutdownReport},
    error::AlreadyInstalled,
};

/// From `once_cell`: the standard cell does not have `get_or_try_init` and `try_insert` yet.
static INSTALLED: OnceCell<LockManager> = OnceCell::new();

tokio::task_local! {
    static IN_SCOPE: LockManager;
}

/// Installs `manager` as the manager of all annotated functions in this process.
///
/// # Errors
///
/// Returns [`AlreadyInstalled`] if a manager is installed. The first one stays installed.
///
/// # Examples
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// use dlock::LockManager;
///
/// dlock::install(LockManager::memory())?;
/// assert!(dlock::install(LockManager::memory()).is_err(), "a manager is installed");
/// # Ok::<(), dlock::AlreadyInstalled>(())
/// ```
pub fn install(manager: LockManager) -> Result<&'static LockManager, AlreadyInstalled> {
    INSTALLED.try_insert(manager).map_err(|_| AlreadyInstalled)
}

/// Returns the installed manager. If there is none, calls `make` and installs its result.
///
/// Use it in tests and libraries, which have no single place where the process starts. Of several concurrent
/// callers, one creates the manager and the others wait. If `make` fails, nothing is installed.
///
/// # Errors
///
/// Returns the error of `make`.
///
/// # Examples
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
pub fn install_with<E>(
    make: impl FnOnce() -> Result<LockManager, E>,
) -> Result<&'static LockManager, E> {
    INSTALLED.get_or_try_init(make)
}

/// Returns the installed manager, or `None`.
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

/// Shuts the installed manager down, like [`LockManager::shutdown`].
///
/// Without an installed manager it does nothing.
///
/// # Cancel safety
///
/// The same as that of [`LockManager::shutdown`].
///
/// # Examples
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock::LockError> {
/// use std::time::Duration;
///
/// // After the service has received its stop signal and accepts no more requests.
/// let shutdown = dlock::shutdown(Duration::from_secs(10)).await;
/// if shutdown.cut_short > 0 {
///     eprintln!("{} bodies were cut short", shutdown.cut_short);
/// }
/// # Ok(()) }
/// ```
pub async fn shutdown(limit: Duration) -> ShutdownReport {
    match installed() {
        Some(manager) => manager.shutdown(limit).await,
        None => ShutdownReport::default(),
    }
}

/// Runs `future` with `manager` instead of the installed manager, for tests and tenants.
///
/// It applies to everything that `future` awaits. A task that `future` spawns does not inherit the manager:
/// wrap the spawned future as well.
///
/// # Cancel safety
///
/// The same as that of `future`.
///
/// # Examples
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
pub async fn with_manager<F: Future>(manager: LockManager, future: F) -> F::Output {
    IN_SCOPE.scope(manager, future).await
}

/// Does the same as [`with_manager`] for code that blocks.
pub(crate) fn sync_scope<T>(manager: LockManager, body: impl FnOnce() -> T) -> T {
    IN_SCOPE.sync_scope(manager, body)
}

/// Returns the manager of the running code.
pub(crate) fn current() -> Option<LockManager> {
    in_scope().or_else(|| installed().cloned())
}

/// Returns the manager that [`with_manager`] has set for the running code.
pub(crate) fn in_scope() -> Option<LockManager> {
    IN_SCOPE.try_with(LockManager::clone).ok()
}
