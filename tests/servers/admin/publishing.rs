//! Servers on which clients can publish and scripts cannot, as where pub/sub is sharded.

use dlock::admin::{Inspect as _, Unlocked};
use dlock_testkit::{Proxy, RedisServer};

use crate::admin::{TTL, inspector, look, manager};
use crate::common::soon;

/// As long as `PUBLISH`, and the only name by which the server knows it.
const PUBLISH: &str = "PUBLISX";

async fn server_and_proxy() -> (RedisServer, Proxy) {
    let server = RedisServer::start_with(&["--rename-command", "PUBLISH", PUBLISH]).await;
    let proxy = Proxy::start(server.port());
    proxy.rename("PUBLISH", PUBLISH);
    (server, proxy)
}

#[tokio::test]
async fn such_a_server_is_told_from_others() {
    let (_server, proxy) = server_and_proxy().await;
    let report = soon(inspector(&proxy.url()).await.servers())
        .await
        .remove(0);
    let reason = report.unpublished.expect("it cannot publish");
    assert!(reason.contains("Unknown"), "{reason}");
    assert_eq!((report.failure, report.denied), (None, Vec::new()));

    let server = RedisServer::start().await;
    let inspector = inspector(&server.url()).await;
    let report = soon(inspector.servers()).await.remove(0);
    assert_eq!(report.unpublished, None);

    // A missing right is told as such.
    redis::cmd("ACL")
        .arg(&["SETUSER", "default", "-publish"])
        .exec_async(&mut server.connection().await)
        .await
        .unwrap();
    let report = soon(inspector.servers()).await.remove(0);
    assert_eq!(report.unpublished, None);
    assert_eq!(report.denied.len(), 1);
}

/// The holder renews after a third of its TTL, which is longer than this test may take.
#[tokio::test]
async fn the_holder_of_a_lock_that_is_taken_away_is_told_at_once() {
    let (_server, proxy) = server_and_proxy().await;
    let (holder, waiter) = (manager(&proxy.url()).await, manager(&proxy.url()).await);
    let guard = soon(holder.lock("order:42").ttl(60 * TTL).acquire())
        .await
        .unwrap();
    let waiting = tokio::spawn(waiter.lock("order:42").acquire());
    let inspector = inspector(&proxy.url()).await;
    let seen = crate::admin::with_waiters(&inspector, "order:42", 1).await;
    assert_eq!(
        soon(inspector.unlock(&seen, None)).await,
        Ok(Unlocked::Granted)
    );
    soon(guard.lost()).await;
    let next = soon(waiting).await.unwrap().unwrap();
    soon(next.release()).await.unwrap();
    assert!(look(&inspector, "order:42").await.is_none());
}
