//! Leases that a transaction checks and then relies on, and locks that end with a transaction.

use std::{future::Future, time::Duration};

use dlock_runtime::{FencingToken, Lease, LockError, LockKey, LockRequest};
use tokio_postgres::{Transaction, types::Type};

use crate::store::PostgresStore;

/// The lease of a lock in a transaction, until the transaction has adopted it. If the transaction is rolled back, the
/// key is free after this time.
const ADOPTION: Duration = Duration::from_secs(3);

/// Checks a lease in a transaction of the database that keeps the lease.
pub trait Fence {
    /// Checks in `transaction` that the lease is held, for each of its keys. After it has answered, no other process gets
    /// the keys before the transaction has ended, even if the lease has ended in the meantime.
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
    /// transaction. A savepoint that is rolled back takes a check after it with it.
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

/// A lease is not held, or could not be checked.
///
/// ```
/// use dlock_postgres::FenceError;
///
/// /// Whether another attempt from the beginning may succeed.
/// fn is_worth_another_try(error: &FenceError) -> bool {
///     match error {
///         FenceError::NotHeld { .. } => true,
///         FenceError::Database(error) => error.code().is_some_and(|code| code.code() == "40001"),
///         _ => false,
///     }
/// }
/// # let _: fn(&FenceError) -> bool = is_worth_another_try;
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FenceError {
    /// The lease is lost as far as this process knows, or the lock could not be acquired.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The transaction does not find the lease: it was lost, or is younger than the transaction's snapshot.
    #[error(
        "the transaction does not find the lease of `{key}`: it has ended, was granted after the transaction's \
         snapshot, or is in another database; roll back, acquire the lock, and begin again"
    )]
    NotHeld {
        /// The key.
        key: LockKey,
    },
    /// The lease is not from PostgreSQL.
    #[error(
        "the lease of `{key}` is not kept in PostgreSQL, so no transaction can check it; acquire the lock from a \
         manager with a `postgres://` URL"
    )]
    OtherStore {
        /// The key.
        key: LockKey,
    },
    /// The database has refused the check.
    #[error("the lease could not be checked: {0}")]
    Database(#[from] tokio_postgres::Error),
}

impl Fence for Lease {
    async fn fence(&self, transaction: &Transaction<'_>) -> Result<(), FenceError> {
        let Some(store) = self.store::<PostgresStore>() else {
            let key = self.key().clone();
            return Err(FenceError::OtherStore { key });
        };
        let statement = store.schema().fill("SELECT {schema}.fence($1, $2, $3)");
        let records = self.records()?;
        let keys: Vec<_> = records.iter().map(|it| it.key.as_str()).collect();
        let owners: Vec<_> = records.iter().map(|it| it.owner.to_string()).collect();
        let fences: Vec<_> = records.iter().map(|it| bigint(it.fence)).collect();
        let row = transaction
            .query_typed_one(
                &statement,
                &[
                    (&keys, Type::TEXT_ARRAY),
                    (&owners, Type::TEXT_ARRAY),
                    (&fences, Type::INT8_ARRAY),
                ],
            )
            .await?;
        let missing: Option<&str> = row.try_get(0)?;
        match missing {
            None => Ok(()),
            Some(missing) => {
                let mut keys = records.iter().map(|it| it.key);
                let key = keys.find(|key| key.as_str() == missing);
                let key = key.unwrap_or_else(|| self.key()).clone();
                Err(FenceError::NotHeld { key })
            }
        }
    }
}

/// Acquires a lock that ends with `transaction`: with its commit at once, after a roll-back within three seconds.
///
/// It excludes whoever holds or requests the key in any other way, and needs no renewal. `ttl`, `renew`, `min_hold`
/// and `max_hold` of the request have no effect. The key must be the only one.
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
    // Without renewals: one would wait for the end of the transaction, and with it those of other leases.
    let guard = request.ttl(ADOPTION).renew(false).acquire().await?;
    let Some(store) = guard.store::<PostgresStore>() else {
        let key = guard.key().clone();
        return Err(FenceError::OtherStore { key });
    };
    let statement = store.schema().fill("SELECT {schema}.adopt($1, $2, $3)");
    let records = guard.records()?;
    let [record] = records[..] else {
        return Err(FenceError::NotHeld {
            key: guard.key().clone(),
        });
    };
    let (key, owner) = (record.key.as_str(), record.owner.to_string());
    let row = transaction
        .query_typed_one(
            &statement,
            &[
                (&key, Type::TEXT),
                (&owner, Type::TEXT),
                (&bigint(record.fence), Type::INT8),
            ],
        )
        .await?;
    let is_adopted: bool = row.try_get(0)?;
    if !is_adopted {
        return Err(FenceError::NotHeld {
            key: guard.key().clone(),
        });
    }
    let token = guard.fencing_token();
    guard.leave();
    Ok(token)
}

/// A fence is less than 2^51.
fn bigint(fence: u64) -> i64 {
    i64::try_from(fence).unwrap_or(i64::MAX)
}
