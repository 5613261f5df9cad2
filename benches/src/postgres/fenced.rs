//! `fence` beside `SELECT 1`, as the first statement of a transaction that goes on to write.
//!
//! `SELECT 1` is the cost of a round trip, and checks nothing: a check has to find the row of the lease, and to lock it
//! until the commit. Beyond `SELECT 1`, half of the instructions of `fence` in the server are the lookup and the lock, two
//! fifths the call with its three arrays, and the rest the settings of the function. The same check by hand takes more,
//! because its text is planned each time, which the function saves.

use std::time::Instant;

use dlock::LockGuard;
use dlock_postgres::Fence;
use tokio_postgres::{Client, Statement};

use super::cycle::micros;
use super::{Options, connect, manager};
use crate::Failure;
use crate::apart::report::Report;
use crate::apart::rounds::Rounds;

pub(super) async fn measure(
    options: &Options,
    url: &str,
    report: &mut Report,
) -> Result<(), Failure> {
    let manager = manager(url).await?;
    let mut client = connect(url).await?;
    let write = client
        .prepare("UPDATE account SET cents = cents + 1 WHERE id = 7")
        .await?;
    let guard = manager.lock("account:7").acquire().await?;
    let mut rounds: [[Rounds; 2]; 2] = Default::default();
    for round in 0..=options.rounds {
        for (lease, rounds) in [None, Some(&guard)].into_iter().zip(&mut rounds) {
            let (mut first, mut whole) = (Vec::new(), Vec::new());
            for _ in 0..options.sections {
                let [statement, transaction] = one(&mut client, &write, lease).await?;
                first.push(statement);
                whole.push(transaction);
            }
            if round > 0 {
                rounds[0].add(first);
                rounds[1].add(whole);
            }
        }
    }
    guard.release().await?;
    manager.shutdown(super::PATIENCE).await;
    let [[select, plain], [fence, fenced]] = &rounds;
    report.time("`fence`", fence);
    report.time("`SELECT 1` in its place", select);
    report.time("transaction with `fence`", fenced);
    report.time("transaction with `SELECT 1`", plain);
    report.ratio("`fence` / `SELECT 1`", fence.ratio(select), Some(1.5));
    report.ratio(
        "transaction with `fence` / with `SELECT 1`",
        fenced.ratio(plain),
        None,
    );
    Ok(())
}

/// A transaction, and the times of its first statement and of all of it.
async fn one(
    client: &mut Client,
    write: &Statement,
    lease: Option<&LockGuard>,
) -> Result<[f64; 2], Failure> {
    let begun = Instant::now();
    let tx = client.transaction().await?;
    let asked = Instant::now();
    match lease {
        Some(lease) => lease.fence(&tx).await?,
        None => drop(tx.query_typed_one("SELECT 1", &[]).await?),
    }
    let first = micros(asked);
    tx.execute(write, &[]).await?;
    tx.commit().await?;
    Ok([first, micros(begun)])
}
