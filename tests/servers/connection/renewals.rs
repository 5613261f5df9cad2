//! Renewals have a connection of their own, and do without where there is none to be had.

use std::time::Duration;

use dlock_testkit::{Proxy, RedisServer};
use tokio::time::sleep;

use crate::common::{assert_idle, connect, soon};

/// Long enough for a machine that stands still for a second.
const TTL: Duration = Duration::from_secs(5);

#[tokio::test]
async fn have_a_connection_of_their_own_from_the_first_on() {
    let server = RedisServer::start().await;
    let proxy = Proxy::start(server.port());
    let manager = connect(&proxy.url()).await;
    soon(manager.lock("short").run(async |_| ())).await.unwrap();
    assert_eq!(
        proxy.accepted_connections(),
        1,
        "a short section needs none"
    );
    let long = manager
        .lock("long")
        .ttl(TTL)
        .run(async |_| sleep(TTL).await);
    soon(long).await.unwrap();
    assert_eq!(proxy.accepted_connections(), 2);
    assert_idle(&[&manager]).await;
}

/// As with a server that takes no more clients, or a certificate that has run out.
#[tokio::test]
async fn share_the_other_where_none_of_their_own_can_be_opened() {
    let server = RedisServer::start().await;
    let proxy = Proxy::start(server.port());
    let manager = connect(&proxy.url()).await;
    proxy.refuse();
    let body = manager.lock("order:42").ttl(TTL).run(async |lease| {
        sleep(2 * TTL).await;
        lease.ensure_held()
    });
    soon(body).await.flatten().expect("it was renewed");
    assert_idle(&[&manager]).await;
    assert!(server.keys("dlock:{*").await.is_empty());
}
