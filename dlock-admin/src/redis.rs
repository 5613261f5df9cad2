//! An operator's connection to the servers of Redis that have the locks.

mod doctor;
mod look;
mod merge;
mod report;
mod traits;
mod unlock;

use std::{
    fmt,
    sync::{Arc, atomic::AtomicU64},
};

use dlock_runtime::{
    ConnectError,
    admin::{Listener, RedisReader},
    random::SystemRandom,
    store::{ClientId, StoreError, redis::RedisConfig},
};
use futures_util::stream::{Stream as _, StreamExt as _, unfold};

pub use self::doctor::RedisJudge;
use crate::{grants::Grants, model::Grant};

/// Inspects the locks of a namespace and force-releases a lock: on one server, the master that Sentinels name,
/// a cluster, or a quorum of independent servers.
///
/// ```no_run
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
    /// One reader, or one for each server of a quorum.
    readers: Vec<RedisReader>,
    judge: Arc<RedisJudge>,
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
        let judge = Arc::new(RedisJudge::of(&config)?);
        Ok(Self {
            readers: RedisReader::connect(config).await?,
            judge,
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
        self.readers.iter().for_each(RedisReader::begin);
    }

    fn lift(&self) {
        self.readers.iter().for_each(RedisReader::lift_limit);
    }

    /// Returns the completed part of a walk through all keys, from 0 to 1. Returns `None` while no walk is in
    /// progress.
    ///
    /// It is computed from the server's cursor, or in a cluster from the number of finished nodes. In a quorum
    /// it is the progress of the slowest server.
    ///
    /// ```no_run
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
        let of_servers = self.readers.iter().filter_map(RedisReader::progress);
        of_servers.min_by(f64::total_cmp)
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
        let listener = Listener::open(&self.readers).await?;
        let of_quorum = self.readers.len() > 1;
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
            .field("readers", &self.readers)
            .finish_non_exhaustive()
    }
}
