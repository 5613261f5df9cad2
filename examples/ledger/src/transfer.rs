//! The part that a service would copy: a transfer under a lock, whose transaction checks the lease.

use std::time::Duration;

use dlock::{LockError, distributed_lock};
use dlock_postgres::{Fence, FenceError};
use tokio_postgres::{Client, Error, Transaction};

// A service uses the default, 30 s. Pauses of that length are rare but occur.
pub(crate) const TTL: Duration = Duration::from_secs(3);

#[derive(Debug, thiserror::Error)]
pub(crate) enum TransferError {
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error(transparent)]
    Fence(#[from] FenceError),
    #[error(transparent)]
    Database(#[from] Error),
}

impl TransferError {
    /// The fence has refused the transaction because the lease was lost. Nothing was written.
    pub(crate) fn is_too_late(&self) -> bool {
        use FenceError::{Lock, NotHeld};
        matches!(
            self,
            Self::Fence(NotHeld { .. } | Lock(LockError::Lost { .. }))
        )
    }
}

/// A connection, and what this demonstration does with it.
pub(crate) struct Desk {
    pub(crate) db: Client,
    /// Check the lease.
    pub(crate) fenced: bool,
    /// Where the next transfer sleeps.
    pub(crate) sleeps: Option<Point>,
    /// Blocks the thread. The argument is the state of the transfer.
    pub(crate) sleep: fn(&str),
}

/// A point in the middle of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Point {
    BeforeTheFence,
    AfterTheFence,
}

// With `on_lost = finish`, the transaction decides. After the fence has answered, the commit is right although the lease
// may have ended. With `stop`, dlock would cancel the body, and the transaction would be rolled back for no reason.
#[distributed_lock(
    key = ["account:<from>", "account:<to>"],
    ttl = TTL,
    wait = "2m",
    on_lost = finish,
    lease = lease
)]
pub(crate) async fn transfer(
    from: i32,
    to: i32,
    cents: i64,
    desk: &mut Desk,
) -> Result<(), TransferError> {
    let tx = desk.db.transaction().await?;
    let (source, target) = (balance(&tx, from).await?, balance(&tx, to).await?);
    let state = format!("has read {} and {}", money(source), money(target));
    if desk.sleeps == Some(Point::BeforeTheFence) {
        (desk.sleep)(&state);
    }
    if desk.fenced {
        // It covers the two reads as well: if it finds the lease, no other process has had these keys since.
        lease.fence(&tx).await?;
    }
    if desk.sleeps == Some(Point::AfterTheFence) {
        let fenced = if desk.fenced { ", has fenced" } else { "" };
        (desk.sleep)(&format!("{state}{fenced}"));
    }
    enter(&tx, from, source - cents, -cents).await?;
    enter(&tx, to, target + cents, cents).await?;
    tx.commit().await?;
    Ok(())
}

async fn balance(tx: &Transaction<'_>, account: i32) -> Result<i64, Error> {
    let statement = "SELECT cents FROM account WHERE id = $1";
    tx.query_one(statement, &[&account]).await?.try_get(0)
}

/// Writes the new balance, as a number, and an entry of the history.
async fn enter(tx: &Transaction<'_>, account: i32, balance: i64, cents: i64) -> Result<(), Error> {
    let statement = "UPDATE account SET cents = $2 WHERE id = $1";
    tx.execute(statement, &[&account, &balance]).await?;
    let statement = "INSERT INTO entry (account, cents, balance) VALUES ($1, $2, $3)";
    tx.execute(statement, &[&account, &cents, &balance]).await?;
    Ok(())
}

/// Cents as they are shown.
pub(crate) fn money(cents: i64) -> String {
    let sign = if cents < 0 { "-" } else { "" };
    let cents = cents.unsigned_abs();
    format!("{sign}{}.{:02}", cents / 100, cents % 100)
}
