//! A database of a test's own, with dlock's tables.

use std::time::Duration;

use dlock_postgres::{Postgres, PostgresStore, Schema};
use dlock_runtime::{LockManager, LockManagerBuilder, store::StoreOptions};
use dlock_testkit::PostgresServer;
use tokio_postgres::{Client, IsolationLevel, Transaction};

/// Longer than anything takes here, also on a busy machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// The levels at which transactions run.
pub(crate) const LEVELS: [IsolationLevel; 3] = [
    IsolationLevel::ReadCommitted,
    IsolationLevel::RepeatableRead,
    IsolationLevel::Serializable,
];

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

    /// A connection of the application.
    pub(crate) async fn client(&self) -> Client {
        self.server.client(&self.name).await
    }

    pub(crate) fn store(&self) -> PostgresStore {
        PostgresStore::open(&self.url(), &StoreOptions::default()).unwrap()
    }

    /// A manager, which stands for a process.
    pub(crate) async fn manager(&self) -> LockManager {
        self.manager_by(LockManager::builder()).await
    }

    pub(crate) async fn manager_by(&self, builder: LockManagerBuilder) -> LockManager {
        let builder = builder.scheme("postgres", Postgres);
        let patient = builder
            .response_timeout(Duration::from_millis(1400))
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

/// Begins a transaction at a level, and takes its snapshot.
pub(crate) async fn begin(client: &mut Client, level: IsolationLevel) -> Transaction<'_> {
    let tx = begin_without_snapshot(client, level).await;
    tx.query_one("SELECT count(*) FROM account", &[])
        .await
        .unwrap();
    tx
}

pub(crate) async fn begin_without_snapshot(
    client: &mut Client,
    level: IsolationLevel,
) -> Transaction<'_> {
    client
        .build_transaction()
        .isolation_level(level)
        .start()
        .await
        .unwrap()
}
