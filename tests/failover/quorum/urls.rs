//! Quorums that are named by a URL.

use std::time::Duration;

use dlock::{
    ConnectError, LockError, LockManager,
    store::redis::{RedisConfig, RedisStore},
};
use dlock_testkit::{Proxy, RedisServer, eventually};
use futures_util::future::join_all;

use crate::common::{LIMIT, soon};

async fn servers(count: usize) -> Vec<RedisServer> {
    join_all((0..count).map(|_| RedisServer::start())).await
}

fn url(servers: &[RedisServer]) -> String {
    let hosts: Vec<_> = servers
        .iter()
        .map(|server| format!("127.0.0.1:{}", server.port()))
        .collect();
    format!("redlock://{}/1", hosts.join(","))
}

/// How many of the servers have a lock.
async fn locks(servers: &[RedisServer]) -> usize {
    let mut count = 0;
    for server in servers {
        let mut connection = server.connection().await;
        redis::cmd("SELECT")
            .arg(1)
            .exec_async(&mut connection)
            .await
            .unwrap();
        let found: usize = redis::cmd("EXISTS")
            .arg("dlock:{order:42}")
            .query_async(&mut connection)
            .await
            .unwrap();
        count += found;
    }
    count
}

#[tokio::test]
async fn a_lock_is_taken_on_all_servers_of_a_url() {
    let servers = servers(3).await;
    let manager = LockManager::connect(&url(&servers)).await.unwrap();
    let guard = soon(manager.lock("order:42").acquire()).await.unwrap();
    eventually(LIMIT, "all of them have it", async || {
        locks(&servers).await == 3
    })
    .await;
    soon(guard.release()).await.unwrap();
    eventually(LIMIT, "none has it", async || locks(&servers).await == 0).await;
}

#[tokio::test]
async fn a_majority_is_enough_to_connect() {
    let servers = servers(3).await;
    servers[1].kill();
    let manager = soon(LockManager::connect(&url(&servers))).await.unwrap();
    let guard = soon(manager.lock("order:42").acquire()).await.unwrap();
    servers[1].restart().await;
    soon(guard.release()).await.unwrap();
    servers[2].kill();
    let lock = manager.lock("order:42").wait(LIMIT);
    let guard = soon(lock.acquire()).await.unwrap();
    soon(guard.release()).await.unwrap();
}

#[tokio::test]
async fn without_a_majority_connecting_fails_in_time_and_a_lazy_manager_waits() {
    let servers = servers(3).await;
    servers[0].kill();
    servers[2].kill();
    let limit = Duration::from_secs(4);
    let builder = LockManager::builder().connect_timeout(limit);
    let error = soon(builder.connect(&url(&servers))).await.unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, ConnectError::Unavailable { .. }), "{text}");
    assert!(text.contains("only 1 of 3 stores"), "{text}");
    let manager = LockManager::builder().connect_lazy(url(&servers)).unwrap();
    let lock = manager.lock("order:42").wait(LIMIT);
    let taken = tokio::spawn(async move { lock.acquire().await });
    servers[2].restart().await;
    let guard = soon(taken).await.unwrap().unwrap();
    soon(guard.release()).await.unwrap();
}

/// As behind two names of one host, which no URL shows.
#[tokio::test]
async fn one_server_at_two_addresses_is_refused() {
    let servers = servers(2).await;
    let proxy = Proxy::start(servers[0].port());
    let [first, second] = [&servers[0], &servers[1]].map(RedisServer::port);
    let url = format!(
        "redlock://127.0.0.1:{first},127.0.0.1:{second},127.0.0.1:{}",
        proxy.port()
    );
    let error = soon(LockManager::connect(&url)).await.unwrap_err();
    assert!(error.to_string().contains("are the same server"), "{error}");
}

/// The user may not ask who the server is: that is no reason to refuse it.
#[tokio::test]
async fn servers_that_do_not_say_who_they_are_are_taken() {
    let servers = servers(3).await;
    for server in &servers {
        let mut connection = server.connection().await;
        for rule in ["ACL SETUSER app on >s3cret ~dlock:* resetchannels &dlock:wake:* +@all -info"]
        {
            let mut words = rule.split(' ');
            let mut command = redis::cmd(words.next().unwrap());
            command.arg(words.collect::<Vec<_>>());
            command.exec_async(&mut connection).await.unwrap();
        }
    }
    let url = url(&servers).replace("redlock://", "redlock://app:s3cret@");
    let manager = LockManager::connect(&url).await.unwrap();
    let guard = soon(manager.lock("order:42").acquire()).await.unwrap();
    soon(guard.release()).await.unwrap();
}

#[tokio::test]
async fn what_is_no_quorum_is_refused() {
    for (url, reason) in [
        ("redlock://a,b", "fewer than three"),
        ("redlock://a,b,b", "twice"),
        ("redis://a,b,c", "`redlock://`"),
    ] {
        let error = LockManager::builder().connect_lazy(url).unwrap_err();
        assert!(error.to_string().contains(reason), "{error}");
    }
    let error = RedisStore::connect_lazy(RedisConfig::new("redlock://a,b,c")).unwrap_err();
    assert!(error.to_string().contains("Quorum::of"), "{error}");
    let builder = LockManager::builder().min_replicas(1);
    let error = builder.connect_lazy("redlock://a,b,c").unwrap_err();
    assert!(error.to_string().contains("min_replicas"), "{error}");
}

// F10
/// It only repeats what its master says, so it has no vote, whatever it has been told.
#[tokio::test]
async fn a_replica_among_the_servers_has_no_vote() {
    let servers = servers(3).await;
    let master = servers[0].port().to_string();
    // It would collect replicas for some seconds.
    redis::cmd("CONFIG")
        .arg(&["SET", "repl-diskless-sync-delay", "0"])
        .exec_async(&mut servers[0].connection().await)
        .await
        .unwrap();
    redis::cmd("REPLICAOF")
        .arg(&["127.0.0.1", &master])
        .exec_async(&mut servers[2].connection().await)
        .await
        .unwrap();
    let builder = LockManager::builder().wait(Duration::from_secs(1));
    let manager = soon(builder.connect(&url(&servers))).await.unwrap();
    let guard = soon(manager.lock("order:42").wait(LIMIT).acquire())
        .await
        .unwrap();
    eventually(LIMIT, "the replica has the lock, too", async || {
        locks(&servers[2..]).await == 1
    })
    .await;
    soon(guard.release()).await.unwrap();
    servers[1].kill();
    let error = soon(manager.lock("order:42").acquire()).await.unwrap_err();
    assert!(matches!(error, LockError::Unavailable { .. }), "{error}");
    assert!(error.to_string().contains("of 3 stores"), "{error}");
    servers[1].restart().await;
    let guard = soon(manager.lock("order:42").wait(LIMIT).acquire())
        .await
        .unwrap();
    soon(guard.release()).await.unwrap();
}
