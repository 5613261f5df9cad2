//! A database of a test's own, with dlock's tables.

use std::time::Duration;

use dlock_postgres::{Fence as _, FenceError, Postgres, PostgresStore, Schema, lock_in};
use dlock_runtime::{
    FencingToken, Lease, LockManager, LockManagerBuilder, LockRequest, store::StoreOptions,
};
use dlock_testkit::PostgresServer;
use tokio_postgres::{Client, Error, IsolationLevel, Transaction};

pub(crate) use crate::isolation::DEADLINE;
use crate::isolation::{self, Driver, Level};

pub(crate) struct Database {
    pub(crate) server: &'static PostgresServer,
    pub(crate) name: String,
}

impl Database {
    /// One of the shared server.
    pub(crate) async fn new() -> Self {
        let server = PostgresServer::shared().await;
        let name = server.database().await;
        let database = Self { server, name };
        let migration = Schema::new("dlock").unwrap().migration(None).unwrap();
        database
            .client()
            .await
            .batch_execute(&migration)
            .await
            .unwrap();
        let table = "CREATE TABLE account (id int PRIMARY KEY, cents bigint); INSERT INTO account VALUES (7, 100)";
        database.client().await.batch_execute(table).await.unwrap();
        database
    }

    pub(crate) fn url(&self) -> String {
        self.server.url_of("postgres", &self.name)
    }

    /// The URL of another place at which the server is to be had.
    pub(crate) fn url_at(&self, port: u16) -> String {
        format!("postgres://postgres@127.0.0.1:{port}/{}", self.name)
    }

    /// A connection of the application.
    pub(crate) async fn client(&self) -> Client {
        self.server.client(&self.name).await
    }

    pub(crate) fn store(&self) -> PostgresStore {
        Self::open(&self.url())
    }

    /// A store whose URL has these options.
    pub(crate) fn store_with(&self, options: &str) -> PostgresStore {
        Self::open(&format!("{}?{options}", self.url()))
    }

    fn open(url: &str) -> PostgresStore {
        let mut options = StoreOptions::default();
        // The machine of the tests is slow at times.
        options.response_timeout = Duration::from_secs(10);
        options.connect_timeout = DEADLINE;
        PostgresStore::open(url, &options).unwrap()
    }

    /// A manager, which stands for a process.
    pub(crate) async fn manager(&self) -> LockManager {
        self.manager_by(LockManager::builder()).await
    }

    pub(crate) async fn manager_by(&self, builder: LockManagerBuilder) -> LockManager {
        let builder = builder.scheme("postgres", Postgres);
        let patient = builder
            .response_timeout(Duration::from_secs(10))
            .connect_timeout(DEADLINE);
        patient.connect(self.url()).await.unwrap()
    }

    /// The number that a statement returns.
    pub(crate) async fn number(&self, statement: &str) -> i64 {
        self.client()
            .await
            .query_one(statement, &[])
            .await
            .unwrap()
            .get(0)
    }

    /// Has the lease of a key end, as if its holder had slept.
    pub(crate) async fn end_lease(&self, key: &str) {
        let client = self.client().await;
        let ended = client
            .execute(
                "UPDATE dlock.holder SET ends = clock_timestamp() WHERE key = $1",
                &[&key],
            )
            .await;
        assert_eq!(ended.unwrap(), 1, "`{key}` was held");
    }
}

/// Begins a transaction at the default level, and takes its snapshot.
pub(crate) async fn begin(client: &mut Client) -> Transaction<'_> {
    let tx = client.transaction().await.unwrap();
    let look = "SELECT count(*) FROM account";
    tx.query_one(look, &[]).await.unwrap();
    tx
}

impl Driver for Database {
    type Error = Error;
    type Connection = Client;
    type Transaction<'c> = Transaction<'c>;

    async fn new() -> Self {
        Self::new().await
    }

    async fn manager(&self) -> LockManager {
        self.manager().await
    }

    async fn connection(&self) -> Client {
        self.client().await
    }

    async fn begin(client: &mut Client, level: Level) -> Transaction<'_> {
        let level = match level {
            Level::ReadCommitted => IsolationLevel::ReadCommitted,
            Level::RepeatableRead => IsolationLevel::RepeatableRead,
            Level::Serializable => IsolationLevel::Serializable,
        };
        let begun = client.build_transaction().isolation_level(level);
        begun.start().await.unwrap()
    }

    async fn number(&self, statement: &'static str) -> i64 {
        self.number(statement).await
    }

    async fn end_lease(&self, key: &str) {
        self.end_lease(key).await;
    }

    async fn execute(&self, statement: &'static str) {
        let client = self.client().await;
        client.batch_execute(statement).await.unwrap();
    }

    fn code(error: &Error) -> Option<String> {
        error.code().map(|code| code.code().to_owned())
    }
}

impl isolation::Transaction for Transaction<'_> {
    type Error = Error;

    async fn execute(&mut self, statement: &'static str) {
        self.batch_execute(statement).await.unwrap();
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
