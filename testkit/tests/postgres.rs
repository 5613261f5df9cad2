//! The PostgreSQL servers that tests start.
#![allow(
    clippy::unwrap_used,
    reason = "a test that fails there has said what it has to say"
)]

use std::time::Duration;

use dlock_testkit::{PgBouncer, PostgresOptions, PostgresServer, eventually};
use tokio_postgres::NoTls;

async fn number(server: &PostgresServer, database: &str, statement: &str) -> i64 {
    let client = server.client(database).await;
    client.query_one(statement, &[]).await.unwrap().get(0)
}

#[tokio::test]
async fn what_was_committed_outlives_a_kill() {
    let server = PostgresServer::start().await;
    server
        .execute("CREATE TABLE kept AS SELECT 7::bigint AS number")
        .await;
    server.kill();
    assert!(tokio_postgres::connect(&server.url(), NoTls).await.is_err());
    server.restart().await;
    assert_eq!(
        number(&server, "postgres", "SELECT number FROM kept").await,
        7
    );
}

#[tokio::test]
async fn databases_of_one_server_do_not_see_each_other() {
    let server = PostgresServer::shared().await;
    let (one, other) = (server.database().await, server.database().await);
    server
        .client(&one)
        .await
        .batch_execute("CREATE TABLE mine ()")
        .await
        .unwrap();
    let count = "SELECT count(*) FROM pg_tables WHERE tablename = 'mine'";
    assert_eq!(number(server, &one, count).await, 1);
    assert_eq!(number(server, &other, count).await, 0);
}

#[tokio::test]
async fn a_paused_server_answers_later() {
    let server = PostgresServer::start().await;
    let client = server.client("postgres").await;
    server.pause();
    let asked = tokio::spawn(async move { client.simple_query("SELECT 1").await.is_ok() });
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!asked.is_finished());
    server.resume();
    assert!(asked.await.unwrap());
}

#[tokio::test]
async fn a_standby_follows_and_takes_over() {
    let server = PostgresServer::start().await;
    let standby = server.start_standby().await;
    server
        .execute("CREATE TABLE followed AS SELECT 7::bigint AS number")
        .await;
    let count = "SELECT count(*) FROM pg_tables WHERE tablename = 'followed'";
    let has_followed = async || number(&standby, "postgres", count).await == 1;
    eventually(Duration::from_secs(30), "the standby follows", has_followed).await;
    server.kill();
    standby.promote().await;
    standby.execute("UPDATE followed SET number = 8").await;
}

#[tokio::test]
async fn a_setting_and_a_line_of_access_are_obeyed() {
    let access = "host all guest 127.0.0.1/32 scram-sha-256";
    let options = PostgresOptions::new()
        .set("max_connections", "17")
        .access(access);
    let server = PostgresServer::start_with(options).await;
    server.execute("CREATE USER guest PASSWORD 'hush'").await;
    let setting = "SELECT current_setting('max_connections')::bigint";
    assert_eq!(number(&server, "postgres", setting).await, 17);
    let wrong = server.url_of("guest:wrong", "postgres");
    assert!(tokio_postgres::connect(&wrong, NoTls).await.is_err());
    let right = server.url_of("guest:hush", "postgres");
    drop(tokio_postgres::connect(&right, NoTls).await.unwrap());
}

#[tokio::test]
async fn a_pooler_shares_its_connections_between_clients() {
    let server = PostgresServer::start().await;
    let pooler = PgBouncer::start(&server).await;
    let url = pooler.url_of("postgres", "postgres");
    let mut clients = Vec::new();
    for _ in 0..20 {
        let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
        tokio::spawn(connection);
        client.simple_query("SELECT 1").await.unwrap();
        clients.push(client);
    }
    let count = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'";
    assert!(number(&server, "postgres", count).await < 10);
    pooler.restart().await;
    drop(tokio_postgres::connect(&url, NoTls).await.unwrap());
}

#[tokio::test]
async fn nothing_is_left() {
    let server = PostgresServer::start().await;
    let port = server.port();
    drop(server);
    assert!(std::net::TcpListener::bind(("127.0.0.1", port)).is_ok());
}
