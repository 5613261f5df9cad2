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
use tokio_postgres::{Client, types::ToSql};

use super::{
    Ended, LIMIT, call,
    cases::{self, Claim, Place},
    clean, until_answered,
};

/// The schema of the tables.
const SCHEMA: &str = "dlock";

/// The leases and places in queues of claims that [`put`](Place::put) puts do not end.
const CLAIMS_STAY: &str = "
CREATE FUNCTION stays() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.owner LIKE '0000000000000000%' AND TG_TABLE_NAME = 'holder' THEN
        NEW.ends := now() + interval '1 hour';
    ELSIF NEW.owner LIKE '0000000000000000%' THEN
        NEW.alive := now() + interval '1 hour';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER stays BEFORE INSERT ON dlock.holder FOR EACH ROW EXECUTE FUNCTION stays();
CREATE TRIGGER stays BEFORE INSERT ON dlock.waiter FOR EACH ROW EXECUTE FUNCTION stays();
";

/// Returns the program with a URL. The namespace is the usual one, or among the arguments.
fn at(url: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dlock"));
    clean(&mut command);
    command.env("DLOCK_URL", url).args(arguments);
    command
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
        let migration = Migration::new(Schema::new(SCHEMA).unwrap());
        let script = migration.script();
        database.execute(&script).await;
        database
    }

    /// The same for a case of all stores.
    async fn with_claims() -> Self {
        let database = Self::new().await;
        database.execute(CLAIMS_STAY).await;
        database
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

impl Place for Database {
    const STORE: &'static str = "PostgreSQL";
    const VERSION: &'static str = "1";
    const KNOWS_PROCESSES: bool = true;
    const LONGEST: Duration = Duration::from_secs(6 * 3600);

    fn url(&self) -> String {
        self.url_of("postgres")
    }

    fn name(&self) -> &'static str {
        SCHEMA
    }

    async fn manager(&self, application: &str) -> LockManager {
        let builder = LockManager::builder()
            .scheme("postgres", Postgres)
            .application(application)
            .ttl(Duration::from_secs(60))
            .response_timeout(Duration::from_secs(10))
            .connect_timeout(LIMIT);
        builder.connect(&self.url()).await.unwrap()
    }

    async fn claims(&self, key: &str) -> Vec<String> {
        let claims = "SELECT owner, 0 AS place FROM dlock.holder WHERE key = $1
                      UNION ALL SELECT owner, place FROM dlock.waiter WHERE key = $1 ORDER BY place";
        let rows = self.client().await.query(claims, &[&key]).await.unwrap();
        rows.iter().map(|row| row.get(0)).collect()
    }

    fn owner(claim: &str) -> &str {
        claim
    }

    async fn put(&self, key: &str, number: u64, mode: &str, claim: Claim) {
        let most = match mode {
            "exclusive" => 0,
            "shared" => -1,
            permits => permits.strip_prefix("permits=").unwrap().parse().unwrap(),
        };
        let (is_granted, label) = match claim {
            Claim::Holds(label) => (true, label),
            Claim::Waits(label) => (false, label),
        };
        let acquire = "SELECT is_granted FROM dlock.acquire($1, $2, 3600000, $3, true, $4, '')";
        let owner = format!("{number:032x}.1");
        let client = self.client().await;
        let parameters: [&(dyn ToSql + Sync); 4] = [&key, &owner, &most, &label];
        let row = client.query_one(acquire, &parameters).await.unwrap();
        assert_eq!(row.get::<_, bool>(0), is_granted, "{claim:?}");
    }

    async fn delete(&self, key: &str, number: u64) {
        let owner = format!("{number:032x}.1");
        let release = "SELECT dlock.release($1, $2)";
        let released = self.client().await.execute(release, &[&key, &owner]).await;
        released.unwrap();
    }

    async fn call(&self, arguments: &[&str]) -> Ended {
        self.call_as("postgres", arguments).await
    }
}

#[tokio::test]
async fn a_command_runs_under_a_lock_and_a_second_one_is_told_by_whom() {
    cases::a_command_runs_and_a_second_one_is_told_by_whom(Database::new().await).await;
}

#[tokio::test]
async fn a_benchmark_measures_and_leaves_no_locks() {
    cases::a_benchmark_measures_and_leaves_no_locks(Database::new().await).await;
}
