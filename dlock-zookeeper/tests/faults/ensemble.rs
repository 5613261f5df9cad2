//! Servers that are killed, paused and restarted.

use std::time::Duration;

use dlock::LockError;
use dlock_testkit::{ZooKeepers, eventually};

use crate::world::{LIMIT, SESSION, TTL, acquires, is_held, manager, url};

#[tokio::test]
async fn a_killed_leader_loses_no_lock() {
    let servers = ZooKeepers::lent().await;
    let url = url(&servers, SESSION, "killed");
    let (one, other) = tokio::join!(manager(&url, TTL), manager(&url, TTL));
    let first = one.lock("order:42").acquire().await.unwrap();
    let leader = servers.leader().await;
    servers.kill(leader);
    servers.leader().await;
    is_held(&other, "order:42").await;
    assert!(!first.is_lost());
    let token = first.fencing_token();
    // The servers have kept it: otherwise the release would report a loss.
    first.release().await.unwrap();
    let second = other.lock("order:42").wait(LIMIT).acquire().await.unwrap();
    assert!(
        second.fencing_token() > token,
        "broken promise: the token did not grow"
    );
    second.release().await.unwrap();
}

#[tokio::test]
async fn a_leader_that_is_paused_loses_no_lease_and_grants_none_when_it_goes_on() {
    let servers = ZooKeepers::lent().await;
    let leader = servers.leader().await;
    // The leader is the first server of the URL.
    let hosts: Vec<_> = (0..3)
        .map(|it| format!("127.0.0.1:{}", servers.port((leader + it) % 3)))
        .collect();
    let hosts = format!("{}/paused", hosts.join(","));
    let url = ZooKeepers::url_of(&hosts, SESSION);
    let (one, other) = tokio::join!(manager(&url, TTL), manager(&url, TTL));
    let first = one.lock("order:42").acquire().await.unwrap();
    servers.pause(leader);
    let next_leader = servers.leader_but(leader).await;
    assert_ne!(next_leader, leader);
    is_held(&other, "order:42").await;
    let token = first.fencing_token();
    assert!(!first.is_lost());
    first.release().await.unwrap();
    servers.resume(leader);
    let second = acquires(&other, "order:42").await;
    assert!(
        second.fencing_token() > token,
        "broken promise: the token did not grow"
    );
    is_held(&one, "order:42").await;
    second.release().await.unwrap();
}

#[tokio::test]
async fn a_holder_behind_a_separated_follower_has_lost_its_lease_when_another_one_acquires() {
    let servers = ZooKeepers::start_apart().await;
    let (session, ttl) = (Duration::from_secs(12), Duration::from_secs(9));
    let follower = (servers.leader().await + 1) % 3;
    let host = |server: usize| format!("127.0.0.1:{}", servers.port(server % 3));
    let alone = ZooKeepers::url_of(&host(follower), session);
    let others = format!("{},{}", host(follower + 1), host(follower + 2));
    let others = ZooKeepers::url_of(&others, session);
    let (one, other) = tokio::join!(manager(&alone, ttl), manager(&others, ttl));
    let first = one.lock("order:42").acquire().await.unwrap();
    let kept = other.lock("order:43").acquire().await.unwrap();
    servers.isolate(follower);
    let second = acquires(&other, "order:42").await;
    assert!(first.is_lost(), "broken promise: two hold the key");
    assert!(
        second.fencing_token() > first.fencing_token(),
        "broken promise: the token did not grow"
    );
    servers.rejoin();
    is_held(&one, "order:42").await;
    kept.release().await.unwrap();
    second.release().await.unwrap();
}

#[tokio::test]
async fn without_a_majority_a_lease_is_lost_at_its_deadline_and_tokens_grow_after_the_restart() {
    let servers = ZooKeepers::lent().await;
    let (session, ttl) = (Duration::from_secs(8), Duration::from_secs(6));
    let url = url(&servers, session, "majority");
    let (one, other) = tokio::join!(manager(&url, ttl), manager(&url, ttl));
    let first = one.lock("order:42").acquire().await.unwrap();
    let token = first.fencing_token();
    servers.kill(0);
    servers.kill(1);
    eventually(LIMIT, "the lease is lost", async || first.is_lost()).await;
    assert!(matches!(first.release().await, Err(LockError::Lost { .. })));
    assert!(
        other.lock("order:42").try_acquire().await.is_err(),
        "broken promise: two hold the key"
    );
    tokio::join!(servers.restart(0), servers.restart(1));
    eventually(
        LIMIT,
        "the other process holds the key",
        async || match other.lock("order:42").try_acquire().await {
            Ok(Some(second)) => {
                assert!(
                    second.fencing_token() > token,
                    "broken promise: the token did not grow"
                );
                second.release().await.is_ok()
            }
            _ => false,
        },
    )
    .await;
}

#[tokio::test]
async fn while_a_majority_is_paused_a_lease_is_lost_at_its_deadline_and_no_other_is_granted() {
    let servers = ZooKeepers::lent().await;
    let brief = url(&servers, Duration::from_secs(8), "stopped");
    // The leases of the other one outlast elections.
    let url = url(&servers, SESSION, "stopped");
    let (one, other) = tokio::join!(manager(&brief, Duration::from_secs(6)), manager(&url, TTL));
    let first = one.lock("order:42").acquire().await.unwrap();
    let token = first.fencing_token();
    // The leader is one of them.
    let leader = servers.leader().await;
    let paused = [leader, (leader + 1) % 3];
    for server in paused {
        servers.pause(server);
    }
    // At first, the third server may still answer reads, and so say that the key is held.
    let answers = async || {
        let answer = other.lock("order:42").try_acquire().await;
        assert!(
            !matches!(answer, Ok(Some(_))),
            "broken promise: two hold the key"
        );
        answer.is_ok()
    };
    eventually(LIMIT, "the lease is lost", async || {
        answers().await;
        first.is_lost()
    })
    .await;
    eventually(LIMIT, "calls fail", async || !answers().await).await;
    assert!(matches!(first.release().await, Err(LockError::Lost { .. })));
    for server in paused {
        servers.resume(server);
    }
    // Requests that the paused servers had received are carried out now, or never.
    let second = acquires(&other, "order:42").await;
    assert!(
        second.fencing_token() > token,
        "broken promise: the token did not grow"
    );
    is_held(&one, "order:42").await;
    let token = second.fencing_token();
    second.release().await.unwrap();
    eventually(
        LIMIT,
        "the first process holds the key again",
        async || match one.lock("order:42").try_acquire().await {
            Ok(Some(third)) => {
                assert!(
                    third.fencing_token() > token,
                    "broken promise: the token did not grow"
                );
                third.release().await.is_ok()
            }
            _ => false,
        },
    )
    .await;
}

#[tokio::test]
async fn an_ensemble_that_restarts_with_its_data_loses_no_lease() {
    let servers = ZooKeepers::lent().await;
    let url = url(&servers, SESSION, "restarted");
    let (one, other) = tokio::join!(manager(&url, TTL), manager(&url, TTL));
    let first = one.lock("order:42").acquire().await.unwrap();
    let token = first.fencing_token();
    servers.restart_all().await;
    is_held(&other, "order:42").await;
    acquires(&one, "order:43").await.release().await.unwrap();
    assert!(!first.is_lost());
    first.release().await.unwrap();
    let second = acquires(&other, "order:42").await;
    assert!(
        second.fencing_token() > token,
        "broken promise: the token did not grow"
    );
    second.release().await.unwrap();
}
