//! A client that disconnects during its request: how soon the server detects it, and that no lock is left.
//!
//! axum (with hyper) drops the handler as soon as the client closes its side of the connection. actix-web does so only
//! with `HttpServer::h1_allow_half_closed(false)`: by default, it assumes that the client still reads, and the handler
//! runs to its end.

use dlock_testkit::eventually;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::{
    common::{LIMIT, connect, soon},
    site::{Framework, Site},
};

/// Sends a request whose handler pauses, and returns the connection once the handler has begun.
async fn begin(site: &Site, path: &str) -> TcpStream {
    let mut client = TcpStream::connect(("127.0.0.1", site.port)).await.unwrap();
    let body = r#"{"cents":900}"#;
    let request = format!(
        "POST {path}?pause=true HTTP/1.1\r\nhost: shop.example\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    client.write_all(request.as_bytes()).await.unwrap();
    site.shop.until("began").await;
    assert_eq!(site.locks().await, ["dlock:{order:nord/42}"]);
    client
}

async fn until_idle(site: &Site) {
    let idle = async || site.locks().await.is_empty() && site.shop.locks.active_keys() == 0;
    eventually(LIMIT, "no lock is left", idle).await;
}

#[tokio::test]
async fn with_release_the_body_is_cancelled_and_no_lock_is_left() {
    for framework in Framework::BOTH {
        let site = Site::start(framework).await;
        let client = begin(&site, "/pay/nord/42").await;
        drop(client);
        // The gate stays closed: only the disconnection ends the body.
        site.shop.until("cancelled").await;
        until_idle(&site).await;
        assert_eq!(site.shop.diary(), ["began", "cancelled"], "{framework:?}");
        // The next request acquires the lock at once.
        assert_eq!(site.post("/pay/nord/42").await.status, 201);
    }
}

#[tokio::test]
async fn with_detach_the_body_goes_on_under_its_lock() {
    tokio::join!(detached(Framework::BOTH[0]), detached(Framework::BOTH[1]));
}

async fn detached(framework: Framework) {
    let site = Site::start(framework).await;
    let client = begin(&site, "/ship/nord/42").await;
    drop(client);
    // Longer than half of the TTL: the lease is renewed again and again although the client has disconnected.
    let until_renewed = site.redis.command_count("evalsha").await + 2;
    let renewed = async || site.redis.command_count("evalsha").await >= until_renewed;
    eventually(LIMIT, "it is renewed", renewed).await;
    assert_eq!(site.post("/ship/nord/42").await.status, 409);
    assert_eq!(site.shop.diary(), ["began"], "{framework:?}");
    site.shop.let_one_go_on();
    site.shop.until("ended").await;
    until_idle(&site).await;
    assert_eq!(site.shop.diary(), ["began", "ended"], "{framework:?}");
}

/// A client that has closed only its sending side still receives the response.
#[tokio::test]
async fn by_default_actix_does_not_notice_and_the_body_ends() {
    let site = Site::start(Framework::Actix { half_closed: true }).await;
    let mut client = begin(&site, "/pay/nord/42").await;
    client.shutdown().await.unwrap();
    // Another request to the same worker: by then, the end of the first client's side has arrived.
    assert_eq!(site.post("/pay/nord/42").await.status, 409);
    assert_eq!(site.shop.diary(), ["began"]);
    site.shop.let_one_go_on();
    let mut answer = String::new();
    soon(client.read_to_string(&mut answer)).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    until_idle(&site).await;
    assert_eq!(site.shop.diary(), ["began", "ended"]);
}

/// For example, after a client was killed, its machine answers further packets with a reset.
#[tokio::test]
async fn a_reset_is_noticed_by_default() {
    let site = Site::start(Framework::Actix { half_closed: true }).await;
    let client = begin(&site, "/pay/nord/42").await;
    client.set_zero_linger().unwrap();
    drop(client);
    site.shop.until("cancelled").await;
    until_idle(&site).await;
    assert_eq!(site.shop.diary(), ["began", "cancelled"]);
}

/// A waiter whose client disconnects leaves its place in the queue.
#[tokio::test]
async fn a_waiter_that_hangs_up_is_out_of_the_queue() {
    for framework in Framework::BOTH {
        let site = Site::start(framework).await;
        let stranger = connect(&site.redis.url()).await;
        let holder = soon(stranger.lock("order:42").acquire()).await.unwrap();
        let mut client = TcpStream::connect(("127.0.0.1", site.port)).await.unwrap();
        let request = b"GET /again/42 HTTP/1.1\r\nhost: shop.example\r\n\r\n";
        client.write_all(request).await.unwrap();
        let queue = async || site.redis.keys("dlock:{order:42}:q").await.len();
        eventually(LIMIT, "it waits", async || queue().await == 1).await;
        drop(client);
        eventually(LIMIT, "it has left", async || queue().await == 0).await;
        soon(holder.release()).await.unwrap();
        until_idle(&site).await;
        assert!(site.shop.diary().is_empty(), "{framework:?}");
    }
}
