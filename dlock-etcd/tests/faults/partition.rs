//! Members that are separated from each other, or slow, while clients reach all of them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use dlock::LockManager;
use dlock_testkit::{EtcdEnsemble, EtcdMake, EtcdServer, eventually};
use tokio::time::sleep;

use crate::world::{DEADLINE, TTL, connect, is_held, is_released, works};

/// Managers whose first member is the leader, and its index.
async fn at_the_leader(ensemble: &EtcdEnsemble) -> (usize, LockManager, LockManager) {
    let leader = ensemble.leader().await;
    let mut ports: Vec<_> = ensemble.members().iter().map(EtcdServer::port).collect();
    ports.rotate_left(leader);
    let hosts: Vec<_> = ports
        .iter()
        .map(|port| format!("127.0.0.1:{port}"))
        .collect();
    let url = format!("etcd://{}", hosts.join(","));
    (leader, connect(&url).await, connect(&url).await)
}

#[tokio::test]
async fn a_leader_that_is_separated_loses_no_lease_and_grants_none() {
    let ensemble = EtcdEnsemble::start_apart(EtcdMake::Usual).await;
    let (leader, one, other) = at_the_leader(&ensemble).await;
    let guard = one.lock("order:42").ttl(TTL).acquire().await.unwrap();
    let token = guard.fencing_token();
    ensemble.isolate(leader).await;
    is_held(&other, "order:42").await;
    works(&one, "order:43").await;
    assert_ne!(
        ensemble.leader().await,
        leader,
        "the others have elected a leader"
    );
    ensemble.rejoin();
    is_held(&other, "order:42").await;
    is_released(guard).await;
    let mut next = None;
    eventually(DEADLINE, "the other acquires the key", async || {
        next = other.lock("order:42").ttl(TTL).acquire().await.ok();
        next.is_some()
    })
    .await;
    let next = next.unwrap();
    assert!(
        next.fencing_token() > token,
        "broken promise: the token did not grow"
    );
    is_released(next).await;
}

/// The holder knows only the member that is separated, which was the leader.
#[tokio::test]
async fn a_holder_behind_a_separated_leader_has_lost_its_lease_when_another_one_acquires() {
    let ensemble = EtcdEnsemble::start_apart(EtcdMake::Usual).await;
    let leader = ensemble.leader().await;
    let alone = connect(&ensemble.members()[leader].url()).await;
    let other = connect(&ensemble.members()[(leader + 1) % 3].url()).await;
    let lock = alone.lock("order:42").ttl(Duration::from_secs(3));
    let guard = lock.acquire().await.unwrap();
    ensemble.isolate(leader).await;
    let mut next = None;
    eventually(DEADLINE, "the other acquires the key", async || {
        let lock = other.lock("order:42").ttl(TTL).wait(DEADLINE);
        next = lock.acquire().await.ok();
        // The holder counts from before its last confirmed request, and its clock is that of the other.
        assert!(
            next.is_none() || guard.ensure_held().is_err(),
            "broken promise: two hold it"
        );
        next.is_some()
    })
    .await;
    let next = next.unwrap();
    assert!(
        next.fencing_token() > guard.fencing_token(),
        "broken promise: the token did not grow"
    );
    ensemble.rejoin();
    works(&alone, "order:43").await;
    is_held(&alone, "order:42").await;
    is_released(next).await;
}

#[tokio::test]
async fn a_waiter_behind_a_separated_member_is_passed_over() {
    let ensemble = EtcdEnsemble::start_apart(EtcdMake::Usual).await;
    let separated = (ensemble.leader().await + 1) % 3;
    let alone = connect(&ensemble.members()[separated].url()).await;
    let others = connect(&ensemble.members()[(separated + 1) % 3].url()).await;
    let behind = connect(&ensemble.members()[(separated + 2) % 3].url()).await;
    let guard = others.lock("order:42").ttl(TTL).acquire().await.unwrap();
    let member = &ensemble.members()[(separated + 1) % 3];
    let claims = async |count| member.keys("dlock/order:42/").await.len() == count;
    let cut_off = tokio::spawn(alone.lock("order:42").ttl(TTL).wait(DEADLINE).acquire());
    eventually(DEADLINE, "the first one waits", async || claims(2).await).await;
    let next = tokio::spawn(behind.lock("order:42").ttl(TTL).wait(DEADLINE).acquire());
    eventually(DEADLINE, "the second one waits", async || claims(3).await).await;
    ensemble.isolate(separated).await;
    is_released(guard).await;
    let next = next.await.unwrap().unwrap();
    assert!(!cut_off.is_finished(), "it is not notified, and waits");
    ensemble.rejoin();
    is_held(&alone, "order:42").await;
    is_released(next).await;
    is_released(cut_off.await.unwrap().unwrap()).await;
}

/// A leader that stops for a moment again and again, as one whose disk is slow: it answers late, and is not replaced.
#[tokio::test]
async fn locks_go_on_while_the_leader_is_slow() {
    const STOPS: Duration = Duration::from_millis(300);
    const GOES_ON: Duration = Duration::from_millis(50);
    let ensemble = Arc::new(EtcdEnsemble::start().await);
    let (leader, one, other) = at_the_leader(&ensemble).await;
    let guard = one.lock("order:42").ttl(Duration::from_secs(6));
    let guard = guard.acquire().await.unwrap();
    let is_over = Arc::new(AtomicBool::new(false));
    let slow = tokio::spawn({
        let (ensemble, is_over) = (ensemble.clone(), is_over.clone());
        async move {
            // The pace of the fault.
            while !is_over.load(Ordering::Relaxed) {
                ensemble.members()[leader].pause();
                sleep(STOPS).await;
                ensemble.members()[leader].resume();
                sleep(GOES_ON).await;
            }
        }
    });
    let end = tokio::time::Instant::now() + Duration::from_secs(12);
    let mut last = None;
    eventually(DEADLINE, "two TTLs have passed", async || {
        let lock = other.lock("order:43").ttl(TTL).wait(DEADLINE);
        if let Ok(next) = lock.acquire().await {
            let token = next.fencing_token();
            assert!(
                last.is_none_or(|last| last < token),
                "broken promise: the token did not grow: {last:?} {token:?}"
            );
            last = Some(token);
            next.release().await.ok();
        }
        tokio::time::Instant::now() > end
    })
    .await;
    is_over.store(true, Ordering::Relaxed);
    slow.await.unwrap();
    assert!(last.is_some(), "locks were acquired");
    // Renewals have kept it for two TTLs, or it is lost and known to be.
    eventually(DEADLINE, "an answer about the key", async || {
        let found = other.lock("order:42").try_acquire().await;
        let is_free = matches!(found, Ok(Some(_)));
        assert!(
            !is_free || guard.ensure_held().is_err(),
            "broken promise: two hold it"
        );
        found.is_ok()
    })
    .await;
    if let Err(error) = guard.release().await {
        assert!(error.is_lost(), "{error}");
    }
}
