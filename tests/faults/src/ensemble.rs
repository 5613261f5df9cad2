//! Servers that are killed, paused and separated from each other.

use std::time::Duration;

use dlock_runtime::LockError;
use dlock_testkit::{Ensemble, eventually};

use crate::{Together, grew, is_released};

const KEY: &str = "order:42";

/// Another key, which no process holds meanwhile.
const BESIDE: &str = "order:43";

/// So short that a lease needs renewals meanwhile, and long enough for a busy machine.
const RENEWED: Duration = Duration::from_secs(9);

/// A fault of one server.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    /// Its process ends.
    Killed,
    /// It keeps its connections, and answers nothing.
    Paused,
}

impl Fault {
    fn begin(self, servers: &impl Ensemble, server: usize) {
        match self {
            Self::Killed => servers.kill(server),
            Self::Paused => servers.pause(server),
        }
    }

    async fn end(self, servers: &impl Ensemble, server: usize) {
        match self {
            Self::Killed => servers.restart(server).await,
            Self::Paused => servers.resume(server),
        }
    }
}

/// The leader has a fault: leases stay, locks go on without it, and it grants nothing when it is back.
pub async fn the_leader_has(fault: Fault, world: &impl Together) {
    let servers = world.servers();
    let leader = servers.leader().await;
    // Both processes talk to the leader.
    let [one, other] = world.two_at(leader).await;
    let first = one.lock(KEY).acquire().await.unwrap();
    let token = first.fencing_token();
    fault.begin(servers, leader);
    other.finds_held(KEY).await;
    one.works(BESIDE).await;
    servers.leader_but(leader).await;
    // The servers have kept it: otherwise the release would report a loss.
    is_released(first).await;
    let second = match fault {
        Fault::Killed => {
            let second = other.acquires_after(token, KEY).await;
            servers.restart(leader).await;
            second
        }
        // The key is free when the old leader works through what it has received.
        Fault::Paused => {
            servers.resume(leader);
            other.acquires_after(token, KEY).await
        }
    };
    one.finds_held(KEY).await;
    is_released(second).await;
}

/// The leader and another server have a fault each: a lease of this TTL is lost at its deadline, no other one is granted, and
/// locks come back with the servers.
pub async fn a_majority_has<W: Together>(faults: [Fault; 2], world: &W, ttl: Duration) {
    let servers = world.servers();
    let all: Vec<_> = (0..servers.ports().len()).collect();
    // The leases of the other one outlast elections.
    let (one, other) = tokio::join!(world.process_at(&all, ttl), world.process_at(&all, W::TTL));
    let first = one.lock(KEY).acquire().await.unwrap();
    let token = first.fencing_token();
    let leader = servers.leader().await;
    let broken = [leader, (leader + 1) % all.len()];
    for (fault, server) in faults.into_iter().zip(broken) {
        fault.begin(servers, server);
    }
    // At first, the last server may still answer reads, and so say that the key is held.
    let is_answered = async || {
        let answer = other.lock(KEY).try_acquire().await;
        let is_granted = matches!(answer, Ok(Some(_)));
        assert!(!is_granted, "broken promise: two hold `{KEY}`");
        answer.is_ok()
    };
    eventually(W::DEADLINE, "the lease ends at its deadline", async || {
        is_answered().await;
        first.is_lost()
    })
    .await;
    eventually(W::DEADLINE, "calls fail", async || !is_answered().await).await;
    let wait = Duration::from_secs(2);
    let error = other.lock(BESIDE).wait(wait).acquire().await.unwrap_err();
    assert!(matches!(error, LockError::Unavailable { .. }), "{error}");
    let lost = first.release().await.unwrap_err();
    assert!(lost.is_lost(), "{lost}");

    for (fault, server) in faults.into_iter().zip(broken) {
        fault.end(servers, server).await;
    }
    // Requests that paused servers had received are carried out now, or never.
    other.works(BESIDE).await;
    let second = other.acquires_after(token, KEY).await;
    one.finds_held(KEY).await;
    let token = second.fencing_token();
    is_released(second).await;
    // A brief lease may end before the answer to its release.
    let third = one.acquires_after(token, KEY).await;
    third.release().await.ok();
    one.works(KEY).await;
}

/// All servers are killed, and restart with their data: a lease stays.
pub async fn all_restart(world: &impl Together) {
    let [one, other] = world.two_at(0).await;
    let first = one.lock(KEY).acquire().await.unwrap();
    let token = first.fencing_token();
    world.servers().restart_all().await;
    let words = async || format!("{:?}, {}", first.ensure_held(), world.describe(KEY).await);
    other.finds_held_or(KEY, words).await;
    one.works(BESIDE).await;
    is_released(first).await;
    is_released(other.acquires_after(token, KEY).await).await;
}

/// A server is separated from the others: a lease of this TTL, whose holder knows that server alone, is lost before another
/// process has the key. That of a process that knows the others stays.
pub async fn is_separated<W: Together>(server: usize, world: &W, ttl: Duration) {
    let servers = world.servers();
    let count = servers.ports().len();
    let others: Vec<_> = (1..count).map(|it| (server + it) % count).collect();
    let alone = world.process_at(&[server], ttl).await;
    let other = world.process_at(&others, W::TTL).await;
    let first = alone.lock(KEY).acquire().await.unwrap();
    let kept = other.holds(BESIDE, RENEWED).await;
    servers.isolate(server).await;
    let second = other.acquires(KEY).await;
    // The holder counts from before its last confirmed request, and its clock is that of the other.
    assert!(first.is_lost(), "broken promise: two hold `{KEY}`");
    grew(first.fencing_token(), second.fencing_token());
    servers.rejoin();
    alone.works("order:44").await;
    alone.finds_held(KEY).await;
    is_released(kept).await;
    is_released(second).await;
}
