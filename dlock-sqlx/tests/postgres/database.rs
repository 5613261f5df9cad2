//! A database of a test's own, with dlock's tables and an account.

use std::time::Duration;

use dlock_postgres::{Postgres, Schema};
use dlock_runtime::LockManager;
use dlock_testkit::PostgresServer;
use sqlx::{PgPool, Transaction, postgres::PgPoolOptions};

/// Longer than anything takes here, also on a busy machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// The isolation levels, by the statements that begin a transaction.
pub(crate) const LEVELS: [&str; 3] = [
    "BEGIN ISOLATION LEVEL READ COMMITTED",
    "BEGIN ISOLATION LEVEL REPEATABLE READ",
    "BEGIN ISOLATION LEVEL SERIALIZABLE",
];

pub(crate) struct Database {
    url: String,
    pub(crate) pool: PgPool,
}

impl Database {
    /// One of the shared server.
    pub(crate) async fn new() -> Self {
        let database = Self::empty().await;
        let migration = Schema::new("dlock").unwrap().migration(None).unwrap();
        database.execute(migration).await;
        let account = "CREATE TABLE account (id bigint PRIMARY KEY, cents bigint); INSERT INTO account VALUES (7, 100)";
        database.execute(account.to_owned()).await;
        database
    }

    /// One without tables.
    pub(crate) async fn empty() -> Self {
        let server = PostgresServer::shared().await;
        let url = server.url_of("postgres", &server.database().await);
        let pool = pool(&url).await;
        Self { url, pool }
    }

    /// A manager, which stands for a process.
    pub(crate) async fn manager(&self) -> LockManager {
        manager(&self.url).await
    }

    async fn execute(&self, statements: String) {
        let statements = sqlx::raw_sql(sqlx::AssertSqlSafe(statements));
        statements.execute(&self.pool).await.unwrap();
    }

    /// The number that a statement returns.
    pub(crate) async fn number(&self, statement: &'static str) -> i64 {
        let answer = sqlx::query_scalar(statement).fetch_one(&self.pool).await;
        answer.unwrap()
    }

    /// Has the lease of a key end, as if its holder had slept.
    pub(crate) async fn end_lease(&self, key: &str) {
        let end = sqlx::query("UPDATE dlock.holder SET ends = clock_timestamp() WHERE key = $1");
        let ended = end.bind(key).execute(&self.pool).await.unwrap();
        assert_eq!(ended.rows_affected(), 1, "`{key}` was held");
    }

    /// Begins a transaction at a level, and takes its snapshot.
    pub(crate) async fn begin(&self, level: &'static str) -> Transaction<'static, sqlx::Postgres> {
        let mut tx = self.pool.begin_with(level).await.unwrap();
        let look = sqlx::query("SELECT count(*) FROM account");
        look.fetch_one(&mut *tx).await.unwrap();
        tx
    }
}

pub(crate) async fn pool(url: &str) -> PgPool {
    let options = PgPoolOptions::new().acquire_timeout(DEADLINE);
    options.connect(url).await.unwrap()
}

pub(crate) async fn manager(url: &str) -> LockManager {
    let builder = LockManager::builder().scheme("postgres", Postgres);
    let patient = builder
        .response_timeout(Duration::from_millis(1400))
        .connect_timeout(DEADLINE);
    patient.connect(url).await.unwrap()
}

/// Whether another manager gets the key now, which it then releases.
pub(crate) async fn is_free(manager: &LockManager, key: &str) -> bool {
    let Some(guard) = manager.lock(key).try_acquire().await.unwrap() else {
        return false;
    };
    guard.release().await.unwrap();
    true
}
