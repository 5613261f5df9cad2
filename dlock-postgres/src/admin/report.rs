//! Reads the state of the server: settings, clock, round trips, permissions, and the transactions that hold leases.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use dlock_admin::{ClockReading, ServerReport};
use dlock_runtime::store::StoreError;
use tokio_postgres::types::Type;

use super::{
    link::{Link, field},
    permissions,
    relied::{self, Place},
};
use crate::{
    config::Listen,
    schema::{OLDEST, VERSION},
};

/// Settings, as the server reports them to any user.
const SETTINGS: &str = "SELECT s.name, s.setting FROM pg_settings s WHERE s.name IN (
    'server_version', 'server_version_num', 'max_connections', 'superuser_reserved_connections', 'synchronous_commit',
    'synchronous_standby_names', 'fsync', 'full_page_writes', 'idle_in_transaction_session_timeout', 'autovacuum')
    UNION ALL SELECT 'in_recovery', CASE WHEN pg_is_in_recovery() THEN 'on' ELSE 'off' END
    UNION ALL SELECT 'user', current_user::text
    UNION ALL SELECT 'database', current_database()::text
    UNION ALL SELECT 'connections', sum(d.numbackends)::text FROM pg_stat_database d
    UNION ALL SELECT 'reads_all_stats', pg_has_role('pg_read_all_stats', 'USAGE')::text";

/// The rows of dlock's tables, as autovacuum counts them.
const TABLES: &str = "SELECT c.relname::text, s.n_live_tup, s.n_dead_tup,
        coalesce(c.reloptions @> ARRAY['autovacuum_enabled=false'], false), c.relpersistence = 'u'
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_stat_all_tables s ON s.relid = c.oid
    WHERE n.nspname = $1 AND c.relname IN ('turn', 'holder', 'waiter')";

const NOW: &str = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint";

/// The processes that know an earlier version of the tables only, by the names of their connections. Those that know version 1
/// only have no version in it.
const BEHIND: &str = r"SELECT DISTINCT m.part[1] FROM pg_stat_activity a
    CROSS JOIN LATERAL regexp_matches(a.application_name, '^([^ ]+/[0-9]+)(?: dlock/([0-9]{1,9}))?$') AS m (part)
    WHERE a.datname = current_database() AND coalesce(m.part[2]::integer, 1) < $1 ORDER BY 1";

/// The number of round trips that are measured.
const SAMPLES: usize = 20;

/// Reports on the server. A value that cannot be read is absent.
pub(super) async fn report(link: &Link) -> ServerReport {
    let mut report = ServerReport::new(link.config().shown.clone());
    report.product = Some("PostgreSQL".to_owned());
    if let Err(failure) = fill(link, &mut report).await {
        report.failure = Some(failure);
    }
    report
}

/// Fails only if the server cannot be asked at all.
async fn fill(link: &Link, report: &mut ServerReport) -> Result<(), StoreError> {
    let config = link.config();
    let is_pooled = link.connected().await?.is_pooled;
    for row in link.ask(SETTINGS, &[]).await? {
        let name: &str = field(&row, 0, "name")?;
        report.set(name, field::<&str>(&row, 1, "setting")?);
    }
    report.version = report.field("server_version").map(str::to_owned);
    report.set("schema", config.schema.name());
    report.set("needed_version", VERSION);
    report.set("oldest_version", OLDEST);
    report.set("pooled", is_pooled);
    let listens = match config.listen {
        Listen::Direct => "direct",
        Listen::Always => "other",
        Listen::Never => "off",
    };
    report.set("listen", listens);
    measure(link, report).await?;
    let user = report.info.get("user").cloned().unwrap_or_default();
    let permissions = permissions::permissions(link, &user).await?;
    report.set("has_schema", permissions.is_there);
    report.set("reads_tables", permissions.reads_tables);
    report.denied = permissions.denied;
    if let Some(owner) = link.connected().await?.owner(config).await? {
        report.set("owner", &owner.name);
        report.set("owner_is_superuser", owner.is_superuser);
        if let Some(distrust) = owner.distrust() {
            report.set("distrust", distrust);
            return Ok(());
        }
    }
    if !permissions.is_there {
        return Ok(());
    }
    if permissions.reads_version {
        let rows = link.ask("SELECT {schema}.version()", &[]).await?;
        if let Some(row) = rows.first() {
            let version: i32 = field(row, 0, "version")?;
            report.set("schema_version", version);
            let rows = link.ask(BEHIND, &[(&version, Type::INT4)]).await?;
            let names = rows.iter().map(|row| field::<&str>(row, 0, "name"));
            let names: Vec<_> = names.collect::<Result<_, _>>()?;
            report.set("processes_behind", names.join(", "));
        }
    }
    let schema = config.schema.name();
    for row in link.ask(TABLES, &[(&schema, Type::TEXT)]).await? {
        let name: String = field(&row, 0, "relname")?;
        report.set(&format!("{name}_live"), field::<i64>(&row, 1, "live")?);
        report.set(&format!("{name}_dead"), field::<i64>(&row, 2, "dead")?);
        report.set(
            &format!("{name}_unvacuumed"),
            field::<bool>(&row, 3, "off")?,
        );
        report.set(
            &format!("{name}_unlogged"),
            field::<bool>(&row, 4, "unlogged")?,
        );
    }
    // The row of a lease is needed to say which transaction it is, but not to say that there is one.
    if permissions.reads_tables {
        let connected = link.connected().await?;
        let relying = relied::relying(config, &connected, "").await?;
        report.set("relying", relying.len());
        for (index, it) in relying.iter().enumerate() {
            let seconds = it
                .seconds
                .map_or_else(|| "?".to_owned(), |it| it.to_string());
            let about = format!("seconds={seconds},state={},user={}", it.state, it.user);
            let text = match &it.place {
                Place::Session(pid) => format!("pid={pid},{about},application={}", it.application),
                Place::Prepared(name) => format!("{about},prepared={name}"),
            };
            report.set(&format!("relying{index}"), text);
        }
    }
    Ok(())
}

/// Measures round trips, and the clock by the shortest of them.
async fn measure(link: &Link, report: &mut ServerReport) -> Result<(), StoreError> {
    for _ in 0..SAMPLES {
        let (sent, at) = (Instant::now(), SystemTime::now());
        let rows = link.ask(NOW, &[]).await?;
        let took = sent.elapsed();
        let shortest = report.round_trips.iter().min().copied();
        report.round_trips.push(took);
        if shortest.is_none_or(|it| took < it)
            && let Some(row) = rows.first()
        {
            let theirs: i64 = field(row, 0, "time")?;
            let ours = at.duration_since(UNIX_EPOCH).unwrap_or_default() + took / 2;
            let ours = i64::try_from(ours.as_micros()).unwrap_or(i64::MAX);
            let reading =
                ClockReading::new(theirs - ours, (took / 2).max(Duration::from_micros(1)));
            report.clock = Some(reading);
        }
    }
    Ok(())
}
