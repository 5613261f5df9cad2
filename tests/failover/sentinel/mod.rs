//! Masters that die, stand still and come back, and Sentinels that say who is next.
//!
//! Managers stand for processes: those of one test share nothing but the servers. The figures that
//! some tests print are told with `--nocapture`.
#![cfg(feature = "redis")]

mod fail_over;
mod modes;
mod odd_sentinels;
mod replicas;
mod split_brain;

use std::time::Duration;

use dlock::{LockManager, LockManagerBuilder};
use dlock_testkit::{RedisServer, SentinelShape, Sentinels};

/// A fail-over takes some seconds, and more on a machine under load.
const LONG: Duration = Duration::from_secs(60);

async fn manager(all: &Sentinels) -> LockManager {
    manager_with(all, |builder| builder).await
}

async fn manager_with(
    all: &Sentinels,
    change: impl FnOnce(LockManagerBuilder) -> LockManagerBuilder,
) -> LockManager {
    let builder = change(LockManager::builder().wait(LONG));
    crate::common::soon(builder.connect(&all.url()))
        .await
        .unwrap()
}

/// One replica and one Sentinel, which lets a replica that was cut off be for half a minute. After twice that time it
/// tries again where a machine under load has made a fail-over fail.
async fn small_and_patient() -> Sentinels {
    Sentinels::start_with(SentinelShape {
        replicas: 1,
        sentinels: 1,
        failover_timeout: Duration::from_secs(30),
        ..SentinelShape::default()
    })
    .await
}

/// How many connections of dlock a server has.
async fn clients(server: &RedisServer) -> usize {
    let list: String = server.read(redis::cmd("CLIENT").arg("LIST")).await;
    list.lines()
        .filter(|it| it.contains(" name=dlock:"))
        .count()
}
