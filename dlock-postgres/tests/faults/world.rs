//! A database with dlock's tables and a table that locks protect, on a server of its own or on the shared one.

use std::{borrow::Borrow, time::Duration};

use dlock_faults::Process;
use dlock_postgres::{Fence, FenceError, Postgres, Schema};
use dlock_runtime::{LockGuard, LockManager, LockManagerBuilder};
use dlock_testkit::{PostgresOptions, PostgresServer, Proxy, eventually};
use tokio_postgres::{Client, NoTls};

/// Longer than anything takes here, also on a busy machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// A release whose request may come after it is repeated for so long. The rest is for a busy machine.
pub(crate) const REPEATED: Duration = Duration::from_secs(127).saturating_add(DEADLINE);

/// The statement that counts the connections of dlock to the current database.
pub(crate) const CONNECTIONS: &str = "SELECT count(*) FROM pg_stat_activity \
     WHERE datname = current_database() AND application_name LIKE '%/%'";

/// The end of the only lease, in milliseconds.
pub(crate) const END: &str =
    "SELECT (extract(epoch FROM max(ends)) * 1000)::bigint FROM dlock.holder";

pub(crate) struct World<S = PostgresServer> {
    pub(crate) server: S,
    pub(crate) database: String,
}

impl World {
    /// On a server of its own, which a test can break.
    pub(crate) async fn new(options: PostgresOptions) -> Self {
        let server = PostgresServer::start_with(options).await;
        World::made(server, "postgres".to_owned()).await
    }
}

impl World<&'static PostgresServer> {
    /// On the server that tests share.
    pub(crate) async fn shared() -> Self {
        let server = PostgresServer::shared().await;
        let database = server.database().await;
        World::made(server, database).await
    }
}

impl<S: Borrow<PostgresServer>> World<S> {
    async fn made(server: S, database: String) -> Self {
        let world = Self { server, database };
        let migration = Schema::new("dlock").unwrap().migration(None).unwrap();
        let table = "CREATE TABLE account (id int PRIMARY KEY, cents bigint); \
                     INSERT INTO account SELECT id, 100 FROM generate_series(1, 8) id";
        for statements in [&migration, table] {
            // The standby of a test comes later.
            let alone = format!("SET synchronous_commit = local; {statements}");
            world.execute(&alone).await;
        }
        world
    }

    pub(crate) fn url(&self) -> String {
        self.server.borrow().url_of("postgres", &self.database)
    }

    /// The URL of another place at which the server is to be had.
    pub(crate) fn url_at(&self, port: u16) -> String {
        format!("postgres://postgres@127.0.0.1:{port}/{}", self.database)
    }

    /// A manager, which stands for a process.
    pub(crate) async fn manager(&self) -> Process {
        connect(&self.url()).await
    }

    /// A manager that reaches the server by a proxy.
    pub(crate) async fn behind_proxy(&self) -> (Proxy, Process) {
        let proxy = Proxy::start(self.server.borrow().port());
        let manager = connect(&self.url_at(proxy.port())).await;
        (proxy, manager)
    }

    /// A connection of the application.
    pub(crate) async fn client(&self) -> Client {
        client(&self.url()).await
    }

    pub(crate) async fn execute(&self, statements: &str) {
        let executed = self.client().await.batch_execute(statements).await;
        executed.unwrap_or_else(|error| panic!("{statements}: {error:?}"));
    }

    /// The number that a statement returns.
    pub(crate) async fn number(&self, statement: &str) -> i64 {
        let row = self.client().await.query_one(statement, &[]).await;
        row.unwrap().get::<_, Option<i64>>(0).unwrap_or_default()
    }

    /// Waits for a number that a statement returns.
    #[track_caller]
    pub(crate) fn until(
        &self,
        what: &str,
        statement: &str,
        is_right: impl Fn(i64) -> bool,
    ) -> impl Future<Output = ()> {
        let is_true = async move || is_right(self.number(statement).await);
        eventually(DEADLINE, what, is_true)
    }

    pub(crate) async fn holders(&self) -> i64 {
        self.number("SELECT count(*) FROM dlock.holder").await
    }

    pub(crate) async fn waiters(&self) -> i64 {
        self.number("SELECT count(*) FROM dlock.waiter").await
    }

    /// Waits until no lease and no place in a queue is left. The managers are still there: a request that was not answered in
    /// time may arrive late, and its owner is released again.
    pub(crate) async fn nothing_is_left(&self) {
        eventually(REPEATED, "no lease is left, and no waiter", async || {
            self.holders().await + self.waiters().await == 0
        })
        .await;
    }
}

impl<S: Borrow<PostgresServer>> dlock_faults::World for World<S> {
    const DEADLINE: Duration = DEADLINE;

    async fn process(&self) -> Process {
        self.manager().await
    }

    /// Those of all keys.
    async fn claims(&self, _key: &str) -> usize {
        let claims = self.holders().await + self.waiters().await;
        usize::try_from(claims).unwrap()
    }

    async fn nothing_is_left(&self, _key: &str) {
        self.nothing_is_left().await;
    }

    /// Only its TTL ends what comes late.
    async fn carries_out(&self, others: usize) {
        let others = i64::try_from(2 * others).unwrap();
        let is_right = |connections| connections == others;
        self.until("its connections have ended", CONNECTIONS, is_right)
            .await;
    }
}

pub(crate) async fn client(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// Requests are given up soon, connections are not.
pub(crate) fn builder() -> LockManagerBuilder {
    let builder = LockManager::builder().scheme("postgres", Postgres);
    builder
        .response_timeout(Duration::from_millis(1400))
        .connect_timeout(DEADLINE)
        .wait(DEADLINE)
}

pub(crate) async fn connect(url: &str) -> Process {
    connect_by(builder(), url).await
}

pub(crate) async fn connect_by(builder: LockManagerBuilder, url: &str) -> Process {
    Process::new(builder.connect(url).await.unwrap(), DEADLINE)
}

/// Has a lease that is over refused in a transaction.
pub(crate) async fn is_refused(guard: &LockGuard, client: &mut Client) -> FenceError {
    let tx = client.transaction().await.unwrap();
    let fenced = guard.fence(&tx).await;
    let refused = fenced.expect_err("broken promise: a late transaction was accepted");
    assert!(
        matches!(refused, FenceError::NotHeld { .. } | FenceError::Lock(_)),
        "{refused:?}"
    );
    tx.rollback().await.unwrap();
    refused
}
