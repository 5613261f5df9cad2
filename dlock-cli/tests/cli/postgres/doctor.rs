//! `dlock doctor` over PostgreSQL.

use dlock_postgres::Fence as _;
use dlock_testkit::{PgBouncer, PostgresOptions, PostgresServer};
use serde_json::Value;

use super::{Database, at};
use crate::{
    LIMIT, call,
    cases::{Place as _, json},
    until_answered,
};

/// Returns the findings, after a check of the exit code.
async fn findings(url: &str, code: i32, words: &[&str]) -> Value {
    let words = [&["doctor", "--json"], words].concat();
    let ended = until_answered(async || call(&mut at(url, &words)).await)
        .await
        .with(code);
    json(&ended.stdout)
}

/// Asserts that there is a finding with this severity, topic and part of its text.
#[track_caller]
fn about(told: &Value, severity: &str, topic: &str, part: &str) {
    let found = told["findings"].as_array().unwrap().iter().any(|it| {
        let says = ["what", "why", "do"].map(|name| it[name].as_str().unwrap_or_default());
        it["topic"] == topic && it["severity"] == severity && says.join("|").contains(part)
    });
    assert!(found, "no {severity} {topic} with `{part}`: {told:#}");
}

/// The tests' servers do not write through to the disk, and share their processors.
const ACCEPTED: [&str; 2] = ["--accept", "persistence,latency,load"];

#[tokio::test]
async fn a_server_and_its_tables_are_examined() {
    let database = Database::new().await;
    let manager = database.manager("billing").await;
    let guard = manager.lock("order:1").acquire().await.unwrap();
    let told = findings(&database.url(), 0, &ACCEPTED).await;
    for (severity, topic, part) in [
        ("ok", "version", "PostgreSQL 1"),
        ("ok", "role", "primary"),
        ("ok", "schema", "version 2"),
        ("note", "schema", "belongs to a superuser, `postgres`"),
        ("ok", "permissions", "all permissions"),
        ("risk", "persistence", "fsync = on"),
        ("ok", "clock", "this machine's clock"),
        ("ok", "tables", "removed"),
        (
            "note",
            "transactions",
            "idle_in_transaction_session_timeout",
        ),
        ("ok", "locks", "1 lock held, 0 waiters, 1 process"),
    ] {
        about(&told, severity, topic, part);
    }
    let mut client = database.client().await;
    // As the program of an earlier version names its connection.
    let name = "SET application_name = 'billing@old/7'";
    client.batch_execute(name).await.unwrap();
    let told = findings(&database.url(), 0, &ACCEPTED).await;
    about(
        &told,
        "note",
        "schema",
        "an earlier one only: billing@old/7",
    );
    client
        .batch_execute("RESET application_name")
        .await
        .unwrap();
    let tx = client.transaction().await.unwrap();
    guard.fence(&tx).await.unwrap();
    let pid: i32 = tx
        .query_one("SELECT pg_backend_pid()", &[])
        .await
        .unwrap()
        .get(0);
    // It has to be older than the TTL.
    dlock_testkit::eventually(LIMIT, "the transaction is old", async || {
        let words = ["doctor", "--json", "--ttl", "100ms"];
        let told = json(&database.call(&words).await.stdout);
        told.to_string().contains(&format!("pid {pid} "))
    })
    .await;
    tx.commit().await.unwrap();
    guard.release().await.unwrap();
}

#[tokio::test]
async fn what_is_missing_is_named_with_its_remedy() {
    let database = Database::empty().await;
    let told = findings(&database.url(), 1, &ACCEPTED).await;
    about(&told, "broken", "schema", "dlock postgres migrate");
    let role = database.role("poor").await;
    database.call(&["postgres", "migrate"]).await.with(0);
    let url = database.url_of(&role);
    // Each remedy is applied as it is printed.
    let told = findings(&url, 1, &ACCEPTED).await;
    about(
        &told,
        "broken",
        "permissions",
        "GRANT USAGE ON SCHEMA \"dlock\"",
    );
    about(
        &told,
        "note",
        "permissions",
        "GRANT SELECT ON TABLE \"dlock\".waiter",
    );
    let list = told["findings"].as_array().unwrap().iter();
    for finding in list.filter(|it| it["topic"] == "permissions") {
        database.execute(finding["do"].as_str().unwrap()).await;
    }
    let told = findings(&url, 0, &ACCEPTED).await;
    about(&told, "ok", "permissions", "all permissions");
    database
        .call_as(&role, &["run", "job", "true"])
        .await
        .with(0);
    for (command, undone) in [
        ("ALTER TABLE dlock.holder SET UNLOGGED", "SET LOGGED"),
        ("ALTER TABLE dlock.waiter SET LOGGED", "SET UNLOGGED"),
    ] {
        let keeps = json(&database.call(&["doctor", "--json"]).await.stdout);
        assert!(!keeps.to_string().contains(undone), "{keeps:#}");
        database.execute(command).await;
        let told = findings(&database.url(), 0, &ACCEPTED).await;
        about(&told, "risk", "persistence", undone);
    }
    let other = "CREATE OR REPLACE FUNCTION dlock.version() RETURNS integer LANGUAGE sql IMMUTABLE AS 'SELECT 3'";
    database.execute(other).await;
    let told = findings(&database.url(), 1, &ACCEPTED).await;
    about(
        &told,
        "broken",
        "schema",
        "has version 3, and this program needs 2",
    );
}

#[tokio::test]
async fn a_standby_a_pooler_and_a_silent_server_are_recognized() {
    let options = PostgresOptions::new().set("autovacuum", "off");
    let server = PostgresServer::start_with(options).await;
    call(&mut at(&server.url(), &["postgres", "migrate"]))
        .await
        .with(0);
    let told = findings(&server.url(), 1, &ACCEPTED).await;
    about(&told, "risk", "tables", "autovacuum = on");
    let standby = server.start_standby().await;
    let told = findings(&standby.url(), 1, &ACCEPTED).await;
    about(&told, "broken", "role", "standby");
    let refused = call(&mut at(&standby.url(), &["ls"])).await.with(69);
    assert!(
        refused.stderr.contains("is a standby"),
        "{}",
        refused.stderr
    );

    let pooler = PgBouncer::start(&server).await;
    let url = pooler.url_of("postgres", "postgres");
    let told = findings(&url, 1, &ACCEPTED).await;
    about(&told, "note", "pooler", "add `listen=host:5432`");
    let direct = format!("{url}?listen=127.0.0.1:{}", server.port());
    about(
        &findings(&direct, 1, &ACCEPTED).await,
        "ok",
        "pooler",
        "beside it",
    );
    for words in [&["ls"][..], &["run", "job", "true"]] {
        call(&mut at(&url, words)).await.with(0);
    }
    server.kill();
    let told = findings(&server.url(), 69, &ACCEPTED).await;
    assert_eq!(told["worst"], "broken", "{told:#}");
}

/// The role that the steps of the book make for services. It cannot list locks, which is intended.
#[tokio::test]
async fn a_healthy_server_is_healthy_for_the_role_of_services() {
    let database = Database::empty().await;
    let role = database.role("services").await;
    database
        .call(&["postgres", "migrate", "--role", &role])
        .await
        .with(0);
    let told = findings(&database.url_of(&role), 0, &ACCEPTED).await;
    about(&told, "note", "locks", "the locks were not read");
    about(&told, "note", "permissions", "--operator-role");
    let refused = database.call_as(&role, &["ls"]).await.with(69);
    assert!(
        refused.stderr.contains(&format!("--operator-role {role}")),
        "{}",
        refused.stderr
    );
}
