//! Constructors of a manager that need no builder.

use super::LockManagerBuilder;
use crate::{
    api::manager::LockManager,
    error::ConnectError,
    store::{OwnStore, memory::MemoryStore},
};

impl LockManager {
    /// Returns a builder with the default options.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// use dlock::LockManager;
    ///
    /// let builder = LockManager::builder().application("billing").ttl(Duration::from_secs(10));
    /// let manager = builder.connect("memory://").await?;
    /// # drop(manager);
    /// # Ok(()) }
    /// ```
    pub fn builder() -> LockManagerBuilder {
        LockManagerBuilder::default()
    }

    /// Creates a manager whose locks exist only in this process, for tests, examples and single-process
    /// programs.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// let manager = dlock::LockManager::memory();
    /// # drop(manager);
    /// ```
    #[must_use]
    pub fn memory() -> Self {
        Self::builder().start(OwnStore::new(MemoryStore::new()))
    }

    /// Connects to the store at `url` and waits until it answers.
    ///
    /// - `redis://[user:password@]host[:port][/database]`: one server; `redis+unix:///path` for a Unix socket
    /// - `redis-sentinel://host1,host2/service`: the master that Sentinel reports
    /// - `redis-cluster://host1,host2`: a cluster with these nodes
    /// - `redlock://host1,host2,host3`: a [quorum](crate::store::quorum) of independent servers
    /// - `memory://`: a store in this process, for tests
    ///
    /// For TLS, use a scheme that begins with `rediss` or `redlocks`. `valkey` can replace `redis` in each
    /// scheme.
    ///
    /// # Errors
    ///
    /// Returns [`ConnectError`] if the URL is invalid or the store does not answer within 5 s. To start while
    /// the store is unreachable, use [`connect_lazy`](LockManagerBuilder::connect_lazy).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. Dropping the future closes the connection.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use dlock::LockManager;
    ///
    /// let manager = LockManager::connect("rediss://billing:secret@redis.internal/0").await?;
    /// dlock::install(manager)?;
    /// # Ok(()) }
    /// ```
    pub async fn connect(url: impl AsRef<str>) -> Result<Self, ConnectError> {
        Self::builder().connect(url).await
    }

    /// Creates a manager for the store at `url` without waiting for the store.
    ///
    /// A service can start before its server. Until the store answers, acquire requests wait for it within
    /// their own limits. The URLs are those of [`connect`](Self::connect).
    ///
    /// # Errors
    ///
    /// Returns [`ConnectError`] if the URL is invalid or there is no current tokio runtime.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use dlock::LockManager;
    ///
    /// let manager = LockManager::connect_lazy("redis://127.0.0.1:6379")?;
    /// assert_eq!(manager.active_keys(), 0);
    /// assert!(LockManager::connect_lazy("127.0.0.1:6379").is_err(), "the scheme is missing");
    /// # Ok(()) }
    /// ```
    pub fn connect_lazy(url: impl AsRef<str>) -> Result<Self, ConnectError> {
        Self::builder().connect_lazy(url)
    }

    /// Connects to the store at the URL in the environment variable `DLOCK_URL`.
    ///
    /// If the URL has no credentials, `DLOCK_USER` and `DLOCK_PASSWORD` supply them. To set options as well,
    /// use [`LockManagerBuilder::connect_env`].
    ///
    /// # Errors
    ///
    /// Returns [`ConnectError::NoUrl`] if `DLOCK_URL` is not set. Other errors are those of
    /// [`connect`](Self::connect).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe, like [`connect`](Self::connect).
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use dlock::{ConnectError, LockManager};
    ///
    /// let manager = match LockManager::connect_env().await {
    ///     // Locks in this process only: for a developer's machine, never for a service.
    ///     Err(ConnectError::NoUrl) => LockManager::memory(),
    ///     connected => connected?,
    /// };
    /// dlock::install(manager)?;
    /// # Ok(()) }
    /// ```
    pub async fn connect_env() -> Result<Self, ConnectError> {
        Self::builder().connect_env().await
    }
}
