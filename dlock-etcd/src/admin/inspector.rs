//! An operator's view of the locks in a namespace.

use std::{fmt, sync::Arc};

use dlock_admin::{
    Grants, Inspect, Inspecting, KeyPattern, LockInfo, Pace, ServerReport, Unlocked, doctor::Judge,
};
use dlock_runtime::{
    ConnectError, LockKey,
    store::{OwnerId, StoreError, StoreOptions},
};
use futures_util::{StreamExt, TryStreamExt, stream};

use super::{
    doctor::EtcdJudge,
    grants,
    link::Link,
    lock,
    page::{self, Claims},
    report, unlock,
};
use crate::config::Config;

/// The locks that are read by their keys between two pauses.
const GIVEN: usize = 100;

/// The requests for given keys that are under way at a time.
const AT_A_TIME: usize = 8;

/// Inspects the locks in a namespace of etcd, and force-releases a lock.
///
/// It lists locks in pages of 500 keys, and pauses between two pages, so that listings use at most 5 % of a member's time. All
/// its reads are linearizable. It writes nothing, except for a forced release.
///
/// - **Times.** etcd has no clock that a client can read. [`HolderInfo::since`](dlock_admin::HolderInfo::since) and
///   [`WaiterInfo::waiting`](dlock_admin::WaiterInfo::waiting) are by the clocks of the processes. TTLs are whole
///   seconds.
/// - **Processes.** etcd keeps no list of its clients, so [`Overview::processes`](dlock_admin::Overview::processes) is empty and
///   [`Overview::process_count`](dlock_admin::Overview::process_count) is `None`. Labels name the processes of holders and waiters.
/// - **Waiters** that crashed are in the queue until their lease ends, within seconds. Until then they count as alive.
/// - **Grants.** [`grants`](Inspect::grants) watches the namespace, after it has read all locks once.
/// - **Other programs.** A key that another program has written where dlock's claims are has no owner. Its fence is the revision
///   at which it was created.
///
/// ```no_run
/// use dlock_admin::Inspect;
/// use dlock_etcd::admin::EtcdInspector;
/// use dlock_runtime::store::StoreOptions;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let url = "etcd://operations:change-me@etcd-1,etcd-2,etcd-3";
/// let inspector = EtcdInspector::connect(url, &StoreOptions::default()).await?;
/// for lock in inspector.locks(Some("order:*")).await? {
///     println!("{}: {} wait", lock.key, lock.waiter_count);
/// }
/// # Ok(()) }
/// ```
pub struct EtcdInspector {
    link: Link,
    pace: Pace,
}

impl EtcdInspector {
    /// Connects to the first member of `url` that answers and has a leader. It must be called on a runtime of tokio.
    ///
    /// # Errors
    ///
    /// [`ConnectError`] when the URL is invalid, or no member answers in time, has a leader and accepts the login.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connection.
    pub async fn connect(url: &str, options: &StoreOptions) -> Result<Self, ConnectError> {
        let inspector = Self::open(url, options)?;
        if let Err(reason) = inspector.link.connected().await {
            let url = inspector.link.config().shown.clone();
            return Err(ConnectError::Unavailable { url, reason });
        }
        Ok(inspector)
    }

    /// Creates an inspector that connects with its first request: for [`servers`](Inspect::servers), which also reports
    /// members that do not answer.
    ///
    /// # Errors
    ///
    /// [`ConnectError`] when the URL or an option is invalid, or a file cannot be used.
    pub fn open(url: &str, options: &StoreOptions) -> Result<Self, ConnectError> {
        Ok(Self {
            link: Link::new(Config::parse(url, options)?),
            pace: Pace::default(),
        })
    }

    async fn list_in_parts(
        &self,
        pattern: Option<&str>,
        part: &mut (dyn FnMut(Vec<LockInfo>) + Send),
    ) -> Result<(), StoreError> {
        let pattern = pattern.map(KeyPattern::new);
        let prefix = pattern.as_ref().map_or("", KeyPattern::prefix);
        let (mut from, to) = page::beginning_with(self.link.namespace(), prefix);
        let walk = self.pace.walk();
        let mut done = 0;
        loop {
            let read = async {
                let mut page = page::page(&self.link, &from, &to, 0).await?;
                page.claims.retain(|it| {
                    pattern
                        .as_ref()
                        .is_none_or(|pattern| pattern.matches(&it.key))
                });
                let (found, more) = lock::describe(&self.link, &page.claims).await?;
                let cost = page.cost() + more;
                Ok(((page, found), cost))
            };
            let (page, found) = self.pace.step::<_, StoreError>(read).await?;
            part(found);
            let expected = done + page.left;
            done += page.read;
            walk.show(done, expected);
            match page.next {
                Some(next) => from = next,
                None => return Ok(()),
            }
        }
    }

    async fn list_of(&self, keys: &[LockKey]) -> Result<Vec<LockInfo>, StoreError> {
        let mut keys: Vec<_> = keys.iter().map(LockKey::as_str).collect();
        keys.sort_unstable();
        keys.dedup();
        let mut locks = Vec::new();
        for some in keys.chunks(GIVEN) {
            let read = async {
                let mut asked = Vec::with_capacity(some.len());
                for key in some {
                    asked.push(self.claims_on(key));
                }
                let asked = stream::iter(asked).buffered(AT_A_TIME);
                let claims: Vec<_> = asked.try_collect().await?;
                let claims: Vec<_> = claims.into_iter().flatten().collect();
                let keys: usize = claims.iter().map(|it| it.kvs.len()).sum();
                let cost = page::cost(some.len(), u64::try_from(keys).unwrap_or(u64::MAX));
                let (found, more) = lock::describe(&self.link, &claims).await?;
                Ok((found, cost + more))
            };
            locks.extend(self.pace.step::<_, StoreError>(read).await?);
        }
        Ok(locks)
    }

    /// Returns `None` if there are no claims on the key.
    async fn claims_on(&self, key: &str) -> Result<Option<Claims>, StoreError> {
        let (_, kvs) = page::claims_on(&self.link, key, 0).await?;
        let key = key.to_owned();
        Ok((!kvs.is_empty()).then_some(Claims { key, kvs }))
    }
}

impl Inspect for EtcdInspector {
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
            let claims = self.claims_on(key.as_str()).await?;
            let (mut locks, _) = lock::describe(&self.link, claims.as_slice()).await?;
            Ok(locks.pop())
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
        Box::pin(report::report(self.link.config()))
    }

    fn judge(&self) -> Arc<dyn Judge> {
        Arc::new(EtcdJudge)
    }

    fn pace(&self) -> Option<&Pace> {
        Some(&self.pace)
    }
}

impl fmt::Debug for EtcdInspector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("EtcdInspector")
            .field(self.link.config())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use dlock_testkit::EtcdServer;

    use super::*;
    use crate::scene::LONG;

    #[tokio::test]
    async fn a_listing_shows_how_much_of_it_is_done() {
        let server = EtcdServer::start().await;
        let claims: Vec<_> = (0..600)
            .map(|number| {
                let name = format!("dlock/order:{number:03}/{number:032x}.1");
                (name, "1 1000 exclusive - - - h1 -".to_owned())
            })
            .collect();
        server.put_all(&claims).await;
        let mut options = StoreOptions::default();
        options.response_timeout = LONG;
        options.connect_timeout = LONG;
        let inspector = EtcdInspector::connect(&server.url(), &options).await;
        let inspector = inspector.unwrap();
        inspector.pace.lift_limit();
        let mut seen = Vec::new();
        let mut part = |locks: Vec<LockInfo>| {
            let percent = inspector.pace.progress().map(|it| format!("{it:.2}"));
            seen.push((locks.len(), percent));
        };
        let listed = inspector.locks_in_parts(None, &mut part).await;
        assert_eq!(listed, Ok(()));
        let expected = [(500, "0.00"), (100, "0.83")];
        let expected = expected.map(|(count, it)| (count, Some(it.to_owned())));
        assert_eq!(seen, expected);
        assert_eq!(inspector.pace.progress(), None, "it is over");
    }
}
