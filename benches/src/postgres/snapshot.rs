//! A key that two processes want all the time, beside a snapshot that stays open, as that of a backup does. It keeps the dead
//! versions of all rows, so requests that walk those of their key would take longer with each grant.

use std::time::Instant;

use dlock::{LockManager, Wait};
use tokio_postgres::IsolationLevel;

use super::{Options, connect, manager};
use crate::Failure;
use crate::apart::report::Report;
use crate::apart::rounds::{Quartiles, Rounds};

/// The grants between two figures.
const PART: u32 = 500;

pub(super) async fn measure(
    options: &Options,
    url: &str,
    report: &mut Report,
) -> Result<(), Failure> {
    let mut backup = connect(url).await?;
    let repeatable = backup.build_transaction();
    let repeatable = repeatable.isolation_level(IsolationLevel::RepeatableRead);
    let snapshot = repeatable.start().await?;
    snapshot.batch_execute("SELECT 1").await?;
    let managers = [manager(url).await?, manager(url).await?];
    // Connections and plans are made in the first one.
    part(&managers).await?;
    let (mut first, mut last) = (Rounds::default(), Rounds::default());
    let parts = (options.grants / PART).max(4);
    for number in 0..parts {
        let turn = part(&managers).await?;
        if number < parts / 4 {
            first.add(vec![turn]);
        } else if number >= parts - parts / 4 {
            last.add(vec![turn]);
        }
    }
    for manager in managers {
        manager.shutdown(super::PATIENCE).await;
    }
    snapshot.commit().await?;
    let grants = options.grants;
    report.time("turn beside an open snapshot, first quarter", &first);
    report.time(format!("the same, last quarter of {grants}"), &last);
    let (before, after) = (first.quartiles().median, last.quartiles().median);
    report.ratio(
        "last quarter / first",
        Quartiles::of(vec![after / before]),
        Some(1.3),
    );
    Ok(())
}

/// Returns the time of a turn in µs.
async fn part(managers: &[LockManager; 2]) -> Result<f64, Failure> {
    let begun = Instant::now();
    let turns = managers.each_ref().map(take_turns);
    let [one, other] = turns;
    tokio::try_join!(one, other)?;
    Ok(begun.elapsed().as_secs_f64() * 1e6 / f64::from(PART))
}

async fn take_turns(manager: &LockManager) -> Result<(), Failure> {
    for _ in 0..PART / 2 {
        let guard = manager.lock("hot").wait(Wait::Forever).acquire().await?;
        guard.release().await?;
    }
    Ok(())
}
