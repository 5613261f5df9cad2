//! Servers whose clocks jump: what is past its time is gone there.

use std::time::Duration;

use dlock::{LockManager, LostCause};
use dlock_testkit::{RedisServer, eventually};
use futures_util::future::join_all;

use crate::common::{LIMIT, NODES, QuorumOfRedis, assert_idle, is_lost, soon};

/// It is renewed after a third of it.
const TTL: Duration = Duration::from_secs(9);

/// Longer than any lease.
const JUMP: Duration = Duration::from_secs(60);

/// Five servers with clocks of their own, and two processes.
struct Clocks {
    servers: Vec<RedisServer>,
    managers: [LockManager; 2],
}

impl Clocks {
    async fn start() -> Self {
        let servers = join_all((0..NODES).map(|_| RedisServer::start_with_clock(&[]))).await;
        let urls: Vec<_> = servers.iter().map(RedisServer::url).collect();
        let manager = || async {
            let quorum = QuorumOfRedis::over(&urls).await;
            LockManager::builder()
                .ttl(TTL)
                .build_with_store(quorum)
                .unwrap()
        };
        let managers = [manager().await, manager().await];
        Self { servers, managers }
    }

    /// On how many servers there is a lock.
    async fn holding(&self) -> usize {
        let keys = self
            .servers
            .iter()
            .map(|it| it.keys("dlock:{order:42}"))
            .collect::<Vec<_>>();
        let keys = join_all(keys).await;
        keys.iter().filter(|keys| !keys.is_empty()).count()
    }

    async fn assert_clean(&self) {
        assert_idle(&[&self.managers[0], &self.managers[1]]).await;
        eventually(LIMIT, "no server has a lock left", async || {
            self.holding().await == 0
        })
        .await;
    }
}

// F6
/// Four have the lease as before, and the next renewal gives it to the fifth again.
#[tokio::test]
async fn one_that_jumps_takes_nothing_from_the_holder() {
    let all = Clocks::start().await;
    let [holder, other] = &all.managers;
    let guard = soon(holder.lock("order:42").acquire()).await.unwrap();
    eventually(LIMIT, "all have it", async || all.holding().await == NODES).await;
    all.servers[3].put_clock_forward(JUMP);
    let tried = soon(other.lock("order:42").try_acquire()).await.unwrap();
    assert!(tried.is_none(), "broken promise: two hold the lock");
    eventually(LIMIT, "all have it again", async || {
        all.holding().await == NODES
    })
    .await;
    all.servers[1].put_clock_back(JUMP);
    let tried = soon(other.lock("order:42").try_acquire()).await.unwrap();
    assert!(tried.is_none(), "broken promise: two hold the lock");
    guard.ensure_held().unwrap();
    let token = guard.fencing_token();
    soon(guard.release()).await.unwrap();
    let next = soon(other.lock("order:42").acquire()).await.unwrap();
    assert!(
        next.fencing_token() > token,
        "broken promise: the token did not grow"
    );
    soon(next.release()).await.unwrap();
    all.assert_clean().await;
}

// F7
/// That lets in a second one. Its token is greater, and the first is told.
#[tokio::test]
async fn a_majority_that_jumps_lets_in_a_second_holder_and_the_first_is_told() {
    let all = Clocks::start().await;
    let [holder, other] = &all.managers;
    // Not renewed meanwhile: between the jumps that would put right what the first has done.
    let lock = holder.lock("order:42").ttl(2 * LIMIT);
    let guard = soon(lock.acquire()).await.unwrap();
    // What is asked for after the jump counts from there.
    eventually(LIMIT, "all have it", async || all.holding().await == NODES).await;
    for server in &all.servers[1..4] {
        server.put_clock_forward(JUMP);
    }
    let next = soon(other.lock("order:42").wait(LIMIT).acquire())
        .await
        .unwrap();
    assert!(
        next.fencing_token() > guard.fencing_token(),
        "broken promise: the token did not grow"
    );
    let outcome = soon(guard.release()).await;
    assert!(
        is_lost(&outcome, |cause| *cause == LostCause::Revoked),
        "{outcome:?}"
    );
    next.ensure_held().unwrap();
    soon(next.release()).await.unwrap();
    all.assert_clean().await;
}
