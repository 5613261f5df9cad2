//! Connections that break or fall silent.

use std::time::Duration;

use dlock::LockError;
use dlock_faults::{Process, grew, is_released};
use dlock_testkit::{Ensemble, Proxy, ZooKeepers, eventually, hosts};
use zookeeper_client::{Acls, CreateMode};

use crate::world::{LIMIT, SESSION, TTL, builder, client, connect};

/// A process that reaches each server by a proxy of its own.
async fn behind_proxies(
    servers: &ZooKeepers,
    session: Duration,
    ttl: Duration,
) -> (Process, Vec<Proxy>) {
    let proxies: Vec<_> = servers.ports().into_iter().map(Proxy::start).collect();
    let hosts = hosts(proxies.iter().map(Proxy::port));
    let url = ZooKeepers::url_of(&hosts, session);
    (connect(&url, ttl).await, proxies)
}

#[tokio::test]
async fn a_session_that_moves_to_another_server_keeps_its_leases() {
    let servers = ZooKeepers::shared().await;
    let (locks, proxies) = behind_proxies(servers, SESSION, TTL).await;
    let held = locks.lock("moves").acquire().await.unwrap();
    let moved_from = async |used: usize, what: &str| {
        eventually(LIMIT, what, async || {
            let mut all = proxies.iter().enumerate();
            all.any(|(index, it)| index != used && it.open_connections() > 0)
        })
        .await;
        locks.works("moves:other").await;
    };
    let used = async || {
        let mut used = None;
        eventually(LIMIT, "a connection", async || {
            used = proxies.iter().position(|it| it.open_connections() > 0);
            used.is_some()
        })
        .await;
        used.unwrap()
    };
    for _ in 0..2 {
        // First the connection breaks, then the next server falls silent.
        let broken = used().await;
        proxies[broken].refuse();
        proxies[broken].cut();
        moved_from(broken, "another server").await;
        proxies[broken].accept();
        let silent = used().await;
        proxies[silent].freeze();
        moved_from(silent, "a server that answers").await;
        proxies[silent].thaw();
    }
    is_released(held).await;
}

#[tokio::test]
async fn a_process_that_is_cut_off_has_lost_its_lease_before_another_one_gets_the_key() {
    let servers = ZooKeepers::shared().await;
    let (session, ttl) = (Duration::from_secs(8), Duration::from_secs(6));
    let (one, proxies) = behind_proxies(servers, session, ttl).await;
    let other = connect(&servers.url(session), ttl).await;
    let first = one.lock("cut-off").acquire().await.unwrap();
    let token = first.fencing_token();
    proxies.iter().for_each(Proxy::freeze);
    let second = other.lock("cut-off").wait(LIMIT).acquire().await.unwrap();
    assert!(first.is_lost(), "broken promise: two hold the key");
    grew(token, second.fencing_token());
    second.release().await.unwrap();
    proxies.iter().for_each(Proxy::thaw);
    assert!(matches!(first.release().await, Err(LockError::Lost { .. })));
    // The process has a new session.
    one.works("cut-off").await;
}

#[tokio::test]
async fn a_connection_that_is_refused_leaves_no_session() {
    // Of its own, since all sessions are counted.
    let servers = ZooKeepers::start().await;
    let host = format!("127.0.0.1:{}", servers.port(0));
    let keeper = client(&servers).await;
    let all_read = CreateMode::Persistent.with_acls(Acls::anyone_read());
    keeper.create("/closed", b"", &all_read).await.unwrap();
    drop(keeper);
    // The longest that the servers allow: none of them ends by itself while this test lasts.
    let [longest, too_long] = [120, 121].map(Duration::from_secs);
    for (url, reason) in [
        (
            ZooKeepers::url_of(&host, too_long),
            "write `session=120000ms`",
        ),
        (
            ZooKeepers::url_of(&format!("{host}/closed/locks"), longest),
            "not authorized",
        ),
    ] {
        let error = builder().connect(&url).await.unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
    eventually(LIMIT / 2, "no session is left", async || {
        servers.sessions().await == Some(0)
    })
    .await;
}
