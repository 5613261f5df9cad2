//! An operator's view of the locks in a schema.

use std::{fmt, sync::Arc};

use dlock_admin::{
    Grants, Inspect, Inspecting, LockInfo, Overview, Pace, ServerReport, Unlocked, doctor::Judge,
};
use dlock_runtime::{
    ConnectError, LockKey,
    store::{OwnerId, StoreError, StoreErrorKind, StoreOptions},
};

use super::{
    doctor::PostgresJudge,
    link::{Link, field},
    page,
    pattern::Pattern,
    report, unlock,
};
use crate::config::Config;

/// The name of an inspector's connection. It is not that of a process with locks.
const NAME: &str = "dlock operator";

/// The names that managers give to their connections, unless the URL has another `application_name`.
const PROCESSES: &str = "SELECT count(DISTINCT a.application_name) FROM pg_stat_activity a
    WHERE a.datname = current_database() AND a.application_name ~ '^[^ ]+/[0-9]+( dlock/[0-9]+)?$'";

/// About how many keys a walk will read.
const ESTIMATE: &str = "SELECT coalesce(sum(greatest(c.reltuples, 0)), 0)::bigint
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = $1 AND c.relname IN ('holder', 'waiter')";

/// Inspects the locks in a schema of a PostgreSQL database, and force-releases a lock.
///
/// Its connection is read-only, and lists locks in pages of 500 keys. Between two pages it pauses, so that listings use at most
/// 5 % of the server's time. A forced release uses a connection of its own.
///
/// PostgreSQL sends a message about a grant to its waiter only, so [`grants`](Inspect::grants) is `Unsupported`.
/// Processes leave no records: holders and waiters have labels, and [`Overview::process_count`] is the number of labels among
/// the names of the connections to the database. Processes behind a pooler, or with an `application_name` of their own in
/// the URL, are not counted.
///
/// ```no_run
/// use dlock_admin::Inspect;
/// use dlock_postgres::admin::PostgresInspector;
/// use dlock_runtime::store::StoreOptions;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let url = "postgres://operations@db.internal/shop";
/// let inspector = PostgresInspector::connect(url, &StoreOptions::default()).await?;
/// for lock in inspector.locks(Some("order:*")).await? {
///     println!("{}: {} wait", lock.key, lock.waiter_count);
/// }
/// # Ok(()) }
/// ```
pub struct PostgresInspector {
    link: Link,
    pace: Pace,
}

impl PostgresInspector {
    /// Connects to the server of `url`, and checks that the tables of dlock are there and the server is not a standby. It
    /// must be called on a runtime of tokio.
    ///
    /// # Errors
    ///
    /// [`ConnectError`] when the URL is invalid, the server does not answer in time or refuses the login, or the tables are
    /// missing or of another version.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connection.
    pub async fn connect(url: &str, options: &StoreOptions) -> Result<Self, ConnectError> {
        Self::connect_by(url, options, true).await
    }

    /// Connects as [`connect`](Self::connect) does, but accepts a server without the tables, and a standby: for
    /// [`servers`](Inspect::servers), which reports them.
    ///
    /// # Errors
    ///
    /// [`ConnectError`] when the URL is invalid, or the server does not answer in time or refuses the login.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connection.
    pub async fn connect_unchecked(
        url: &str,
        options: &StoreOptions,
    ) -> Result<Self, ConnectError> {
        Self::connect_by(url, options, false).await
    }

    async fn connect_by(
        url: &str,
        options: &StoreOptions,
        checks: bool,
    ) -> Result<Self, ConnectError> {
        let mut options = options.clone();
        NAME.clone_into(&mut options.label);
        let link = Link::new(Config::parse(url, &options)?, checks);
        if let Err(reason) = link.connected().await {
            let url = link.config().shown.clone();
            return Err(ConnectError::Unavailable { url, reason });
        }
        Ok(Self {
            link,
            pace: Pace::default(),
        })
    }

    async fn list_in_parts(
        &self,
        pattern: Option<&str>,
        part: &mut (dyn FnMut(Vec<LockInfo>) + Send),
    ) -> Result<(), StoreError> {
        let pattern = Pattern::of(pattern);
        let walk = self.pace.walk();
        let schema = self.link.config().schema.name();
        let rows = self
            .link
            .ask(ESTIMATE, &[(&schema, tokio_postgres::types::Type::TEXT)])
            .await?;
        let expected: i64 = rows.first().map_or(Ok(0), |row| field(row, 0, "rows"))?;
        let (mut after, mut done) = (String::new(), 0);
        loop {
            let page = self
                .pace
                .step(page::walk(&self.link, &after, &pattern))
                .await?;
            part(page.locks);
            done += page.keys;
            walk.show(done, u64::try_from(expected).unwrap_or(0));
            match page.last {
                Some(last) => after = last,
                None => return Ok(()),
            }
        }
    }

    async fn list_of(&self, keys: &[LockKey]) -> Result<Vec<LockInfo>, StoreError> {
        let mut keys: Vec<_> = keys.iter().map(LockKey::as_str).collect();
        keys.sort_unstable();
        keys.dedup();
        let mut locks = Vec::new();
        for some in keys.chunks(usize::try_from(page::ROWS).unwrap_or(usize::MAX)) {
            let read = page::of_keys(&self.link, some);
            locks.extend(self.pace.step(read).await?.locks);
        }
        Ok(locks)
    }

    async fn count_processes(&self) -> Result<Option<usize>, StoreError> {
        if self.link.connected().await?.is_pooled {
            return Ok(None);
        }
        let rows = self.link.ask(PROCESSES, &[]).await?;
        let count: i64 = rows.first().map_or(Ok(0), |row| field(row, 0, "count"))?;
        Ok(usize::try_from(count).ok())
    }
}

impl Inspect for PostgresInspector {
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
            let (mut page, _) = page::of_keys(&self.link, &[key.as_str()]).await?;
            Ok(page.locks.pop())
        })
    }

    fn overview_in_parts<'a>(
        &'a self,
        part: &'a mut (dyn FnMut(Vec<LockInfo>) + Send),
    ) -> Inspecting<'a, Result<Overview, StoreError>> {
        Box::pin(async move {
            self.list_in_parts(None, part).await?;
            let mut overview = Overview::default();
            overview.process_count = self.count_processes().await?;
            Ok(overview)
        })
    }

    fn unlock<'a>(
        &'a self,
        seen: &'a LockInfo,
        holder: Option<OwnerId>,
    ) -> Inspecting<'a, Result<Unlocked, StoreError>> {
        Box::pin(unlock::unlock(self.link.config(), seen, holder))
    }

    fn grants(&self) -> Inspecting<'_, Result<Grants, StoreError>> {
        let text = "PostgreSQL sends a message about a grant to its waiter only; grants are found by reading the locks";
        let error = StoreError::new(StoreErrorKind::Unsupported, text).with_advice();
        Box::pin(std::future::ready(Err(error.unsent())))
    }

    fn servers(&self) -> Inspecting<'_, Vec<ServerReport>> {
        Box::pin(async move { vec![report::report(&self.link).await] })
    }

    fn judge(&self) -> Arc<dyn Judge> {
        Arc::new(PostgresJudge)
    }

    fn pace(&self) -> Option<&Pace> {
        Some(&self.pace)
    }
}

impl fmt::Debug for PostgresInspector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PostgresInspector")
            .field(self.link.config())
            .finish()
    }
}
