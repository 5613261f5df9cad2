//! Leases of dlock in PostgreSQL, checked inside a transaction of sqlx.
//!
//! ```no_run
//! use std::error::Error;
//!
//! use dlock::{LockManager, distributed_lock};
//! use dlock_sqlx::Fence;
//! use sqlx::PgPool;
//!
//! #[distributed_lock(key = "account:<id>", lease = lease, on_lost = finish)]
//! async fn withdraw(pool: &PgPool, id: i64, cents: i64) -> Result<(), Box<dyn Error + Send + Sync>> {
//!     let mut tx = pool.begin().await?;
//!     // From here on, no other holder gets the key before this transaction has ended.
//!     lease.fence(&mut tx).await?;
//!     sqlx::query("UPDATE account SET cents = cents - $1 WHERE id = $2")
//!         .bind(cents)
//!         .bind(id)
//!         .execute(&mut *tx)
//!         .await?;
//!     tx.commit().await?;
//!     Ok(())
//! }
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
//! let url = "postgres://shop@db.internal/shop";
//! let manager = LockManager::builder()
//!     .scheme("postgres", dlock_postgres::Postgres)
//!     .connect(url)
//!     .await?;
//! dlock::install(manager)?;
//! withdraw(&PgPool::connect(url).await?, 7, 100).await?;
//! # Ok(()) }
//! ```
//!
//! The manager uses the store of [`dlock_postgres`], whose tables are created once. The pool belongs to the application, and
//! must connect to the database of the store.
//!
//! A statement about a lease takes two round trips, as sqlx prepares each statement. The statement has no name, and therefore
//! works behind a pooler such as PgBouncer in transaction mode.

use std::future::Future;

use dlock_postgres::{Adoption, LeaseStatement};
use dlock_runtime::{FencingToken, Lease, LockRequest};
use sqlx::{AssertSqlSafe, Postgres, Transaction};

/// A lease is not held, or could not be checked.
///
/// ```
/// use dlock_sqlx::FenceError;
///
/// /// Whether another attempt from the beginning may succeed.
/// fn is_worth_another_try(error: &FenceError) -> bool {
///     match error {
///         FenceError::NotHeld { .. } => true,
///         FenceError::Database(error) => {
///             let code = error.as_database_error().and_then(|error| error.code());
///             code.is_some_and(|code| code == "40001")
///         }
///         _ => false,
///     }
/// }
/// # let _: fn(&FenceError) -> bool = is_worth_another_try;
/// ```
pub type FenceError = dlock_postgres::FenceError<sqlx::Error>;

/// Checks a lease in a transaction of the database that keeps the lease.
pub trait Fence {
    /// Checks in `transaction` that the lease is held, for each of its keys. After it has answered, no other
    /// holder gets the keys before the transaction has ended, even if the lease has ended in the meantime.
    ///
    /// Call it before the statements that it protects. The row of the lease is locked `FOR KEY SHARE`: renewals go on,
    /// and a release is carried out after the end of the transaction.
    ///
    /// | isolation level | the lease was lost before | it was lost since the transaction's snapshot |
    /// |---|---|---|
    /// | `READ COMMITTED` | [`FenceError::NotHeld`] | [`FenceError::NotHeld`] |
    /// | `REPEATABLE READ`, `SERIALIZABLE` | [`FenceError::NotHeld`] | [`FenceError::Database`] with code 40001 |
    ///
    /// At the last two levels, the snapshot must not be older than the lease: acquire the lock first, then begin the
    /// transaction. Rolling back to a savepoint also undoes a check that was made after it.
    ///
    /// A connection without a transaction is not accepted: the check would protect nothing after its own statement.
    ///
    /// ```compile_fail,E0308
    /// # async fn demo(lease: &dlock_runtime::Lease, pool: sqlx::PgPool) -> Result<(), Box<dyn std::error::Error>> {
    /// use dlock_sqlx::Fence;
    ///
    /// let mut connection = pool.acquire().await?;
    /// lease.fence(&mut connection).await?;
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
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn demo(manager: dlock_runtime::LockManager, pool: sqlx::PgPool) -> Result<(), Box<dyn std::error::Error>> {
    /// use dlock_sqlx::Fence;
    ///
    /// let guard = manager.lock("account:7").acquire().await?;
    /// let mut tx = pool.begin().await?;
    /// guard.fence(&mut tx).await?;
    /// sqlx::query("UPDATE account SET cents = cents - 100 WHERE id = 7").execute(&mut *tx).await?;
    /// tx.commit().await?;
    /// guard.release().await?;
    /// # Ok(()) }
    /// ```
    fn fence(
        &self,
        transaction: &mut Transaction<'_, Postgres>,
    ) -> impl Future<Output = Result<(), FenceError>> + Send;
}

impl Fence for Lease {
    async fn fence(&self, transaction: &mut Transaction<'_, Postgres>) -> Result<(), FenceError> {
        let check = LeaseStatement::fence(self)?;
        let answer = ask(&check, transaction).await?;
        check.verdict(answer.as_deref())
    }
}

/// Acquires a lock that ends with `transaction`: with its commit at once, after a roll-back within three seconds.
///
/// It excludes every other holder of the key, with or without a transaction, and needs no renewal. The transaction alone
/// decides how long it is held: `ttl`, `renew`, `max_hold` and `min_hold` of the request have no effect. For several keys,
/// the token is that of the first.
///
/// ```no_run
/// # async fn demo(manager: dlock_runtime::LockManager, pool: sqlx::PgPool) -> Result<(), Box<dyn std::error::Error>> {
/// let mut tx = pool.begin().await?;
/// dlock_sqlx::lock_in(manager.lock("account:7"), &mut tx).await?;
/// sqlx::query("UPDATE account SET cents = cents - 100 WHERE id = 7").execute(&mut *tx).await?;
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
    transaction: &mut Transaction<'_, Postgres>,
) -> Result<FencingToken, FenceError> {
    let adoption = Adoption::acquire(request).await?;
    let answer = ask(&adoption.statement()?, transaction).await?;
    adoption.verdict(answer.as_deref())
}

async fn ask(
    statement: &LeaseStatement<'_>,
    transaction: &mut Transaction<'_, Postgres>,
) -> Result<Option<String>, FenceError> {
    // Only the quoted name of the schema varies in the text.
    sqlx::query_scalar(AssertSqlSafe(statement.sql()))
        .bind(statement.keys())
        .bind(statement.owners())
        .bind(statement.fences())
        // Without a name: behind a pooler, another client's statement may have it on the same connection.
        .persistent(false)
        .fetch_one(&mut **transaction)
        .await
        .map_err(FenceError::Database)
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
