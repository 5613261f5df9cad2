//! Each fault of the proxy does what it says to a real client, and nothing else.

use std::time::Duration;

use dlock_testkit::{Proxy, RedisServer, eventually};
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy, sink};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

const SOON: Duration = Duration::from_secs(20);
const A_MOMENT: Duration = Duration::from_millis(50);

async fn connect(proxy: &Proxy) -> redis::RedisResult<MultiplexedConnection> {
    // Its own limits are switched off: the tests bring theirs.
    let config = redis::AsyncConnectionConfig::new()
        .set_connection_timeout(None)
        .set_response_timeout(None);
    let client = redis::Client::open(proxy.url())?;
    client
        .get_multiplexed_async_connection_with_config(&config)
        .await
}

async fn start() -> (RedisServer, Proxy, MultiplexedConnection) {
    let server = RedisServer::start().await;
    let proxy = Proxy::start(server.port());
    let connection = connect(&proxy).await.expect("the proxy forwards");
    (server, proxy, connection)
}

#[tokio::test]
async fn requests_and_replies_pass() {
    let (server, proxy, mut connection) = start().await;
    let value = "x".repeat(1_000_000);
    let _: () = connection.set("a", &value).await.unwrap();
    assert_eq!(connection.get::<_, String>("a").await.unwrap(), value);
    assert_eq!(
        (proxy.open_connections(), proxy.accepted_connections()),
        (1, 1)
    );
    drop(connection);
    eventually(SOON, "the connection is closed", async || {
        proxy.open_connections() == 0
    })
    .await;
    assert_eq!(server.keys("*").await, ["a"]);
}

#[tokio::test]
async fn cut_ends_connections_and_lets_new_ones_in() {
    let (_server, proxy, mut connection) = start().await;
    proxy.cut();
    assert_eq!(proxy.open_connections(), 0);
    assert!(
        connection
            .get::<_, Option<i64>>("a")
            .await
            .unwrap_err()
            .is_connection_dropped()
    );
    let mut again = connect(&proxy).await.unwrap();
    let _: () = again.set("a", 1).await.unwrap();
    assert_eq!(proxy.accepted_connections(), 2);
}

#[tokio::test]
async fn refuse_keeps_open_connections() {
    let (_server, proxy, mut connection) = start().await;
    proxy.refuse();
    assert!(
        connect(&proxy)
            .await
            .is_err_and(|error| error.is_connection_refusal())
    );
    let _: () = connection.set("a", 1).await.unwrap();
    proxy.accept();
    proxy.accept();
    assert_eq!(
        connect(&proxy)
            .await
            .unwrap()
            .get::<_, i64>("a")
            .await
            .unwrap(),
        1
    );
}

#[tokio::test]
async fn frozen_requests_arrive_after_the_thaw() {
    let (server, proxy, mut connection) = start().await;
    proxy.freeze();
    let mut late = std::pin::pin!(connection.set::<_, _, ()>("a", 1));
    assert!(timeout(A_MOMENT, &mut late).await.is_err());
    assert!(server.keys("*").await.is_empty());
    assert!(timeout(A_MOMENT, connect(&proxy)).await.is_err());
    proxy.thaw();
    timeout(SOON, late).await.unwrap().unwrap();
    assert_eq!(server.keys("*").await, ["a"]);
}

#[tokio::test]
async fn a_frozen_connection_does_not_notice_a_dead_server() {
    let (server, proxy, mut connection) = start().await;
    proxy.freeze();
    server.kill();
    let mut late = std::pin::pin!(connection.get::<_, Option<i64>>("a"));
    assert!(timeout(A_MOMENT, &mut late).await.is_err());
    proxy.thaw();
    assert!(timeout(SOON, late).await.unwrap().is_err());
}

#[tokio::test]
async fn held_replies_are_of_requests_that_were_done() {
    let (server, proxy, mut connection) = start().await;
    proxy.hold_replies();
    let mut late = std::pin::pin!(connection.set::<_, _, ()>("a", 1));
    assert!(timeout(A_MOMENT, &mut late).await.is_err());
    eventually(SOON, "the request was done", async || {
        server.keys("*").await == ["a"]
    })
    .await;
    proxy.thaw();
    timeout(SOON, late).await.unwrap().unwrap();
}

#[tokio::test]
async fn cut_before_the_reply_leaves_the_deed_done() {
    let (server, proxy, mut connection) = start().await;
    proxy.cut_before_next_reply();
    assert!(proxy.is_trap_set());
    assert!(
        connection
            .set::<_, _, ()>("a", 1)
            .await
            .unwrap_err()
            .is_connection_dropped()
    );
    assert!(!proxy.is_trap_set());
    assert_eq!(server.keys("*").await, ["a"]);
    // Once only.
    let mut again = connect(&proxy).await.unwrap();
    let _: () = again.set("b", 1).await.unwrap();
}

#[tokio::test]
async fn a_trap_waits_for_its_request() {
    let (server, proxy, mut connection) = start().await;
    proxy.cut_before_reply_to("INCR");
    let _: () = connection.set("a", 1).await.unwrap();
    assert!(connection.incr::<_, _, i64>("a", 1).await.is_err());
    assert_eq!(
        server.connection().await.get::<_, i64>("a").await.unwrap(),
        2
    );
}

/// A server that never stops to talk: its replies are to nothing that was asked.
#[tokio::test]
async fn a_request_whose_reply_is_cut_arrives_whatever_the_server_has_said_before() {
    for _ in 0..20 {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = Proxy::start(listener.local_addr().unwrap().port());
        proxy.cut_before_reply_to("SET");
        let mut client = TcpStream::connect(("127.0.0.1", proxy.port()))
            .await
            .unwrap();
        let (server, _) = listener.accept().await.unwrap();
        let (mut requests, mut replies) = server.into_split();
        let talks =
            tokio::spawn(async move { while replies.write_all(b"+PONG\r\n").await.is_ok() {} });
        client.write_all(b"SET").await.unwrap();
        let heard = async {
            let mut heard = Vec::new();
            requests.read_to_end(&mut heard).await.map(|_| heard)
        };
        let drained = async { copy(&mut client, &mut sink()).await };
        let (heard, _) = timeout(SOON, async { tokio::join!(heard, drained) })
            .await
            .unwrap();
        assert_eq!(heard.unwrap(), b"SET");
        talks.abort();
    }
}

#[tokio::test]
async fn cut_before_the_request_leaves_it_undone() {
    let (server, proxy, mut connection) = start().await;
    proxy.cut_before_request("SET");
    assert_eq!(connection.get::<_, Option<i64>>("a").await.unwrap(), None);
    assert!(
        connection
            .set::<_, _, ()>("a", 1)
            .await
            .unwrap_err()
            .is_connection_dropped()
    );
    assert!(server.keys("*").await.is_empty());
}

#[tokio::test]
async fn a_patient_proxy_waits_for_a_server_that_does_not_listen_yet() {
    let server = RedisServer::start().await;
    server.kill();
    let proxy = Proxy::start_patient(server.port(), 6 * SOON);
    let (connected, ()) = tokio::join!(connect(&proxy), async {
        eventually(SOON, "the client waits", async || {
            proxy.open_connections() == 1
        })
        .await;
        server.restart().await;
    });
    let _: () = connected.unwrap().set("a", 1).await.unwrap();
    assert_eq!(proxy.accepted_connections(), 1);
}

#[tokio::test]
async fn the_server_may_come_back_behind_the_proxy() {
    let (server, proxy, mut connection) = start().await;
    server.kill();
    assert!(connection.get::<_, Option<i64>>("a").await.is_err());
    assert!(connect(&proxy).await.is_err());
    server.restart().await;
    let _: () = connect(&proxy).await.unwrap().set("a", 1).await.unwrap();
}
