//! A database of a test's own, with dlock's tables and an account.

use std::time::Duration;

use dlock_postgres::{Postgres, Schema};
use dlock_runtime::{FencingToken, Lease, LockManager, LockRequest};
use dlock_sqlx::{Fence as _, FenceError, lock_in};
use dlock_testkit::PostgresServer;
use sqlx::{PgPool, Transaction, postgres::PgPoolOptions};

use crate::isolation::{self, Driver, Level};
pub(crate) use crate::isolation::{DEADLINE, is_free};

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

    /// Begins a transaction at the default level, and takes its snapshot.
    pub(crate) async fn begin(&self) -> Transaction<'static, sqlx::Postgres> {
        let mut tx = self.pool.begin().await.unwrap();
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
        .response_timeout(Duration::from_secs(10))
        .connect_timeout(DEADLINE);
    patient.connect(url).await.unwrap()
}

impl Driver for Database {
    type Error = sqlx::Error;
    type Connection = PgPool;
    type Transaction<'c> = Transaction<'c, sqlx::Postgres>;

    async fn new() -> Self {
        Self::new().await
    }

    async fn manager(&self) -> LockManager {
        self.manager().await
    }

    async fn connection(&self) -> PgPool {
        self.pool.clone()
    }

    async fn begin(pool: &mut PgPool, level: Level) -> Transaction<'_, sqlx::Postgres> {
        let begin = match level {
            Level::ReadCommitted => "BEGIN ISOLATION LEVEL READ COMMITTED",
            Level::RepeatableRead => "BEGIN ISOLATION LEVEL REPEATABLE READ",
            Level::Serializable => "BEGIN ISOLATION LEVEL SERIALIZABLE",
        };
        pool.begin_with(begin).await.unwrap()
    }

    async fn number(&self, statement: &'static str) -> i64 {
        self.number(statement).await
    }

    async fn end_lease(&self, key: &str) {
        self.end_lease(key).await;
    }

    async fn execute(&self, statement: &'static str) {
        sqlx::query(statement).execute(&self.pool).await.unwrap();
    }

    fn code(error: &sqlx::Error) -> Option<String> {
        let code = error.as_database_error()?.code();
        code.map(Into::into)
    }
}

impl isolation::Transaction for Transaction<'_, sqlx::Postgres> {
    type Error = sqlx::Error;

    async fn execute(&mut self, statement: &'static str) {
        sqlx::query(statement).execute(&mut **self).await.unwrap();
    }

    async fn fence(&mut self, lease: &Lease) -> Result<(), FenceError> {
        lease.fence(self).await
    }

    async fn lock_in(&mut self, request: LockRequest) -> Result<FencingToken, FenceError> {
        lock_in(request, self).await
    }

    async fn commit(self) {
        self.commit().await.unwrap();
    }

    async fn roll_back(self) {
        self.rollback().await.unwrap();
    }
}
