//! The ways to a manager that need no builder in between.

use super::LockManagerBuilder;
use crate::{
    api::manager::LockManager,
    error::ConnectError,
    store::{OwnStore, memory::MemoryStore},
};

impl LockManager {
    /// A builder, to set defaults before connecting.
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

    /// A manager of locks inside this process, for tests, examples and single processes.
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

    /// Connects to the store at `url`, and waits until it answers:
    ///
    /// - `redis://[user:password@]host[:port][/database]`, one server, or `redis+unix:///path`
    /// - `redis-sentinel://host1,host2/service`, the master that Sentinels name
    /// - `redis-cluster://host1,host2`, a cluster that has these nodes
    /// - `redlock://host1,host2,host3`, a [quorum](crate::store::quorum) of independent servers
    /// - `memory://`, a store in this process, for tests
    ///
    /// Over TLS they begin with `rediss` or `redlocks`, and `valkey` can stand for `redis`.
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
    ///
    /// # Errors
    ///
    /// [`ConnectError`] when the URL names no store, or the store does not answer within five
    /// seconds. To start although the store is down, use
    /// [`connect_lazy`](LockManagerBuilder::connect_lazy).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connection.
    pub async fn connect(url: impl AsRef<str>) -> Result<Self, ConnectError> {
        Self::builder().connect(url).await
    }

    /// As [`connect`](Self::connect), without waiting for the store, so that a service can start
    /// before its server does. Locks taken meanwhile wait for it within their own limits.
    ///
    /// ```no_run
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use dlock::LockManager;
    ///
    /// let manager = LockManager::connect_lazy("redis://127.0.0.1:6379")?;
    /// assert_eq!(manager.active_keys(), 0);
    /// assert!(LockManager::connect_lazy("127.0.0.1:6379").is_err(), "no URL");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ConnectError`] when the URL names no store, or there is no tokio runtime here.
    pub fn connect_lazy(url: impl AsRef<str>) -> Result<Self, ConnectError> {
        Self::builder().connect_lazy(url)
    }

    /// Connects to the store named by the environment variable `DLOCK_URL`, with the login in `DLOCK_USER` and
    /// `DLOCK_PASSWORD` if the URL has none. To set defaults as well, use
    /// [`connect_env`](LockManagerBuilder::connect_env).
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
    ///
    /// # Errors
    ///
    /// [`ConnectError::NoUrl`] when it is not set, else as [`connect`](Self::connect).
    ///
    /// # Cancel safety
    ///
    /// As for [`connect`](Self::connect).
    pub async fn connect_env() -> Result<Self, ConnectError> {
        Self::builder().connect_env().await
    }
}
