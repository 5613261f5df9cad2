//! A database of a test's own.

use std::time::Duration;

use dlock::{LockManager, LockManagerBuilder, store::StoreOptions};
use dlock_postgres::{PostgresStore, Schema};
use dlock_testkit::PostgresServer;
use tokio_postgres::Client;

use crate::common::{ANSWER, Env, LIMIT, assert_idle};

pub(crate) struct Postgres {
    pub(crate) server: &'static PostgresServer,
    pub(crate) database: String,
    /// For looks into the tables.
    looks: Client,
}

impl Postgres {
    pub(crate) fn url(&self) -> String {
        self.server.url_of("postgres", &self.database)
    }

    /// A connection of the application.
    pub(crate) async fn client(&self) -> Client {
        self.server.client(&self.database).await
    }

    /// The number that a statement returns.
    pub(crate) async fn number(&self, statement: &str) -> i64 {
        let row = self.looks.query_one(statement, &[]).await.unwrap();
        row.get(0)
    }

    /// A builder for managers that do not mind a machine which is busy.
    pub(crate) fn builder() -> LockManagerBuilder {
        LockManager::builder()
            .scheme("postgres", dlock_postgres::Postgres)
            .response_timeout(ANSWER)
            .connect_timeout(LIMIT)
    }

    /// The rows of holders and waiters of these keys.
    pub(crate) async fn rows_of(&self, keys: &[String]) -> Vec<String> {
        let rows = "SELECT 'holder ' || key || ' ' || owner FROM dlock.holder WHERE key = ANY ($1) \
                    UNION ALL SELECT 'waiter ' || key || ' ' || owner FROM dlock.waiter WHERE key = ANY ($1)";
        let rows = self.looks.query(rows, &[&keys]).await.unwrap();
        rows.iter().map(|row| row.get(0)).collect()
    }
}

impl Env for Postgres {
    type Store = PostgresStore;

    const BRIEF: Duration = Duration::from_secs(3);
    const PROMPT: Duration = LIMIT;

    async fn start() -> Self {
        let server = PostgresServer::shared().await;
        let database = server.database().await;
        let looks = server.client(&database).await;
        let migration = Schema::new("dlock").unwrap().migration(None).unwrap();
        looks.batch_execute(&migration).await.unwrap();
        let table = "CREATE TABLE account (id int PRIMARY KEY, cents bigint); INSERT INTO account VALUES (7, 100)";
        looks.batch_execute(table).await.unwrap();
        Self {
            server,
            database,
            looks,
        }
    }

    async fn store(&self) -> PostgresStore {
        let mut options = StoreOptions::default();
        options.response_timeout = ANSWER;
        options.connect_timeout = LIMIT;
        PostgresStore::open(&self.url(), &options).unwrap()
    }

    async fn manager_with(
        &self,
        change: impl FnOnce(LockManagerBuilder) -> LockManagerBuilder,
    ) -> LockManager {
        let builder = change(Self::builder());
        builder.connect(&self.url()).await.unwrap()
    }

    async fn locks(&self) -> Vec<String> {
        let keys = "SELECT array_agg(key) FROM dlock.turn";
        let row = self.looks.query_one(keys, &[]).await.unwrap();
        let keys: Option<Vec<String>> = row.get(0);
        self.rows_of(&keys.unwrap_or_default()).await
    }

    async fn delete(&self, key: &str) {
        let deleted = "DELETE FROM dlock.holder WHERE key = $1";
        let deleted = self.looks.execute(deleted, &[&key]).await.unwrap();
        assert_eq!(deleted, 1, "there was a lock to delete");
    }

    async fn assert_clean(&self, keys: usize, managers: &[&LockManager]) {
        assert_idle(managers).await;
        assert_eq!(self.locks().await, Vec::<String>::new());
        let fences = self.number("SELECT count(*) FROM dlock.turn").await;
        assert!(usize::try_from(fences).unwrap() <= keys, "{fences} fences");
    }
}
