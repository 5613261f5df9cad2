//! A virtual IP address that moves to another master, while connections to the old one stay open.
#![cfg(feature = "redis")]

use std::time::{Duration, Instant};

use dlock::LockManager;
use dlock_testkit::{Proxy, RedisServer, eventually};

use crate::common::soon;

/// Longer than it takes on a machine under load.
const LONG: Duration = Duration::from_secs(20);

/// A master with a replica, and the address that leads to the master.
struct Pair {
    first: RedisServer,
    second: RedisServer,
    address: Proxy,
}

impl Pair {
    async fn start(arguments: &[&str]) -> Self {
        let first = RedisServer::start_with(arguments).await;
        let second = RedisServer::start_with(arguments).await;
        let address = Proxy::start(first.port());
        follow(&second, &first).await;
        eventually(LONG, "the replica is in sync", async || {
            is_linked(&second).await
        })
        .await;
        Self {
            first,
            second,
            address,
        }
    }

    async fn manager(&self, options: &str) -> LockManager {
        let url = format!("{}{options}", self.address.url());
        soon(LockManager::builder().wait(LONG).connect(&url))
            .await
            .unwrap()
    }

    /// Makes the replica the master, and the master its replica. The connections to it stay open.
    async fn fail_over(&self) {
        run(&self.second, &["REPLICAOF", "NO", "ONE"]).await;
        self.address.redirect(self.second.port());
        follow(&self.first, &self.second).await;
    }
}

async fn follow(replica: &RedisServer, master: &RedisServer) {
    let port = master.port().to_string();
    run(replica, &["REPLICAOF", "127.0.0.1", &port]).await;
}

async fn is_linked(replica: &RedisServer) -> bool {
    let info: String = replica.read(redis::cmd("INFO").arg("replication")).await;
    info.contains("master_link_status:up")
}

async fn run(server: &RedisServer, words: &[&str]) {
    let mut command = redis::Cmd::new();
    for word in words {
        command.arg(word);
    }
    let mut connection = server.connection().await;
    command.exec_async(&mut connection).await.unwrap();
}

/// The answer `READONLY` comes over a connection that goes on working.
#[tokio::test]
async fn a_client_leaves_a_master_that_has_become_read_only() {
    // A server that does not tell its role is known by that answer alone.
    let silent = ["--rename-command", "HELLO", ""];
    for (arguments, options) in [(&[][..], ""), (&silent, "?protocol=resp2")] {
        let pair = Pair::start(arguments).await;
        let manager = pair.manager(options).await;
        soon(manager.lock("order:42").run(async |_| ()))
            .await
            .unwrap();
        pair.fail_over().await;
        let begun = Instant::now();
        let guard = soon(manager.lock("order:42").acquire()).await;
        let guard = guard.expect("the new master grants the lock");
        println!("got the lock after {:.1?}", begun.elapsed());
        assert_eq!(pair.second.keys("dlock:{order:42}").await.len(), 1);
        soon(guard.release()).await.unwrap();
    }
}

/// The old master refuses nothing. Its clients leave it all the same, and their leases live on at the new one.
#[tokio::test]
async fn a_client_leaves_a_master_that_has_become_a_replica_and_takes_writes() {
    let pair = Pair::start(&["--replica-read-only", "no"]).await;
    let (holder, other) = (pair.manager("").await, pair.manager("").await);
    let lock = holder.lock("order:42").ttl(Duration::from_secs(9));
    let guard = soon(lock.acquire()).await.unwrap();
    soon(other.lock("order:43").run(async |_| ()))
        .await
        .unwrap();
    eventually(LONG, "the replica has the lease", async || {
        pair.second.keys("dlock:{order:42}").await.len() == 1
    })
    .await;
    pair.fail_over().await;
    let begun = Instant::now();
    // The old one is believed for a moment.
    eventually(LONG, "the new master grants locks", async || {
        let free = soon(other.lock("order:43").acquire()).await.unwrap();
        let is_there = pair.second.keys("dlock:{order:43}").await.len() == 1;
        soon(free.release()).await.ok();
        is_there
    })
    .await;
    println!("at the new master after {:.1?}", begun.elapsed());
    let ttl = async || {
        let ttl: i64 = pair
            .second
            .read(redis::cmd("PTTL").arg("dlock:{order:42}"))
            .await;
        ttl
    };
    let before = ttl().await;
    eventually(LONG, "it is renewed at the new master", async || {
        ttl().await > before
    })
    .await;
    guard.ensure_held().expect("it was renewed in time");
    soon(guard.release()).await.unwrap();
    // A release that goes to the old one is repeated.
    eventually(LONG, "nothing is left at the new master", async || {
        pair.second.keys("dlock:{*").await.is_empty()
    })
    .await;
}
