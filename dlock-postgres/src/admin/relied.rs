//! Names the transactions that depend on leases: those that have fenced one, or have adopted one with `lock_in`.

use dlock_runtime::store::StoreError;
use tokio_postgres::{
    Row,
    types::{ToSql, Type},
};

use super::link::{Connected, field, within};
use crate::config::Config;

/// A transaction that depends on a lease keeps a lock on the table `holder` until its end; dlock's own requests keep one for
/// their statement. `is_exact` says that the row of the key names it. A savepoint hides that. A prepared transaction has
/// no process, and its locks are found by its number.
const RELYING: &str = r#"
WITH relying AS (
    SELECT DISTINCT k.virtualtransaction AS vxid, k.pid FROM pg_locks k
    JOIN pg_class c ON c.oid = k.relation
    JOIN pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_database d ON d.oid = k.database
    WHERE k.locktype = 'relation' AND k.granted AND k.mode IN ('RowShareLock', 'RowExclusiveLock')
      AND d.datname = current_database() AND n.nspname = $1 AND c.relname = 'holder'
      AND k.pid IS DISTINCT FROM pg_backend_pid()
),
writing AS (
    SELECT k.virtualtransaction AS vxid, k.transactionid AS xid FROM pg_locks k
    WHERE k.locktype = 'transactionid' AND k.granted
),
oldest AS (SELECT mxid_age(d.datminmxid) AS age FROM pg_database d WHERE d.datname = current_database()),
locker AS (
    SELECT w.vxid FROM {schema}.holder h
    CROSS JOIN oldest
    CROSS JOIN LATERAL (
        SELECT h.xmax AS xid
        UNION ALL
        SELECT m.xid FROM pg_get_multixact_members(
            CASE WHEN mxid_age(h.xmax) BETWEEN 1 AND oldest.age THEN h.xmax END) m
    ) AS of_row
    JOIN writing w ON w.xid = of_row.xid
    WHERE h.key = $2
),
prepared AS (
    SELECT w.vxid, p.gid, p.owner, p.prepared FROM pg_prepared_xacts p JOIN writing w ON w.xid = p.transaction
)
SELECT r.pid, p.gid, coalesce(a.application_name, ''), coalesce(a.usename, p.owner, '')::text,
       CASE WHEN p.gid IS NULL THEN coalesce(a.state, '') ELSE 'prepared' END,
       to_char(began.at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
       floor(extract(epoch FROM clock_timestamp() - began.at))::bigint,
       r.vxid IN (SELECT l.vxid FROM locker l) AS is_exact
FROM relying r
LEFT JOIN pg_stat_activity a ON a.pid = r.pid
LEFT JOIN prepared p ON p.vxid = r.vxid AND r.pid IS NULL
CROSS JOIN LATERAL (SELECT coalesce(a.xact_start, p.prepared) AS at) began
WHERE r.pid IS NOT NULL OR p.gid IS NOT NULL
ORDER BY is_exact DESC, began.at NULLS LAST, r.pid, p.gid
"#;

/// A transaction that depends on a lease.
pub(super) struct Relying {
    pub(super) place: Place,
    pub(super) application: String,
    pub(super) user: String,
    /// Empty if this user may not see it.
    pub(super) state: String,
    /// `None` if this user may not see it.
    pub(super) since: Option<String>,
    pub(super) seconds: Option<i64>,
    is_exact: bool,
}

/// The place where a transaction is.
pub(super) enum Place {
    /// In a session, by the id of its process.
    Session(i32),
    /// On the server alone, under this name, until it is ended. The time is that of `PREPARE TRANSACTION`.
    Prepared(String),
}

impl Relying {
    fn of(row: &Row) -> Result<Self, StoreError> {
        let pid: Option<i32> = field(row, 0, "pid")?;
        Ok(Self {
            place: match pid {
                Some(pid) => Place::Session(pid),
                None => Place::Prepared(field(row, 1, "gid")?),
            },
            application: field(row, 2, "application_name")?,
            user: field(row, 3, "usename")?,
            state: field(row, 4, "state")?,
            since: field(row, 5, "xact_start")?,
            seconds: field(row, 6, "seconds")?,
            is_exact: field(row, 7, "is_exact")?,
        })
    }

    /// Returns the statements that end it.
    fn ended_by(&self) -> String {
        match &self.place {
            Place::Session(pid) => format!("`SELECT pg_terminate_backend({pid})`"),
            Place::Prepared(name) => {
                let name = name.replace('\'', "''");
                format!(
                    "`ROLLBACK PREPARED '{name}'` or `COMMIT PREPARED '{name}'`, as its coordinator has decided"
                )
            }
        }
    }

    /// Describes it: `pid 4711 (billing@host-3/4711, user "shop", idle in transaction since 2026-11-22T04:39:20Z)`.
    pub(super) fn described(&self) -> String {
        let Self {
            place,
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
        let place = match place {
            Place::Session(pid) => format!("pid {pid}"),
            Place::Prepared(name) => format!("transaction \"{name}\""),
        };
        format!("{place} ({name}user \"{user}\", {time})")
    }
}

/// Lists the transactions that depend on the lease of `key`, or without a key on any lease.
pub(super) async fn relying(
    config: &Config,
    connected: &Connected,
    key: &str,
) -> Result<Vec<Relying>, StoreError> {
    let schema = &config.schema;
    let (statement, name) = (schema.fill(RELYING), schema.name());
    let parameters: [(&(dyn ToSql + Sync), Type); 2] = [(&name, Type::TEXT), (&key, Type::TEXT)];
    let rows = within(config, connected.read(&statement, &parameters)).await?;
    rows.iter().map(Relying::of).collect()
}

/// Says why the lease of `key` was not ended, and which transaction has to end first.
pub(super) async fn explain(config: &Config, connected: &Connected, key: &str) -> String {
    let found = relying(config, connected, key).await.unwrap_or_default();
    let exact: Vec<_> = found.iter().filter(|it| it.is_exact).collect();
    let is_exact = !exact.is_empty();
    let named: Vec<_> = if is_exact {
        exact
    } else {
        found.iter().collect()
    };
    let each = named
        .iter()
        .map(|it| format!("{}: {}", it.described(), it.ended_by()));
    let list = each.collect::<Vec<_>>().join("; ");
    let advice = match named.as_slice() {
        [] => "inspect the lock again: the transaction may have ended since".to_owned(),
        [one] => format!(
            "end it with {}, or wait for it: {}",
            one.ended_by(),
            one.described()
        ),
        _ if is_exact => format!("end them as follows, or wait for them: {list}"),
        _ => format!("end it, or wait for it; it is one of these: {list}"),
    };
    format!("`{key}` was not released: a transaction relies on its lease; {advice}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn relying(place: Place, application: &str, state: &str, since: Option<&str>) -> Relying {
        Relying {
            place,
            application: application.to_owned(),
            user: "shop".to_owned(),
            state: state.to_owned(),
            since: since.map(str::to_owned),
            seconds: None,
            is_exact: true,
        }
    }

    #[test]
    fn a_transaction_is_described_as_far_as_it_may_be_seen() {
        let since = Some("2026-11-22T04:39:20Z");
        let prepared = || Place::Prepared("bob's".to_owned());
        for (it, described) in [
            (
                relying(
                    Place::Session(4711),
                    "billing@host/1",
                    "idle in transaction",
                    since,
                ),
                "pid 4711 (billing@host/1, user \"shop\", idle in transaction since 2026-11-22T04:39:20Z)",
            ),
            (
                relying(Place::Session(4711), "", "", since),
                "pid 4711 (user \"shop\", since 2026-11-22T04:39:20Z)",
            ),
            (
                relying(Place::Session(4711), "", "", None),
                "pid 4711 (user \"shop\", since an unknown time: `GRANT pg_read_all_stats` shows it)",
            ),
            (
                relying(prepared(), "", "prepared", since),
                "transaction \"bob's\" (user \"shop\", prepared since 2026-11-22T04:39:20Z)",
            ),
        ] {
            assert_eq!(it.described(), described);
        }
        assert_eq!(
            relying(Place::Session(4711), "", "", None).ended_by(),
            "`SELECT pg_terminate_backend(4711)`"
        );
        assert_eq!(
            relying(prepared(), "", "", None).ended_by(),
            "`ROLLBACK PREPARED 'bob''s'` or `COMMIT PREPARED 'bob''s'`, as its coordinator has decided"
        );
    }
}
