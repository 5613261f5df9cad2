//! The promises of `fence` and `lock_in` at each isolation level, for the drivers of `dlock-postgres` and `dlock-sqlx`.

pub(crate) mod fence;
pub(crate) mod lock_in;

use std::{error::Error, time::Duration};

use dlock_postgres::FenceError;
use dlock_runtime::{FencingToken, Lease, LockManager, LockRequest};

/// Longer than anything takes here, also on a busy machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// An isolation level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    ReadCommitted,
    RepeatableRead,
    Serializable,
}

impl Level {
    pub(crate) const ALL: [Self; 3] = [
        Self::ReadCommitted,
        Self::RepeatableRead,
        Self::Serializable,
    ];
}

/// A database of a test's own, with dlock's tables and the account 7, as a driver sees it.
pub(crate) trait Driver: Sized + 'static {
    type Error: Error + 'static;
    type Connection: 'static;
    type Transaction<'c>: Transaction<Error = Self::Error>;

    async fn new() -> Self;

    /// A manager, which stands for a process.
    async fn manager(&self) -> LockManager;

    async fn connection(&self) -> Self::Connection;

    /// Begins a transaction, without a snapshot.
    async fn begin(connection: &mut Self::Connection, level: Level) -> Self::Transaction<'_>;

    /// The number that a statement returns.
    async fn number(&self, statement: &'static str) -> i64;

    /// Has the lease of a key end, as if its holder had slept.
    async fn end_lease(&self, key: &str);

    /// Executes a statement in a transaction of its own.
    async fn execute(&self, statement: &'static str);

    /// The code of the server's error.
    fn code(error: &Self::Error) -> Option<String>;
}

/// A transaction of the application.
pub(crate) trait Transaction: Sized {
    type Error: Error + 'static;

    /// Executes a statement. The first one takes the snapshot.
    async fn execute(&mut self, statement: &'static str);

    async fn fence(&mut self, lease: &Lease) -> Result<(), FenceError<Self::Error>>;

    async fn lock_in(
        &mut self,
        request: LockRequest,
    ) -> Result<FencingToken, FenceError<Self::Error>>;

    async fn commit(self);

    async fn roll_back(self);
}

/// Begins a transaction that has its snapshot.
async fn begin<D: Driver>(connection: &mut D::Connection, level: Level) -> D::Transaction<'_> {
    let mut tx = D::begin(connection, level).await;
    tx.execute("SELECT count(*) FROM account").await;
    tx
}

/// Whether a manager gets the key now, which it then releases.
pub(crate) async fn is_free(manager: &LockManager, key: &str) -> bool {
    let Some(guard) = manager.lock(key).try_acquire().await.unwrap() else {
        return false;
    };
    guard.release().await.unwrap();
    true
}

/// Makes a test of each case of a module for a driver.
macro_rules! cases {
    ($driver:ident, $module:ident: $($case:ident,)*) => {
        $(
            #[tokio::test]
            async fn $case() {
                crate::isolation::$module::$case::<$driver>().await;
            }
        )*
    };
}
pub(crate) use cases;
