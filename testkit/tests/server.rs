//! A server of the test's own starts, dies, comes back and is paused.

use std::thread;
use std::time::Duration;

use dlock_testkit::{RedisServer, patient};
use redis::AsyncCommands;
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::time::timeout;

const SOON: Duration = Duration::from_secs(20);

#[tokio::test]
async fn two_servers_share_nothing() {
    let (one, two) = tokio::join!(RedisServer::start(), RedisServer::start());
    assert_ne!(one.port(), two.port());
    let _: () = one.connection().await.set("a", 1).await.unwrap();
    let _: () = one.connection().await.set("b", 2).await.unwrap();
    let _: () = one.connection().await.set("other", 2).await.unwrap();
    assert_eq!(one.keys("?").await, ["a", "b"]);
    assert!(two.keys("*").await.is_empty());
    one.flush().await;
    assert!(one.keys("*").await.is_empty());
}

#[tokio::test]
async fn commands_are_counted() {
    let server = RedisServer::start().await;
    assert_eq!(server.command_count("set").await, 0);
    let mut connection = server.connection().await;
    for _ in 0..3 {
        let _: () = connection.set("a", 1).await.unwrap();
    }
    assert_eq!(server.command_count("SET").await, 3);
}

#[tokio::test]
async fn a_password_is_asked_for_and_in_the_url() {
    let server = RedisServer::start_with(&["--requirepass", "secret"]).await;
    assert!(server.url().contains(":secret@"));
    let _: () = server.connection().await.set("a", 1).await.unwrap();
    let without = format!("redis://127.0.0.1:{}", server.port());
    let client = redis::Client::open(without).unwrap();
    let settings = patient();
    let connection = client.get_multiplexed_async_connection_with_config(&settings);
    let mut connection = connection.await.unwrap();
    assert!(connection.get::<_, i64>("a").await.is_err());
}

#[tokio::test]
async fn a_killed_server_refuses_and_comes_back_empty() {
    let server = RedisServer::start().await;
    let _: () = server.connection().await.set("a", 1).await.unwrap();
    server.kill();
    server.kill();
    assert!(
        TcpStream::connect(("127.0.0.1", server.port()))
            .await
            .is_err()
    );
    let url = server.url();
    server.restart().await;
    assert_eq!(server.url(), url);
    assert!(server.keys("*").await.is_empty());
}

#[tokio::test]
async fn a_paused_server_answers_after_it_resumes() {
    let server = RedisServer::start().await;
    let mut connection = server.connection().await;
    for _ in 0..3 {
        server.pause();
        let mut late = std::pin::pin!(connection.incr::<_, _, i64>("a", 1));
        assert!(timeout(Duration::from_millis(50), &mut late).await.is_err());
        server.resume();
        timeout(SOON, late).await.unwrap().unwrap();
    }
    assert_eq!(connection.get::<_, i64>("a").await.unwrap(), 3);
}

#[tokio::test]
async fn dropping_a_paused_server_ends_it() {
    let server = RedisServer::start().await;
    let port = server.port();
    server.pause();
    let (dropped, done) = oneshot::channel();
    // Not `spawn_blocking`: the end of this runtime would wait for it, and hang as well.
    thread::spawn(move || {
        drop(server);
        dropped.send(())
    });
    timeout(SOON, done).await.expect("it ends").unwrap();
    assert!(TcpStream::connect(("127.0.0.1", port)).await.is_err());
}

#[tokio::test]
#[should_panic(expected = "the server ended at once")]
async fn a_wrong_argument_is_shown() {
    RedisServer::start_with(&["--no-such-option", "1"]).await;
}

#[tokio::test]
async fn a_clock_of_its_own_can_be_set_while_the_server_runs() {
    const HOUR: Duration = Duration::from_secs(3600);
    async fn time(server: &RedisServer) -> i64 {
        let mut connection = server.connection().await;
        let time: (i64, i64) = redis::cmd("TIME")
            .query_async(&mut connection)
            .await
            .unwrap();
        time.0
    }

    let usual = RedisServer::start().await;
    let server = RedisServer::start_with_clock(&[]).await;
    let ahead = async || time(&server).await - time(&usual).await;
    assert!(ahead().await.abs() <= 60);
    let _: () = server
        .connection()
        .await
        .set_ex("a", 1, 1800)
        .await
        .unwrap();
    server.put_clock_forward(HOUR);
    assert!((3540..=3660).contains(&ahead().await));
    assert!(server.keys("*").await.is_empty(), "its TTL has passed");
    server.put_clock_back(2 * HOUR);
    assert!((-3660..=-3540).contains(&ahead().await));
    server.restart().await;
    assert!(
        (-3660..=-3540).contains(&ahead().await),
        "also the next one"
    );
}
