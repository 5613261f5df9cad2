//! Leases that a transaction checks and then relies on, and locks that end with a transaction.

use std::future::Future;

use dlock_runtime::{FencingToken, Lease, LockRequest};
use tokio_postgres::{
    Row, Transaction,
    types::{ToSql, Type},
};

use crate::check::{Adoption, FenceError, LeaseStatement};

/// Checks a lease in a transaction of the database that keeps the lease.
pub trait Fence {
    /// Checks in `transaction` that the lease is held, for each of its keys. After it has answered, no other
    /// holder gets the keys before the transaction has ended, even if the lease has ended in the meantime.
    ///
    /// Call it before the statements that it protects. It costs one round trip. The row of the lease is locked
    /// `FOR KEY SHARE`: renewals go on, and a release is carried out after the end of the transaction.
    ///
    /// | isolation level | the lease was lost before | it was lost since the transaction's snapshot |
    /// |---|---|---|
    /// | `READ COMMITTED` | [`FenceError::NotHeld`] | [`FenceError::NotHeld`] |
    /// | `REPEATABLE READ`, `SERIALIZABLE` | [`FenceError::NotHeld`] | [`FenceError::Database`] with code 40001 |
    ///
    /// At the last two levels, the snapshot must not be older than the lease: acquire the lock first, then begin the
    /// transaction. Rolling back to a savepoint also undoes a check that was made after it. A transaction that only reads cannot
    /// be fenced, because the check locks a row.
    ///
    /// ```no_run
    /// # async fn demo(manager: dlock_runtime::LockManager, mut client: tokio_postgres::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use dlock_postgres::Fence;
    ///
    /// let guard = manager.lock("account:7").acquire().await?;
    /// let tx = client.transaction().await?;
    /// guard.fence(&tx).await?;
    /// tx.execute("UPDATE account SET cents = cents - 100 WHERE id = 7", &[]).await?;
    /// tx.commit().await?;
    /// guard.release().await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`FenceError`]. The transaction is not to be committed then.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the lease may or may not have been checked. Roll the transaction back.
    fn fence(
        &self,
        transaction: &Transaction<'_>,
    ) -> impl Future<Output = Result<(), FenceError>> + Send;
}

impl Fence for Lease {
    async fn fence(&self, transaction: &Transaction<'_>) -> Result<(), FenceError> {
        let check = LeaseStatement::fence(self)?;
        let row = ask(&check, transaction).await?;
        check.verdict(row.try_get(0)?)
    }
}

/// Acquires a lock that ends with `transaction`: with its commit at once, after a roll-back within three seconds.
///
/// It excludes every other holder of the key, with or without a transaction, and needs no renewal. The transaction alone
/// decides how long it is held: `ttl`, `renew`, `max_hold` and `min_hold` of the request have no effect. For several keys,
/// the token is that of the first.
///
/// ```no_run
/// # async fn demo(manager: dlock_runtime::LockManager, mut client: tokio_postgres::Client) -> Result<(), Box<dyn std::error::Error>> {
/// let tx = client.transaction().await?;
/// dlock_postgres::lock_in(manager.lock("account:7"), &tx).await?;
/// tx.execute("UPDATE account SET cents = cents - 100 WHERE id = 7", &[]).await?;
/// tx.commit().await?;
/// # Ok(()) }
/// ```
///
/// At `REPEATABLE READ` and `SERIALIZABLE`, it must be the first statement of the transaction: later it finds the lease
/// to be younger than the snapshot, and returns [`FenceError::NotHeld`].
///
/// # Errors
///
/// [`FenceError`]. The transaction is not to be committed then.
///
/// # Cancel safety
///
/// If the future is dropped, the lock is released, or ends with the transaction. Roll the transaction back.
pub async fn lock_in(
    request: LockRequest,
    transaction: &Transaction<'_>,
) -> Result<FencingToken, FenceError> {
    let adoption = Adoption::acquire(request).await?;
    let row = ask(&adoption.statement()?, transaction).await?;
    adoption.verdict(row.try_get(0)?)
}

async fn ask(
    statement: &LeaseStatement<'_>,
    transaction: &Transaction<'_>,
) -> Result<Row, tokio_postgres::Error> {
    let parameters: [(&(dyn ToSql + Sync), Type); 3] = [
        (&statement.keys(), Type::TEXT_ARRAY),
        (&statement.owners(), Type::TEXT_ARRAY),
        (&statement.fences(), Type::INT8_ARRAY),
    ];
    transaction
        .query_typed_one(statement.sql(), &parameters)
        .await
}
