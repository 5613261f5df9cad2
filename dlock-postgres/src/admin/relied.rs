//! Names the transactions that depend on leases: those that have fenced one, or have adopted one with `lock_in`.

use dlock_runtime::store::StoreError;
use tokio_postgres::{Client, Row, types::Type};

use super::link::{field, within};
use crate::config::Config;

/// A transaction that depends on a lease keeps a lock on the table `holder` until its end; dlock's own requests keep one for
/// their statement. `is_exact` says that the row of the key names it. A savepoint hides that.
const RELYING: &str = r#"
WITH relying AS (
    SELECT DISTINCT k.pid FROM pg_locks k
    JOIN pg_class c ON c.oid = k.relation
    JOIN pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_database d ON d.oid = k.database
    WHERE k.locktype = 'relation' AND k.granted AND k.mode IN ('RowShareLock', 'RowExclusiveLock')
      AND d.datname = current_database() AND n.nspname = $1 AND c.relname = 'holder' AND k.pid <> pg_backend_pid()
),
oldest AS (SELECT mxid_age(d.datminmxid) AS age FROM pg_database d WHERE d.datname = current_database()),
locker AS (
    SELECT k.pid FROM {schema}.holder h
    CROSS JOIN oldest
    CROSS JOIN LATERAL (
        SELECT h.xmax AS xid
        UNION ALL
        SELECT m.xid FROM pg_get_multixact_members(
            CASE WHEN mxid_age(h.xmax) BETWEEN 1 AND oldest.age THEN h.xmax END) m
    ) AS of_row
    JOIN pg_locks k ON k.locktype = 'transactionid' AND k.granted AND k.transactionid = of_row.xid
    WHERE h.key = $2
)
SELECT r.pid, coalesce(a.application_name, ''), coalesce(a.usename::text, ''), coalesce(a.state, ''),
       to_char(a.xact_start AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
       floor(extract(epoch FROM clock_timestamp() - a.xact_start))::bigint,
       r.pid IN (SELECT l.pid FROM locker l) AS is_exact
FROM relying r LEFT JOIN pg_stat_activity a ON a.pid = r.pid
ORDER BY is_exact DESC, a.xact_start NULLS LAST, r.pid
"#;

/// A transaction that depends on a lease.
pub(super) struct Relying {
    pub(super) pid: i32,
    pub(super) application: String,
    pub(super) user: String,
    /// Empty if this user may not see it.
    pub(super) state: String,
    /// `None` if this user may not see it.
    pub(super) since: Option<String>,
    pub(super) seconds: Option<i64>,
    is_exact: bool,
}

impl Relying {
    fn of(row: &Row) -> Result<Self, StoreError> {
        Ok(Self {
            pid: field(row, 0, "pid")?,
            application: field(row, 1, "application_name")?,
            user: field(row, 2, "usename")?,
            state: field(row, 3, "state")?,
            since: field(row, 4, "xact_start")?,
            seconds: field(row, 5, "seconds")?,
            is_exact: field(row, 6, "is_exact")?,
        })
    }

    /// Describes it: `pid 4711 (billing@host-3/4711, user "shop", idle in transaction since 2026-11-22T04:39:20Z)`.
    fn described(&self) -> String {
        let Self {
            pid,
            application,
            user,
            state,
            ..
        } = self;
        let time = match &self.since {
            Some(since) if state.is_empty() => format!("since {since}"),
            Some(since) => format!("{state} since {since}"),
            None => "since an unknown time: `GRANT pg_read_all_stats` shows it".to_owned(),
        };
        let name = match application.as_str() {
            "" => String::new(),
            name => format!("{name}, "),
        };
        format!("pid {pid} ({name}user \"{user}\", {time})")
    }
}

/// Lists the transactions that depend on the lease of `key`, or without a key on any lease.
pub(super) async fn relying(
    config: &Config,
    client: &Client,
    key: &str,
) -> Result<Vec<Relying>, StoreError> {
    let schema = &config.schema;
    let statement = schema.fill(RELYING);
    let name = schema.name();
    let asked = async {
        client
            .query_typed(&statement, &[(&name, Type::TEXT), (&key, Type::TEXT)])
            .await
    };
    let rows = within(config.response_limit, schema, asked).await?;
    rows.iter().map(Relying::of).collect()
}

/// Says why the lease of `key` was not ended, and which transaction has to end first.
pub(super) async fn explain(config: &Config, client: &Client, key: &str) -> String {
    let found = relying(config, client, key).await.unwrap_or_default();
    let exact: Vec<_> = found.iter().filter(|it| it.is_exact).collect();
    let is_exact = !exact.is_empty();
    let named: Vec<_> = if is_exact {
        exact
    } else {
        found.iter().collect()
    };
    let pids: Vec<_> = named.iter().map(|it| it.described()).collect();
    let advice = match named.as_slice() {
        [] => "inspect the lock again: the transaction may have ended since".to_owned(),
        [one] => format!(
            "end it with `SELECT pg_terminate_backend({})`, or wait for it: {}",
            one.pid, pids[0]
        ),
        _ if is_exact => format!(
            "end them with `pg_terminate_backend(pid)`, or wait for them: {}",
            pids.join(", ")
        ),
        _ => format!(
            "end it with `pg_terminate_backend(pid)`, or wait for it; it is one of these: {}",
            pids.join(", ")
        ),
    };
    format!("`{key}` was not released: a transaction relies on its lease; {advice}")
}
