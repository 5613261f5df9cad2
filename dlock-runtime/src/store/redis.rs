//! Locks in Redis or Valkey.
//!
//! The heads of the scripts in `protocol/` describe the stored data and why it is safe. Here the scripts are
//! called over connections that tasks of the store keep open. The requests of one owner therefore reach a
//! server in the order in which they were made.

#[doc(hidden)]
pub(crate) mod admin;
mod assemble;
mod config;
#[cfg(test)]
mod fake;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
#[cfg(test)]
mod live_tests;
mod net;
mod protocol;
mod requests;
mod topology;

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

pub use self::config::{
    credentials::{Credentials, CredentialsProvider},
    settings::RedisConfig,
};
#[cfg(feature = "tls")]
pub use self::net::tls::Tls;
use self::{
    admin::presence::PresenceTasks,
    net::{events::Events, hints::Hints},
    topology::{
        lane::{Connections, Way},
        replicas::Confirmer,
        servers::Servers,
        wake_ups::WakeUps,
    },
};
pub(crate) use self::{
    config::{env::without_password, scheme::names as schemes},
    topology::independent::Independent,
};
use super::{Detaching, HintSink, ReleaseRequest, StoreHooks};
use crate::{error::ConnectError, owner::ClientId};

/// A [`LockStore`](super::LockStore) in Redis (6.2 or newer) or Valkey: one server, the master that Sentinels
/// name, or a cluster.
///
/// It keeps one connection to each master for requests and hints, and opens a new one when that fails. From the
/// first renewal on, renewals have a second connection. With `?protocol=resp2`, hints have a connection of
/// their own, and so do leases that replicas confirm.
///
/// # In a cluster
///
/// Each lock is stored on the master of its slot, and moves with the slot. During a move, leases are renewed
/// and released as usual. New holders wait for some milliseconds, because the lock and its fence are on two
/// nodes during that time. If a slot stays half moved, the error names it.
///
/// When a master crashes, its replica takes over the data that it has received. Replication is asynchronous, so
/// a lease that was granted just before the crash may be lost, and another client may acquire the lock. The
/// holder notices at its next renewal. Tokens increase even then, as long as the clocks of the nodes agree
/// within the time of a failover.
///
/// # Permissions
///
/// On a server with access control lists, the following user has all permissions for locks in the namespace
/// `dlock`. A database other than 0 needs `+select` as well. Raw keys need a pattern for the locks themselves,
/// such as `~order:*`:
///
/// ```text
#[doc = include_str!("redis/permissions.txt")]
/// ```
///
/// With `+info` as well, dlock logs a warning about a server that may evict locks.
///
/// With [`min_replicas`](RedisConfig::min_replicas) the user needs `+wait` too. A user of the Sentinels needs
/// `&+switch-master +subscribe +sentinel|master +sentinel|get-master-addr-by-name`.
///
/// In a cluster the user needs the following permissions as well, on every node:
///
/// ```text
#[doc = include_str!("redis/permissions_cluster.txt")]
/// ```
///
/// ```no_run
/// # extern crate dlock_runtime as dlock;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock::ConnectError> {
/// use dlock::{LockManager, store::redis::{RedisConfig, RedisStore}};
///
/// let store = RedisStore::connect(RedisConfig::new("redis://127.0.0.1:6379")).await?;
/// let manager = LockManager::builder().application("billing").build_with_store(store)?;
/// # drop(manager);
/// # Ok(()) }
/// ```
pub struct RedisStore {
    shown: String,
    config: Arc<RedisConfig>,
    hints: Arc<Hints>,
    servers: Arc<Servers>,
    presences: PresenceTasks,
    wake_ups: WakeUps,
    min_replicas: u32,
    /// Used for `min_replicas`.
    confirmer: Option<Arc<Confirmer>>,
    /// The connections of the store itself, for renewals that the separate lane cannot send.
    renewals: Connections,
    way: Way,
    /// The connections for renewals, opened with the first one.
    lane: OnceLock<Connections>,
}

impl RedisStore {
    /// Starts to connect in the background, and returns at once.
    ///
    /// The connection runs on the tokio runtime on which this method is called. After that runtime has ended,
    /// the next request connects again on its own runtime. If it does not run, because nothing drives it or a body
    /// blocks its only worker, a request of another runtime moves the connection to a thread of dlock's.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock::ConnectError> {
    /// use dlock::{LockManager, store::redis::{RedisConfig, RedisStore}};
    ///
    /// let store = RedisStore::connect_lazy(RedisConfig::new("redis://127.0.0.1:6379"))?;
    /// let manager = LockManager::builder().build_with_store(store)?;
    /// # drop(manager);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ConnectError`] when the URL or an option is invalid, or no tokio runtime runs here.
    pub fn connect_lazy(config: RedisConfig) -> Result<Self, ConnectError> {
        Self::start(config, Events::new, Hints::new)
    }

    /// Connects, and waits until the server is ready.
    ///
    /// It retries an unreachable server until the connect timeout has passed.
    ///
    /// # Errors
    ///
    /// The errors of [`connect_lazy`](Self::connect_lazy), and the last failure when there is no connection in
    /// time.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connection.
    ///
    /// ```no_run
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use dlock::{LockManager, store::redis::{RedisConfig, RedisStore}};
    ///
    /// let store = RedisStore::connect(RedisConfig::new("redis://localhost")).await?;
    /// let manager = LockManager::builder().build_with_store(store)?;
    /// # drop(manager);
    /// # Ok(()) }
    /// ```
    pub async fn connect(config: RedisConfig) -> Result<Self, ConnectError> {
        let limit = config.connect_timeout;
        let store = Self::start(config, Events::awaited, Hints::new)?;
        // Boxed, because the layers of a connection would count against the recursion limit of the caller's
        // crate.
        Box::pin(store.when_ready(limit)).await
    }
}

impl StoreHooks for RedisStore {
    fn attach(&self, client: ClientId, hints: HintSink) {
        self.hints.attach(client, hints);
        self.presences.begin(client);
    }

    fn detach(&self, client: ClientId) -> Detaching<'_> {
        Box::pin(self.presences.end(client))
    }

    /// Sends nothing without a runtime.
    fn release_at_once(&self, _request: ReleaseRequest<'_>) -> bool {
        false
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore")
            .field("url", &self.shown)
            .field("namespace", &self.config.namespace)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn replicas_of_a_cluster_are_not_asked() {
        let error = RedisStore::connect_lazy(RedisConfig {
            min_replicas: 1,
            ..RedisConfig::new("redis-cluster://localhost")
        })
        .expect_err("it is refused");
        let option = "min_replicas";
        assert!(
            matches!(error, ConnectError::InvalidOption { option: it, .. } if it == option),
            "{error}"
        );
    }

    #[test]
    fn without_a_runtime_there_is_an_error_and_no_panic() {
        let error = RedisStore::connect_lazy(RedisConfig::new("redis://:s3cret@localhost"))
            .expect_err("no runtime runs here");
        assert!(error.to_string().contains("no tokio runtime"), "{error}");
        assert!(!format!("{error} {error:?}").contains("s3cret"));
    }
}
