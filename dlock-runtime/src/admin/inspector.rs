//! An operator's connection to the servers of the locks.

mod look;
mod report;
mod traits;
mod unlock;

use std::{fmt, sync::atomic::AtomicU64};

use futures_util::stream::{Stream as _, StreamExt as _, unfold};

use super::{Grant, Grants};
use crate::{
    error::ConnectError,
    owner::ClientId,
    random::SystemRandom,
    store::{
        StoreError,
        redis::{Independent, Listener, RedisConfig, RedisStore},
    },
};

/// Inspects the locks of a namespace and force-releases a lock: on one server, the master that Sentinels name,
/// a cluster, or a quorum of independent servers.
///
/// ```no_run
/// # extern crate dlock_runtime as dlock;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use dlock::{admin::Inspector, store::redis::RedisConfig};
///
/// let inspector = Inspector::connect(RedisConfig::new("redis://localhost")).await?;
/// for lock in inspector.locks(Some("order:*")).await? {
///     println!("{}: {:?}, {} wait", lock.key, lock.holder, lock.waiter_count);
/// }
/// # Ok(()) }
/// ```
pub struct Inspector {
    /// One store, or the stores of a quorum.
    stores: Vec<RedisStore>,
    of_quorum: bool,
    /// The client id under which locks are force-released.
    me: ClientId,
    unlocked: AtomicU64,
}

impl Inspector {
    /// Connects to the servers of `config`, and waits until they answer. In a quorum it waits for a majority,
    /// or for some servers if there is no majority.
    ///
    /// # Errors
    ///
    /// [`ConnectError`] when the URL or an option is invalid, or no server answers in time.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connections.
    ///
    /// ```no_run
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use dlock::{admin::Inspector, store::redis::RedisConfig};
    ///
    /// let config = RedisConfig::new("redlock://one,two,three").namespace("billing");
    /// let inspector = Inspector::connect(config).await?;
    /// # drop(inspector);
    /// # Ok(()) }
    /// ```
    pub async fn connect(config: RedisConfig) -> Result<Self, ConnectError> {
        let (stores, of_quorum) = match Independent::for_inspection(&config)? {
            Some(servers) => (servers.into_stores(config.connect_timeout).await?, true),
            None => (vec![RedisStore::for_inspection(config).await?], false),
        };
        Ok(Self {
            stores,
            of_quorum,
            me: ClientId::new(&SystemRandom),
            unlocked: AtomicU64::new(0),
        })
    }

    /// Removes the limit of 5 %: from now on, listing all locks uses as much of the servers' time as it can, in
    /// consecutive steps of about a millisecond.
    ///
    /// Use it for a single listing on servers with spare capacity.
    ///
    /// ```no_run
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use dlock::{admin::Inspector, store::redis::RedisConfig};
    ///
    /// let inspector = Inspector::connect(RedisConfig::new("redis://localhost")).await?;
    /// let locks = inspector.at_full_speed().locks(None).await?;
    /// # drop(locks);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn at_full_speed(self) -> Self {
        self.lift();
        self
    }

    /// Lets the next listings use half a second of each server's time without a pause.
    fn begin(&self) {
        self.stores.iter().for_each(|store| store.pace().begin());
    }

    fn lift(&self) {
        self.stores.iter().for_each(|store| store.pace().lift());
    }

    /// Returns the completed part of a walk through all keys, from 0 to 1. Returns `None` while no walk is in
    /// progress.
    ///
    /// It is computed from the server's cursor, or in a cluster from the number of finished nodes. In a quorum
    /// it is the progress of the slowest server.
    ///
    /// ```no_run
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// use dlock::{admin::Inspector, store::redis::RedisConfig};
    ///
    /// let inspector = Inspector::connect(RedisConfig::new("redis://localhost")).await?;
    /// let mut ticks = tokio::time::interval(Duration::from_secs(1));
    /// let look = inspector.locks(None);
    /// tokio::pin!(look);
    /// let locks = loop {
    ///     tokio::select! {
    ///         locks = &mut look => break locks?,
    ///         _ = ticks.tick() => {
    ///             let part = inspector.progress().unwrap_or_default();
    ///             println!("{:.0} %", part * 100.0);
    ///         }
    ///     }
    /// };
    /// # drop(locks);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn progress(&self) -> Option<f64> {
        let of_stores = self
            .stores
            .iter()
            .filter_map(|store| store.pace().progress());
        of_stores.min_by(f64::total_cmp)
    }

    /// Subscribes to the messages about new holders. In a quorum, a waiter is only notified that it may request
    /// the lock; a holder whose lock was force-released is notified too.
    ///
    /// # Errors
    ///
    /// [`StoreError`] when it cannot subscribe to a server; in a quorum, to any of them.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connections.
    ///
    /// ```no_run
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use dlock::{admin::Inspector, store::redis::RedisConfig};
    ///
    /// let inspector = Inspector::connect(RedisConfig::new("redis://localhost")).await?;
    /// let mut grants = inspector.grants().await?;
    /// while let Some(grant) = grants.next().await {
    ///     println!("{} goes to {}", grant.key, grant.owner);
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn grants(&self) -> Result<Grants, StoreError> {
        let listener = Listener::open(&self.stores).await?;
        let of_quorum = self.of_quorum;
        let grants = unfold(listener, move |mut listener| async move {
            loop {
                let heard = listener.next().await?;
                // A single server sends a fence of 0 to a holder whose lock was force-released.
                if heard.fence > 0 || of_quorum {
                    let grant = Grant::new(heard.key, heard.owner, heard.fence);
                    return Some((grant, listener));
                }
            }
        });
        let mut grants = Box::pin(grants.fuse());
        Ok(Grants::new(move |context| {
            grants.as_mut().poll_next(context)
        }))
    }
}

impl fmt::Debug for Inspector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inspector")
            .field("stores", &self.stores)
            .finish_non_exhaustive()
    }
}
