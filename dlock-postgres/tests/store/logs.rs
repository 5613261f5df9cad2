//! The log of a store. Its connections are on a thread of its own, so the log is that of the process.

use dlock_postgres::{Postgres, Schema};
use dlock_runtime::LockManager;
use dlock_testkit::{PostgresServer, eventually, log};

use crate::database::{DEADLINE, Database};

/// Waits for a line that begins and ends so.
async fn logged(start: &str, end: &str) {
    let is_there = async || {
        log::with(start)
            .iter()
            .any(|it| it.starts_with(start) && it.ends_with(end))
    };
    eventually(DEADLINE, &format!("`{start} … {end}` is logged"), is_there).await;
}

#[tokio::test]
async fn a_connection_that_is_lost_or_cannot_be_made_is_in_the_log() {
    log::begin();
    let server = PostgresServer::start().await;
    let migration = Schema::new("dlock").unwrap().migration(None).unwrap();
    server.execute(&migration).await;
    let url = server.url_of("postgres:hush", "postgres");
    let builder = LockManager::builder().scheme("postgres", Postgres);
    let manager = builder
        .connect_timeout(DEADLINE)
        .connect(&url)
        .await
        .unwrap();
    server.kill();
    let shown = format!("url=postgres://127.0.0.1:{}/postgres", server.port());
    logged(
        &format!("WARN the connection to PostgreSQL was lost {shown}"),
        "",
    )
    .await;
    logged(
        &format!("WARN cannot connect to PostgreSQL {shown} error="),
        "its address is correct",
    )
    .await;
    drop(manager);
    let lines = log::with("hush");
    assert!(lines.is_empty(), "{lines:?}");
}

#[tokio::test]
async fn a_notice_of_the_server_is_in_the_log() {
    log::begin();
    let database = Database::new().await;
    let manager = database.manager().await;
    let guard = manager.lock("order:42").acquire().await.unwrap();
    let says = format!(
        "CREATE OR REPLACE FUNCTION dlock.release(_key text, _owner text) RETURNS boolean LANGUAGE plpgsql AS $$
         BEGIN RAISE NOTICE 'seen in {}'; RETURN true; END $$",
        database.name
    );
    database.client().await.batch_execute(&says).await.unwrap();
    guard.release().await.unwrap();
    logged(
        "DEBUG PostgreSQL says notice=",
        &format!("seen in {}\"", database.name),
    )
    .await;
}

#[tokio::test]
async fn a_message_that_the_server_did_not_write_is_in_the_log() {
    log::begin();
    let database = Database::new().await;
    let (one, other) = (database.manager().await, database.manager().await);
    let guard = one.lock("order:42").acquire().await.unwrap();
    let waiting = tokio::spawn(other.lock("order:42").wait(DEADLINE).acquire());
    let channel = "SELECT dlock.channel(owner) FROM dlock.waiter";
    let client = database.client().await;
    let mut found = None;
    eventually(DEADLINE, "it waits", async || {
        found = client.query_opt(channel, &[]).await.unwrap();
        found.is_some()
    })
    .await;
    let channel: String = found.unwrap().get(0);
    let says = "DEBUG a message that the server did not write was left out channel=";
    let forged = "SELECT pg_notify($1, '1 2 3 forged order:42')";
    // The server keeps no message for a connection that does not listen yet.
    eventually(DEADLINE, "a forged message is logged", async || {
        client.execute(forged, &[&channel]).await.unwrap();
        log::with(says).iter().any(|it| it.contains(&channel))
    })
    .await;
    guard.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
}
