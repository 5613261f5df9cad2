//! The operator's connection to the servers that keep locks.

mod look;
mod report;
mod unlock;

use std::{fmt, sync::atomic::AtomicU64};

use super::HandOffs;
use crate::{
    error::ConnectError,
    owner::ClientId,
    random::SystemRandom,
    store::{
        StoreError,
        redis::{Independent, Listener, RedisConfig, RedisStore},
    },
};

/// Looks at the locks of a namespace in one server, the master that Sentinels name, a cluster, or a
/// quorum of independent servers; and releases one by force.
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
    /// One store, or those of a quorum.
    stores: Vec<RedisStore>,
    of_quorum: bool,
    /// The id under which locks are taken away.
    me: ClientId,
    unlocked: AtomicU64,
}

impl Inspector {
    /// Connects to the servers of `config`, and waits until they answer: of a quorum a majority, or
    /// some of them if there is none.
    ///
    /// # Errors
    ///
    /// [`ConnectError`] when the URL or an option is wrong, or no server answers in time.
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

    /// Lifts the pace: from now on a look at all locks uses as much of the servers' time as it can get,
    /// one step of about a millisecond after the other, instead of 5 %.
    ///
    /// For a single look at servers that have time to spare.
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
        self.stores.iter().for_each(|store| store.pace().lift());
        self
    }

    /// Returns the part of a walk through all keys that is done, from 0 to 1; `None` while none is
    /// under way.
    ///
    /// It is read from the server's cursor, or in a cluster from the number of nodes that are done. Of a
    /// quorum it is that of the slowest server.
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

    /// Listens to the messages about new holders from now on. In a quorum a waiter is only notified
    /// that it may ask, and so is a holder whose lock was taken away.
    ///
    /// # Errors
    ///
    /// [`StoreError`] when a server, of a quorum all of them, cannot be listened to.
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
    /// let mut hand_offs = inspector.hand_offs().await?;
    /// while let Some(hand_off) = hand_offs.next().await {
    ///     println!("{} goes to {}", hand_off.key, hand_off.owner);
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn hand_offs(&self) -> Result<HandOffs, StoreError> {
        let listener = Listener::open(&self.stores).await?;
        Ok(HandOffs::new(listener, self.of_quorum))
    }
}

impl fmt::Debug for Inspector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inspector")
            .field("stores", &self.stores)
            .finish_non_exhaustive()
    }
}
