//! An operator's view of the locks in a namespace.

use std::{fmt, sync::Arc, time::SystemTime};

use dlock_admin::{
    Grants, Inspect, Inspecting, KeyPattern, LockInfo, Pace, ServerReport, Unlocked, doctor::Judge,
};
use dlock_runtime::{
    ConnectError, LockKey,
    store::{OwnerId, StoreError, StoreOptions},
};

use super::{doctor::ZooKeeperJudge, grants, link::Link, lock, page, report, unlock};
use crate::config::Config;

/// Inspects the locks in a namespace of ZooKeeper, and force-releases a lock.
///
/// It lists locks by small requests, one for each lock, holder and waiter. It pauses after 200 of them, so that listings use at
/// most 5 % of a server's time. Before each listing, the server catches up with the others. It has a session, which it ends
/// when it is dropped, and writes nothing else, except for a forced release.
///
/// - **Times.** ZooKeeper has no clock that a client can read. [`HolderInfo::since`](dlock_admin::HolderInfo::since) is by
///   the clock of the holder. TTLs and [`WaiterInfo::waiting`](dlock_admin::WaiterInfo::waiting) compare this
///   machine's clock with that of the servers' leader, by which nodes have times.
/// - **Sessions.** The lock of a crashed process is free when its session ends, which can be after its TTL: then the TTL is
///   0. The rest of another client's session cannot be read.
/// - **Processes.** ZooKeeper shows no client the others, so [`Overview::processes`](dlock_admin::Overview::processes) is empty and
///   [`Overview::process_count`](dlock_admin::Overview::process_count) is `None`. Labels name the processes of holders and waiters.
/// - **Waiters** that crashed are in the queue until their session ends. Until then they count as alive.
/// - **Grants.** [`grants`](Inspect::grants) watches all nodes of the namespace, after it has read all queues once. It needs
///   ZooKeeper 3.6. Until it is dropped, the server also tells it of each renewal.
/// - **Other programs.** A child that another program has written where dlock's claims are has no owner. Its fence is the number of
///   the transaction that created it. Nodes with other names are left alone.
///
/// ```no_run
/// use dlock_admin::Inspect;
/// use dlock_runtime::store::StoreOptions;
/// use dlock_zookeeper::admin::ZooKeeperInspector;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let url = "zookeeper://shop:change-me@zk-1,zk-2,zk-3";
/// let inspector = ZooKeeperInspector::connect(url, &StoreOptions::default()).await?;
/// for lock in inspector.locks(Some("order:*")).await? {
///     println!("{}: {} wait", lock.key, lock.waiter_count);
/// }
/// # Ok(()) }
/// ```
pub struct ZooKeeperInspector {
    link: Link,
    pace: Pace,
}

impl ZooKeeperInspector {
    /// Connects to one of the servers of `url` that answers and has a majority. It must be called on a runtime of tokio.
    ///
    /// # Errors
    ///
    /// [`ConnectError`] when the URL is invalid, or no server answers in time.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connection.
    pub async fn connect(url: &str, options: &StoreOptions) -> Result<Self, ConnectError> {
        let inspector = Self::open(url, options)?;
        if let Err(reason) = inspector.link.client().await {
            let url = inspector.link.config().shown.clone();
            return Err(ConnectError::Unavailable { url, reason });
        }
        Ok(inspector)
    }

    /// Creates an inspector that connects with its first request: for [`servers`](Inspect::servers), which also reports
    /// servers that do not answer.
    ///
    /// # Errors
    ///
    /// [`ConnectError`] when the URL or an option is invalid.
    pub fn open(url: &str, options: &StoreOptions) -> Result<Self, ConnectError> {
        let config = Config::parse(url, options)?;
        Ok(Self {
            link: Link::new(config, options.connect_timeout),
            pace: Pace::default(),
        })
    }

    async fn list_in_parts(
        &self,
        pattern: Option<&str>,
        part: &mut (dyn FnMut(Vec<LockInfo>) + Send),
    ) -> Result<(), StoreError> {
        let pattern = pattern.map(KeyPattern::new);
        let walk = self.pace.walk();
        let keys = page::keys(&self.link, &self.pace, pattern.as_ref()).await?;
        let mut pass_on = |claims: Vec<page::Claims>| part(described(&claims));
        page::claims_in_parts(&self.link, &self.pace, &keys, Some(&walk), &mut pass_on).await
    }

    async fn list_of(&self, keys: &[LockKey]) -> Result<Vec<LockInfo>, StoreError> {
        let mut keys = keys.to_vec();
        keys.sort_unstable_by(|one, other| one.as_str().cmp(other.as_str()));
        keys.dedup();
        self.link.catch_up().await?;
        let claims = page::claims(&self.link, &self.pace, &keys).await?;
        Ok(described(&claims))
    }
}

fn described(claims: &[page::Claims]) -> Vec<LockInfo> {
    // ZooKeeper has no clock that a client can read.
    let now = SystemTime::now();
    claims.iter().map(|it| lock::lock(it, now)).collect()
}

impl Inspect for ZooKeeperInspector {
    fn locks_in_parts<'a>(
        &'a self,
        pattern: Option<&'a str>,
        part: &'a mut (dyn FnMut(Vec<LockInfo>) + Send),
    ) -> Inspecting<'a, Result<(), StoreError>> {
        Box::pin(self.list_in_parts(pattern, part))
    }

    fn locks_of<'a>(
        &'a self,
        keys: &'a [LockKey],
    ) -> Inspecting<'a, Result<Vec<LockInfo>, StoreError>> {
        Box::pin(self.list_of(keys))
    }

    fn lock<'a>(
        &'a self,
        key: &'a LockKey,
    ) -> Inspecting<'a, Result<Option<LockInfo>, StoreError>> {
        Box::pin(async move {
            self.link.catch_up().await?;
            let claims = page::claims_on(&self.link, key).await?;
            let is_claimed = !claims.queue.is_empty();
            Ok(is_claimed.then(|| lock::lock(&claims, SystemTime::now())))
        })
    }

    fn unlock<'a>(
        &'a self,
        seen: &'a LockInfo,
        holder: Option<OwnerId>,
    ) -> Inspecting<'a, Result<Unlocked, StoreError>> {
        Box::pin(unlock::unlock(&self.link, seen, holder))
    }

    fn grants(&self) -> Inspecting<'_, Result<Grants, StoreError>> {
        Box::pin(grants::grants(&self.link, &self.pace))
    }

    fn servers(&self) -> Inspecting<'_, Vec<ServerReport>> {
        Box::pin(report::report(&self.link))
    }

    fn judge(&self) -> Arc<dyn Judge> {
        Arc::new(ZooKeeperJudge)
    }

    fn pace(&self) -> Option<&Pace> {
        Some(&self.pace)
    }
}

impl fmt::Debug for ZooKeeperInspector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ZooKeeperInspector")
            .field(self.link.config())
            .finish()
    }
}
