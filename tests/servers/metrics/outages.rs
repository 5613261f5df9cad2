//! An outage of a real server, as the metrics show it.

use std::time::Duration;

use dlock_testkit::{RedisServer, eventually};

use crate::common::{LIMIT, assert_idle, builder, connect, soon};
use crate::metrics::recorded::{Recorded, once};

/// Long enough for a machine that stands still for a second.
const TTL: Duration = Duration::from_secs(5);

#[tokio::test]
async fn an_outage_is_seen_before_leases_are_lost_and_ends_when_the_server_is_back() {
    let recorded = Recorded::default();
    let _recorder = recorded.start();
    let server = RedisServer::start().await;
    // The recorder is one of this thread.
    let builder = builder().renewal_thread(false);
    let manager = builder.connect(&server.url()).await.unwrap();
    let guard = manager
        .lock("k")
        .ttl(TTL)
        .metric("job")
        .acquire()
        .await
        .unwrap();
    let asked = recorded.samples("dlock_request_seconds{request=acquire}");
    assert!(asked.len() == 1 && asked[0] > 0.0, "{asked:?}");

    server.kill();
    eventually(LIMIT, "a renewal has failed", async || {
        recorded.count("dlock_renewals_total{template=job,mode=exclusive,outcome=failed}") >= 1.0
    })
    .await;
    let labels = format!("server={}", server.url());
    assert_eq!(recorded.all("dlock_disconnected"), once(&labels));
    assert_eq!(recorded.all("dlock_connections_lost_total"), once(&labels));
    soon(guard.lost()).await;
    let lost = once("template=job,mode=exclusive,cause=not-renewed");
    assert_eq!(recorded.all("dlock_lost_total"), lost);
    assert_eq!(
        recorded.count("dlock_held{template=job,mode=exclusive}"),
        0.0
    );
    let lock = manager.lock("l").wait(Duration::from_millis(200));
    assert_eq!(
        soon(lock.acquire()).await.unwrap_err().code(),
        "unavailable"
    );
    let refused = "template=none,mode=exclusive,reason=unavailable";
    assert_eq!(recorded.all("dlock_refused_total"), once(refused));
    assert!(recorded.sum("dlock_requests_failed_total") >= 2.0);

    server.restart().await;
    eventually(LIMIT, "it is connected again", async || {
        recorded.all("dlock_disconnected").is_empty()
    })
    .await;
    drop(guard);
    assert_idle(&[&manager]).await;
    soon(manager.lock("l").run(async |_| ())).await.unwrap();
    assert_eq!(recorded.all("dlock_connections_lost_total"), once(&labels));
    recorded.assert_settled();
}

#[tokio::test]
async fn nobody_misses_a_connection_whose_manager_has_gone() {
    let recorded = Recorded::default();
    let _recorder = recorded.start();
    let server = RedisServer::start().await;
    let manager = connect(&server.url()).await;
    server.kill();
    eventually(LIMIT, "the connection is missed", async || {
        recorded.sum("dlock_disconnected") >= 1.0
    })
    .await;
    drop(manager);
    eventually(LIMIT, "nobody misses it", async || {
        recorded.all("dlock_disconnected").is_empty()
    })
    .await;
}

#[tokio::test]
async fn a_server_is_named_without_its_password() {
    let recorded = Recorded::default();
    let _recorder = recorded.start();
    let server = RedisServer::start_with(&["--requirepass", "s3cr3t"]).await;
    let url = format!("redis://:s3cr3t@127.0.0.1:{}", server.port());
    let manager = connect(&url).await;
    server.kill();
    eventually(LIMIT, "the connection is missed", async || {
        recorded.sum("dlock_disconnected") >= 1.0
    })
    .await;
    let servers = recorded.all("dlock_disconnected");
    let servers = servers.keys().map(String::as_str).collect::<String>();
    assert!(!servers.contains("s3cr3t"), "{servers}");
    drop(manager);
}
