//! The commands over a PostgreSQL server.
#![allow(
    clippy::unwrap_used,
    reason = "the helpers of tests may fail as tests do"
)]

mod doctor;
mod migrate;
mod reads;
mod serve;
mod unlock;
mod watch;

use std::{process::Command, time::Duration};

use dlock::LockManager;
use dlock_postgres::{Postgres, Schema, admin::Migration};
use dlock_testkit::{PostgresServer, eventually};
use serde_json::Value;
use tokio_postgres::Client;

use super::{Ended, LIMIT, call, clean, until_answered};

/// Returns the program with a URL.
fn at(url: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dlock"));
    clean(&mut command);
    command.env("DLOCK_URL", url).args(arguments);
    command
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// A database of a test's own.
struct Database {
    server: &'static PostgresServer,
    name: String,
}

impl Database {
    /// One without tables.
    async fn empty() -> Self {
        let server = PostgresServer::shared().await;
        let name = server.database().await;
        Self { server, name }
    }

    /// One with the tables of dlock.
    async fn new() -> Self {
        let database = Self::empty().await;
        let migration = Migration::new(Schema::new("dlock").unwrap());
        let script = migration.script();
        database.execute(&script).await;
        database
    }

    fn url(&self) -> String {
        self.url_of("postgres")
    }

    fn url_of(&self, user: &str) -> String {
        self.server.url_of(user, &self.name)
    }

    async fn client(&self) -> Client {
        self.server.client(&self.name).await
    }

    async fn execute(&self, statements: &str) {
        let executed = self.client().await.batch_execute(statements).await;
        executed.unwrap_or_else(|error| panic!("{statements}: {error:?}"));
    }

    async fn number(&self, statement: &str) -> i64 {
        let row = self.client().await.query_one(statement, &[]).await;
        row.unwrap().get(0)
    }

    /// Makes a user without permissions, whose name no other test uses.
    async fn role(&self, kind: &str) -> String {
        let role = format!("{kind}_{}", self.name);
        self.execute(&format!("CREATE ROLE {role} LOGIN")).await;
        role
    }

    /// A manager, which stands for a process.
    async fn manager(&self, application: &str) -> LockManager {
        let builder = LockManager::builder()
            .scheme("postgres", Postgres)
            .application(application)
            .ttl(Duration::from_secs(60))
            .response_timeout(Duration::from_secs(10))
            .connect_timeout(LIMIT);
        builder.connect(&self.url()).await.unwrap()
    }

    /// Calls the program.
    async fn call(&self, arguments: &[&str]) -> Ended {
        self.call_as("postgres", arguments).await
    }

    async fn call_as(&self, user: &str, arguments: &[&str]) -> Ended {
        let url = self.url_of(user);
        until_answered(async || call(&mut at(&url, arguments)).await).await
    }

    /// Waits until this many requests wait for a lock.
    async fn has_waiters(&self, count: i64) {
        eventually(LIMIT, "they wait", async || {
            self.number("SELECT count(*) FROM dlock.waiter").await == count
        })
        .await;
    }

    /// Has the lease of a key end, as if its holder had slept.
    async fn end_lease(&self, key: &str) {
        let ended = "UPDATE dlock.holder SET ends = clock_timestamp() WHERE key = $1";
        let ended = self.client().await.execute(ended, &[&key]).await;
        assert_eq!(ended.unwrap(), 1, "`{key}` was held");
    }
}

#[tokio::test]
async fn a_command_runs_under_a_lock_and_a_second_one_is_told_by_whom() {
    let database = Database::new().await;
    let script = "echo $DLOCK_KEY; echo $DLOCK_FENCING_TOKEN";
    let ran = database
        .call(&["run", "job:1", "sh", "-c", script])
        .await
        .with(0);
    let (key, token) = ran.stdout.trim().split_once('\n').unwrap();
    assert_eq!(key, "job:1");
    assert!(token.parse::<i64>().unwrap() > 0);
    assert_eq!(
        database.number("SELECT count(*) FROM dlock.holder").await,
        0
    );

    let guard = database
        .manager("billing")
        .await
        .lock("job:1")
        .acquire()
        .await
        .unwrap();
    let busy = database
        .call(&["run", "-n", "job:1", "true"])
        .await
        .with(75);
    assert!(busy.stderr.contains("billing@"), "{}", busy.stderr);
    guard.release().await.unwrap();
    let refused = database.call(&["--raw-keys", "ls"]).await.with(2);
    assert!(
        refused.stderr.contains("`--raw-keys`"),
        "{}",
        refused.stderr
    );
}

#[tokio::test]
async fn a_benchmark_measures_and_leaves_no_locks() {
    let database = Database::new().await;
    let words = ["bench", "--seconds", "0.2", "--tasks", "4", "--json"];
    let told = json(&database.call(&words).await.with(0).stdout);
    let measured = told["measurements"].as_array().unwrap();
    assert_eq!(measured.len(), 5, "{told:#}");
    for measured in measured {
        assert!(measured["count"].as_u64().unwrap() >= 1, "{measured}");
    }
    eventually(LIMIT, "nothing is held", async || {
        database.number("SELECT count(*) FROM dlock.holder").await == 0
    })
    .await;
}
