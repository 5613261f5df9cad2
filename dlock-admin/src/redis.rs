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
use crate::{grants::Grants, inspect::Inspect as _, model::Grant};

/// Inspects the locks of a namespace and force-releases a lock: on one server, the master that Sentinels name,
/// a cluster, or a quorum of independent servers.
///
/// - **Listings** walk through all keys of a server in steps of a thousand, so that other clients are not delayed. All listings
///   of an inspector together take at most 5 % of a server's time, by its clock. A million other keys take about 20 s, or one
///   second [at full speed](Self::at_full_speed). A lock that appears or ends during the walk may or may not be listed.
/// - **Third-party clients.** A string of theirs is a lock too, but with raw keys only if it has waiters. Data of other types is
///   omitted; a value that is no lock is an error of the kind [`WrongType`](dlock_runtime::StoreErrorKind::WrongType) where one
///   lock is asked for.
/// - **Processes** publish a record of themselves every ten seconds; it ends after thirty.
/// - **A forced release** raises the fence of the slot first. A resource that compares fencing tokens refuses later writes of the
///   old holder as soon as it has seen a newer token; while others share the lock it cannot, as they have the same token. The
///   holder is notified, and its body ends as [`Lost`](dlock_runtime::LockError::Lost) within about a round trip, or else at its
///   next renewal. A lease that is not renewed ends for its holder at its deadline, and a third-party client is not notified: two
///   bodies may run until then. A lease that was renewed or handed over inside its process after the inspection counts as the
///   same lease. On each server the release is one atomic step.
/// - **Quorum.** Some servers have to answer. A release is an error also when so many servers did not answer the inspection that a
///   majority may still hold the lease. The progress is that of the slowest server. A grant is only the notice to a waiter that
///   it may request the lock.
/// - **Reports** test permissions on a key and a channel that have no other use. The server's log may contain the refusals.
///
/// ```no_run
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use dlock::{admin::{Inspect, Inspector}, store::redis::RedisConfig};
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
    /// use dlock::{admin::{Inspect, Inspector}, store::redis::RedisConfig};
    ///
    /// let inspector = Inspector::connect(RedisConfig::new("redis://localhost")).await?;
    /// let locks = inspector.at_full_speed().locks(None).await?;
    /// # drop(locks);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn at_full_speed(self) -> Self {
        self.lift_limit();
        self
    }

    /// Subscribes to the messages about new holders.
    pub(super) async fn subscribe(&self) -> Result<Grants, StoreError> {
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
