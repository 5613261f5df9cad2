//! Many locks held by one process: how many connections that takes, and that none is lost.

use std::time::Duration;

use dlock::{LockGuard, LockManager};
use dlock_postgres::Postgres;
use futures_util::{StreamExt, TryStreamExt, stream};
use tokio::time::{Instant, sleep};
use tokio_postgres::Client;

use super::{Options, connect};
use crate::Failure;
use crate::apart::report::Report;
use crate::apart::rounds::Quartiles;
use crate::outcome::count;
use crate::usage::Usage;

/// So many requests are under way at once.
const AT_ONCE: usize = 64;

/// The connections of others to this database.
const CONNECTIONS: &str = "\
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()";

/// The renewals of a lease change its row.
const RENEWED: &str = "SELECT pg_stat_get_tuples_updated('dlock.holder'::regclass)";

pub(super) async fn measure(
    options: &Options,
    url: &str,
    report: &mut Report,
) -> Result<(), Failure> {
    let ttl = Duration::from_secs(options.ttl);
    let watcher = connect(url).await?;
    let builder = LockManager::builder().scheme("postgres", Postgres).ttl(ttl);
    let manager = builder.connect(url).await?;
    let guards: Vec<_> = stream::iter(0..options.locks)
        .map(|number| manager.lock(format!("order:{number}")).acquire())
        .buffer_unordered(AT_ONCE)
        .try_collect()
        .await?;
    let connections = ask(&watcher, CONNECTIONS).await?;
    let (begun, before) = (Instant::now(), Usage::now());
    sleep(Duration::from_secs(options.held)).await;
    let used = Usage::now().since(&before).processor();
    let share = used.as_secs_f64() / begun.elapsed().as_secs_f64();
    let connections = connections.max(ask(&watcher, CONNECTIONS).await?);
    let released = stream::iter(guards)
        .map(LockGuard::release)
        .buffer_unordered(AT_ONCE)
        .filter(|released| std::future::ready(released.is_ok()))
        .count()
        .await;
    let renewals = ask(&watcher, RENEWED).await? / f64::from(options.locks);
    manager.shutdown(super::PATIENCE).await;

    let locks = options.locks;
    let lost = f64::from(locks) - count(released);
    report.exactly(&format!("connections for {locks} locks"), connections, 2.0);
    report.exactly(&format!("lost of {locks} locks"), lost, 0.0);
    let one = |number| Quartiles::of(vec![number]);
    report.ratio("renewals of each", one(renewals), None);
    report.ratio("processors that the holder used", one(share), None);
    Ok(())
}

async fn ask(client: &Client, statement: &str) -> Result<f64, Failure> {
    let number: i64 = client.query_one(statement, &[]).await?.get(0);
    Ok(count(usize::try_from(number)?))
}
