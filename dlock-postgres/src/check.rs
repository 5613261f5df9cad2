//! A check or an adoption of leases as one statement, for any driver: its text, its parameters, and the meaning of its
//! answer.

use std::{error::Error, time::Duration};

use dlock_runtime::{FencingToken, Lease, LockError, LockGuard, LockKey, LockRequest};

use crate::{errors, store::PostgresStore};

/// The lease of a lock in a transaction, until the transaction has adopted it. If the transaction is rolled back, the
/// key is free after this time.
const ADOPTION: Duration = Duration::from_secs(3);

/// Returns a key that is not held, or null. The names are qualified, as the search path is the user's.
const ADOPT: &str = "SELECT pg_catalog.min(due.key) FILTER (WHERE NOT {schema}.adopt(due.key, due.owner, due.fence)) \
                     FROM ROWS FROM (pg_catalog.unnest($1::pg_catalog.text[]), pg_catalog.unnest($2::pg_catalog.text[]), \
                     pg_catalog.unnest($3::pg_catalog.int8[])) AS due (key, owner, fence)";

/// A lease is not held, or could not be checked. `D` is the error of the database driver.
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
pub enum FenceError<D: Error + 'static = tokio_postgres::Error> {
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
    #[error("the lease could not be checked: {}", errors::of_transaction(.0))]
    Database(#[source] D),
}

impl From<tokio_postgres::Error> for FenceError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Database(error)
    }
}

/// A statement about a lease for a transaction, for database drivers other than tokio-postgres.
///
/// Execute [`sql`](Self::sql) in the transaction, with [`keys`](Self::keys), [`owners`](Self::owners) and
/// [`fences`](Self::fences) as its three parameters. It returns one row with one column of the type `text`, which may be
/// null, for [`verdict`](Self::verdict). This is all that [`Fence`](crate::Fence) does, whose documentation says what the
/// answer promises.
///
/// Send it as an unnamed statement: behind a pooler, a name may meet that of another client's statement.
///
/// ```no_run
/// use dlock_postgres::{FenceError, LeaseStatement};
/// use dlock_runtime::Lease;
///
/// # struct Connection;
/// # #[derive(Debug, thiserror::Error)] #[error("refused")] struct DriverError;
/// # impl Connection {
/// #     async fn first(&mut self, _: &str, _: (&[&str], &[String], &[i64])) -> Result<Option<String>, DriverError> { Ok(None) }
/// # }
/// async fn fence(lease: &Lease, transaction: &mut Connection) -> Result<(), FenceError<DriverError>> {
///     let check = LeaseStatement::fence(lease)?;
///     let parameters = (check.keys(), check.owners(), check.fences());
///     let answer = transaction.first(check.sql(), parameters).await;
///     check.verdict(answer.map_err(FenceError::Database)?.as_deref())
/// }
/// # let _ = fence;
/// ```
#[derive(Debug)]
pub struct LeaseStatement<'a> {
    lease: &'a Lease,
    sql: String,
    keys: Vec<&'a str>,
    owners: Vec<String>,
    fences: Vec<i64>,
}

impl<'a> LeaseStatement<'a> {
    /// Creates the check of a lease, for all of its keys.
    ///
    /// From then on the lease is not handed over to another task of this process: the transaction may last longer than
    /// the body.
    ///
    /// # Errors
    ///
    /// [`FenceError::Lock`] if the lease is lost, and [`FenceError::OtherStore`] if it is not kept in PostgreSQL.
    pub fn fence<D: Error + 'static>(lease: &'a Lease) -> Result<Self, FenceError<D>> {
        Self::new(lease, "SELECT {schema}.fence($1, $2, $3)")
    }

    fn new<D: Error + 'static>(lease: &'a Lease, text: &str) -> Result<Self, FenceError<D>> {
        let Some(store) = lease.store::<PostgresStore>() else {
            let key = lease.key().clone();
            return Err(FenceError::OtherStore { key });
        };
        let records = lease.records()?;
        Ok(Self {
            lease,
            sql: store.schema().fill(text),
            keys: records.iter().map(|it| it.key.as_str()).collect(),
            owners: records.iter().map(|it| it.owner.to_string()).collect(),
            fences: records.iter().map(|it| bigint(it.fence)).collect(),
        })
    }

    /// Returns the text. Its only variable part is the name of the schema, in quotes.
    #[must_use]
    pub fn sql(&self) -> &str {
        &self.sql
    }

    /// Returns the first parameter, of the type `text[]`.
    #[must_use]
    pub fn keys(&self) -> &[&'a str] {
        &self.keys
    }

    /// Returns the second parameter, of the type `text[]`.
    #[must_use]
    pub fn owners(&self) -> &[String] {
        &self.owners
    }

    /// Returns the third parameter, of the type `bigint[]`.
    #[must_use]
    pub fn fences(&self) -> &[i64] {
        &self.fences
    }

    /// Reads the answer: null, or the key that is not held.
    ///
    /// # Errors
    ///
    /// [`FenceError::NotHeld`] with that key. The transaction is not to be committed then.
    pub fn verdict<D: Error + 'static>(self, answer: Option<&str>) -> Result<(), FenceError<D>> {
        verdict(self.lease, answer)
    }
}

/// A lock that a transaction is to adopt, for database drivers other than tokio-postgres.
///
/// Execute its [`statement`](Self::statement) in the transaction, and pass the answer to [`verdict`](Self::verdict). This
/// is all that [`lock_in`](crate::lock_in) does, whose documentation says what the answer promises. A lock that is
/// dropped without a verdict is released.
///
/// ```no_run
/// use dlock_postgres::{Adoption, FenceError};
/// use dlock_runtime::{FencingToken, LockRequest};
///
/// # use dlock_postgres::LeaseStatement;
/// # struct Connection;
/// # #[derive(Debug, thiserror::Error)] #[error("refused")] struct DriverError;
/// # impl Connection {
/// #     async fn ask(&mut self, _: &LeaseStatement<'_>) -> Result<Option<String>, DriverError> { Ok(None) }
/// # }
/// async fn lock_in(
///     request: LockRequest,
///     transaction: &mut Connection,
/// ) -> Result<FencingToken, FenceError<DriverError>> {
///     let adoption = Adoption::acquire(request).await?;
///     let answer = transaction.ask(&adoption.statement()?).await;
///     adoption.verdict(answer.map_err(FenceError::Database)?.as_deref())
/// }
/// # let _ = lock_in;
/// ```
#[derive(Debug)]
#[must_use = "dropping it releases the lock"]
pub struct Adoption {
    guard: LockGuard,
}

impl Adoption {
    /// Acquires the lock, for three seconds. `ttl`, `renew`, `max_hold` and `min_hold` of the request have no effect.
    ///
    /// # Errors
    ///
    /// [`FenceError::Lock`] if the lock could not be acquired.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the lock is released.
    pub async fn acquire<D: Error + 'static>(request: LockRequest) -> Result<Self, FenceError<D>> {
        // Without renewals: the transaction is about to delete the lease. With a `min_hold`, a lock that is dropped
        // before would be kept instead of released, and a shorter `max_hold` would end it too early.
        let request = request.ttl(ADOPTION).renew(false);
        let request = request.min_hold(None).max_hold(ADOPTION);
        let guard = request.acquire().await?;
        Ok(Self { guard })
    }

    /// Returns the statement by which the transaction adopts the lock, with all of its keys.
    ///
    /// # Errors
    ///
    /// [`FenceError::Lock`] if the lock is lost, and [`FenceError::OtherStore`] if it is not kept in PostgreSQL.
    pub fn statement<D: Error + 'static>(&self) -> Result<LeaseStatement<'_>, FenceError<D>> {
        LeaseStatement::new(&self.guard, ADOPT)
    }

    /// Reads the answer, null or the key that is not held, and returns the fencing token of the first key. From here on
    /// the transaction holds the lock, and this process has no lease of it.
    ///
    /// # Errors
    ///
    /// [`FenceError::NotHeld`] with that key. The transaction is not to be committed then.
    pub fn verdict<D: Error + 'static>(
        self,
        answer: Option<&str>,
    ) -> Result<FencingToken, FenceError<D>> {
        verdict(&self.guard, answer)?;
        let token = self.guard.fencing_token();
        self.guard.leave();
        Ok(token)
    }
}

fn verdict<D: Error + 'static>(lease: &Lease, answer: Option<&str>) -> Result<(), FenceError<D>> {
    let Some(missing) = answer else {
        return Ok(());
    };
    let mut keys = lease.fencing_tokens().map(|(key, _)| key);
    let key = keys.find(|key| key.as_str() == missing);
    let key = key.unwrap_or_else(|| lease.key()).clone();
    Err(FenceError::NotHeld { key })
}

/// A fence is less than 2^51.
fn bigint(fence: u64) -> i64 {
    i64::try_from(fence).unwrap_or(i64::MAX)
}
