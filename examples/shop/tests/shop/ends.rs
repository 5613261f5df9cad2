//! Copies of the shop that end during a payment.

use std::{process::Command, sync::Arc};

use dlock_testkit::{RedisServer, Worker};
use rustix::process::{Pid, Signal, kill_process};
use sqlx::{SqlitePool, sqlite::SqliteConnectOptions};

use crate::shop::{LIMIT, Shop, nothing_is_left_in};

#[tokio::test]
async fn another_copy_pays_after_the_ttl_of_one_that_was_killed() {
    let server = RedisServer::start().await;
    let directory = tempfile::tempdir().unwrap();
    let database = directory.path().join("shop.db");
    let killed = ["--ttl", "4s", "--provider-delay", "10m"];
    let killed = Arc::new(Shop::start(Some(&server), &database, &killed).await);
    let other = ["--ttl", "10m", "--provider-delay", "10ms"];
    let other = Shop::start(Some(&server), &database, &other).await;
    let order = other.order("a table").await;
    let path = format!("/api/orders/{order}/pay-to-the-end");

    let (client, address) = (Arc::clone(&killed), path.clone());
    let payment = tokio::spawn(async move { client.post(&address).await });
    killed.asks_the_provider(order).await;
    killed.process.kill();
    assert!(payment.await.is_err(), "there is no response");

    // It waits until the lock expires.
    assert_eq!(other.post(&path).await.outcome(), "paid");
    let paid = other.look(order).await;
    assert_eq!(paid["charges"], 1, "{paid}");
    nothing_is_left_in(&server).await;
}

#[tokio::test]
async fn a_charged_order_is_not_charged_again() {
    let directory = tempfile::tempdir().unwrap();
    let database = directory.path().join("shop.db");
    let shop = Shop::start(None, &database, &["--provider-delay", "10m"]).await;
    let order = shop.order("a stool").await;
    // The state after a crash between the charge and the write.
    let pool = SqlitePool::connect_with(SqliteConnectOptions::new().filename(&database));
    let pool = pool.await.unwrap();
    sqlx::query("INSERT INTO charges (order_id, cents) VALUES (?, 1250)")
        .bind(order)
        .execute(&pool)
        .await
        .unwrap();
    pool.close().await;

    let answer = shop.post(&format!("/api/orders/{order}/pay")).await;
    assert_eq!(answer.outcome(), "paid");
    assert_eq!(shop.look(order).await["charges"], 1);
}

#[tokio::test]
async fn a_copy_that_slept_through_its_lease_charges_nothing() {
    let server = RedisServer::start().await;
    let directory = tempfile::tempdir().unwrap();
    let database = directory.path().join("shop.db");
    let asleep = ["--ttl", "2s", "--provider-delay", "3s"];
    let asleep = Arc::new(Shop::start(Some(&server), &database, &asleep).await);
    let other = ["--ttl", "10m", "--provider-delay", "2s"];
    let other = Shop::start(Some(&server), &database, &other).await;
    let order = other.order("a bed").await;
    let path = format!("/api/orders/{order}/pay-to-the-end");

    let (client, address) = (Arc::clone(&asleep), path.clone());
    let payment = tokio::spawn(async move { client.post(&address).await });
    asleep.asks_the_provider(order).await;
    asleep.process.pause();
    // When it continues, its own charge is overdue.
    assert_eq!(other.post(&path).await.outcome(), "paid");
    asleep.process.resume();

    let answer = payment.await.unwrap();
    assert_eq!(
        (answer.status, &answer.json()["code"]),
        (503, &"lost".into())
    );
    let paid = other.look(order).await;
    assert_eq!(paid["charges"], 1, "{paid}");
    assert_eq!(paid["paid_by"], other.state().await["name"], "{paid}");
    nothing_is_left_in(&server).await;
}

#[tokio::test]
async fn a_copy_that_receives_sigterm_finishes_its_payments() {
    let server = RedisServer::start().await;
    let directory = tempfile::tempdir().unwrap();
    let database = directory.path().join("shop.db");
    let arguments = ["--ttl", "10m", "--provider-delay", "1s"];
    let shop = Arc::new(Shop::start(Some(&server), &database, &arguments).await);
    let order = shop.order("a shelf").await;

    let client = Arc::clone(&shop);
    let path = format!("/api/orders/{order}/pay");
    let payment = tokio::spawn(async move { client.post(&path).await });
    shop.asks_the_provider(order).await;
    terminate(&shop.process);

    assert_eq!(payment.await.unwrap().outcome(), "paid");
    let status = shop.process.wait(LIMIT).await;
    assert!(status.success(), "{status}: {}", shop.process.stderr());
    nothing_is_left_in(&server).await;
}

#[tokio::test]
async fn an_unreachable_server_is_an_error_at_the_start() {
    let server = RedisServer::start().await;
    server.kill();
    let mut command = Command::new(env!("CARGO_BIN_EXE_shop"));
    command.args(["--listen", "127.0.0.1:0"]);
    command.env("DLOCK_URL", server.url());
    let shop = Worker::spawn(&mut command);
    let status = shop.wait(LIMIT).await;
    assert_eq!((status.code(), shop.stdout().as_str()), (Some(1), ""));
    assert!(
        shop.stderr().contains("cannot use the store"),
        "{}",
        shop.stderr()
    );
}

#[tokio::test]
async fn a_temporary_file_is_removed_at_the_end() {
    let directory = tempfile::tempdir().unwrap();
    let in_it = || std::fs::read_dir(directory.path()).unwrap().count();
    let mut command = Command::new(env!("CARGO_BIN_EXE_shop"));
    command.args(["--listen", "127.0.0.1:0"]);
    command
        .env_remove("DLOCK_URL")
        .env("TMPDIR", directory.path());
    let shop = Worker::spawn(&mut command);
    shop.line(" is at http://", LIMIT).await;
    assert_eq!(in_it(), 1);
    terminate(&shop);
    assert!(shop.wait(LIMIT).await.success(), "{}", shop.stderr());
    assert_eq!(in_it(), 0);
}

/// Sends SIGTERM, as a service manager does.
fn terminate(process: &Worker) {
    let pid = i32::try_from(process.id()).ok().and_then(Pid::from_raw);
    kill_process(pid.unwrap(), Signal::TERM).unwrap();
}
