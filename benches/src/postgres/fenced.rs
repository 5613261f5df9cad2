//! `fence` as the first statement of a transaction that goes on to write, beside `SELECT 1` and a check by hand.
//!
//! `SELECT 1` is the cost of a round trip, and checks nothing: a check has to find the row of the lease, and to lock it
//! until the commit. Beyond `SELECT 1`, half of the instructions of `fence` in the server are the lookup and the lock, two
//! fifths the call with its three arrays, and the rest the settings of the function. The check by hand takes more, because
//! its text is planned each time, which the function saves.

use std::time::Instant;

use dlock::LockGuard;
use dlock_postgres::Fence;
use tokio_postgres::{Client, Statement, types::Type};

use super::by_hand;
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
    client.batch_execute(by_hand::HELD).await?;
    let guard = manager.lock("account:7").acquire().await?;
    let ways = [First::Nothing, First::ByHand, First::Fence(&guard)];
    let mut rounds: [[Rounds; 2]; 3] = Default::default();
    for round in 0..=options.rounds {
        for (way, rounds) in ways.iter().zip(&mut rounds) {
            let (mut first, mut whole) = (Vec::new(), Vec::new());
            for _ in 0..options.sections {
                let [statement, transaction] = one(&mut client, &write, way).await?;
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
    let [[select, plain], [check, _], [fence, fenced]] = &rounds;
    report.time("`fence`", fence);
    report.time("`SELECT 1` in its place", select);
    report.time("a check by hand in its place", check);
    report.time("transaction with `fence`", fenced);
    report.time("transaction with `SELECT 1`", plain);
    report.ratio("`fence` / `SELECT 1`", fence.ratio(select), Some(1.5));
    report.ratio("`fence` / a check by hand", fence.ratio(check), None);
    report.ratio(
        "transaction with `fence` / with `SELECT 1`",
        fenced.ratio(plain),
        None,
    );
    Ok(())
}

/// The first statement of a transaction.
enum First<'a> {
    Nothing,
    ByHand,
    Fence(&'a LockGuard),
}

/// A transaction, and the times of its first statement and of all of it.
async fn one(client: &mut Client, write: &Statement, way: &First<'_>) -> Result<[f64; 2], Failure> {
    let begun = Instant::now();
    let tx = client.transaction().await?;
    let asked = Instant::now();
    match way {
        First::Nothing => drop(tx.query_typed_one("SELECT 1", &[]).await?),
        First::ByHand => {
            let lease = [
                (&"account:7" as _, Type::TEXT),
                (&"one" as _, Type::TEXT),
                (&1_i64 as _, Type::INT8),
            ];
            // With its text, as `fence` is sent.
            drop(tx.query_typed_one(by_hand::CHECK, &lease).await?);
        }
        First::Fence(lease) => lease.fence(&tx).await?,
    }
    let first = micros(asked);
    tx.execute(write, &[]).await?;
    tx.commit().await?;
    Ok([first, micros(begun)])
}
