//! An ensemble of three of which members are killed, paused and unreachable.

use std::time::Duration;

use dlock::LockError;
use dlock_testkit::{EtcdEnsemble, EtcdMake, EtcdOptions, EtcdServer, Proxy, eventually};

use crate::world::{DEADLINE, TTL, builder, connect, finds_held, is_held, is_released, works};

async fn of(make: EtcdMake) -> EtcdEnsemble {
    EtcdEnsemble::start_with(EtcdOptions::new().make(make)).await
}

#[tokio::test]
async fn a_leader_that_is_killed_loses_no_lease() {
    kills_the_leader(EtcdMake::Usual).await;
}

#[tokio::test]
async fn a_leader_of_the_oldest_version_that_is_killed_loses_no_lease() {
    kills_the_leader(EtcdMake::Old).await;
}

async fn kills_the_leader(make: EtcdMake) {
    let ensemble = of(make).await;
    let (one, other) = (
        connect(&ensemble.url()).await,
        connect(&ensemble.url()).await,
    );
    let guard = one.lock("order:42").ttl(TTL).acquire().await.unwrap();
    let token = guard.fencing_token();
    let leader = ensemble.leader().await;
    ensemble.members()[leader].kill();
    is_held(&other, "order:42").await;
    works(&one, "order:43").await;
    is_released(guard).await;
    let mut next = None;
    eventually(DEADLINE, "the other acquires the key", async || {
        next = other.lock("order:42").acquire().await.ok();
        next.is_some()
    })
    .await;
    let next = next.unwrap();
    assert!(
        next.fencing_token() > token,
        "broken promise: the token did not grow"
    );
    ensemble.members()[leader].restart().await;
    is_held(&one, "order:42").await;
    is_released(next).await;
}

#[tokio::test]
async fn a_leader_that_is_paused_loses_no_lease_and_grants_none_when_it_goes_on() {
    pauses_the_leader(EtcdMake::Usual).await;
}

#[tokio::test]
async fn a_leader_of_the_oldest_version_that_is_paused_loses_no_lease() {
    pauses_the_leader(EtcdMake::Old).await;
}

async fn pauses_the_leader(make: EtcdMake) {
    let ensemble = of(make).await;
    let leader = ensemble.leader().await;
    // The leader is the first member of the URL, so both managers talk to it.
    let mut ports: Vec<_> = ensemble.members().iter().map(EtcdServer::port).collect();
    ports.rotate_left(leader);
    let hosts: Vec<_> = ports
        .iter()
        .map(|port| format!("127.0.0.1:{port}"))
        .collect();
    let url = format!("etcd://{}", hosts.join(","));
    let (one, other) = (connect(&url).await, connect(&url).await);
    let guard = one.lock("order:42").ttl(TTL).acquire().await.unwrap();
    ensemble.members()[leader].pause();
    is_held(&other, "order:42").await;
    works(&one, "order:43").await;
    assert_ne!(
        ensemble.leader().await,
        leader,
        "the others have elected a leader"
    );
    let token = guard.fencing_token();
    is_released(guard).await;
    ensemble.members()[leader].resume();
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
    is_held(&one, "order:42").await;
    is_released(next).await;
}

#[tokio::test]
async fn without_a_majority_a_lease_is_lost_at_its_deadline_and_locks_come_back_with_it() {
    let ensemble = EtcdEnsemble::start().await;
    let (one, other) = (
        connect(&ensemble.url()).await,
        connect(&ensemble.url()).await,
    );
    let guard = one
        .lock("order:42")
        .ttl(Duration::from_secs(3))
        .acquire()
        .await
        .unwrap();
    let token = guard.fencing_token();
    // Members that are paused keep their connections, and answer nothing.
    ensemble.members()[0].pause();
    ensemble.members()[1].kill();
    eventually(DEADLINE, "the lease ends at its deadline", async || {
        guard.ensure_held().is_err()
    })
    .await;
    let error = other
        .lock("order:43")
        .wait(Duration::from_secs(2))
        .acquire()
        .await
        .unwrap_err();
    assert!(matches!(error, LockError::Unavailable { .. }), "{error}");
    ensemble.members()[0].resume();
    works(&other, "order:43").await;
    let mut next = None;
    eventually(DEADLINE, "the other acquires the key", async || {
        next = other.lock("order:42").acquire().await.ok();
        next.is_some()
    })
    .await;
    let next = next.unwrap();
    assert!(
        next.fencing_token() > token,
        "broken promise: the token did not grow"
    );
    let lost = guard.release().await.unwrap_err();
    assert!(lost.is_lost(), "{lost}");
    is_released(next).await;
}

#[tokio::test]
async fn an_ensemble_that_restarts_with_its_data_loses_no_lease() {
    restarts_all(EtcdMake::Usual).await;
}

#[tokio::test]
async fn an_ensemble_of_the_oldest_version_that_restarts_with_its_data_loses_no_lease() {
    restarts_all(EtcdMake::Old).await;
}

async fn restarts_all(make: EtcdMake) {
    let ensemble = of(make).await;
    let (one, other) = (
        connect(&ensemble.url()).await,
        connect(&ensemble.url()).await,
    );
    let guard = one.lock("order:42").ttl(TTL).acquire().await.unwrap();
    ensemble.kill();
    ensemble.restart().await;
    finds_held(&other, "order:42", async || {
        let mut words = vec![format!("{:?}", guard.ensure_held())];
        for member in ensemble.members() {
            let claims = member.keys("dlock/order:42/").await;
            let revision = member.revision().await;
            words.push(format!("{claims:?} at revision {revision}"));
        }
        words.join(", ")
    })
    .await;
    works(&one, "order:43").await;
    eventually(DEADLINE, "the release is answered", async || {
        one.lock("order:44").acquire().await.is_ok()
    })
    .await;
    is_released(guard).await;
}

#[tokio::test]
async fn members_that_become_unreachable_are_replaced_by_the_next_one() {
    let ensemble = EtcdEnsemble::start().await;
    let proxies: Vec<_> = ensemble
        .members()
        .iter()
        .map(|it| Proxy::start(it.port()))
        .collect();
    let hosts: Vec<_> = proxies
        .iter()
        .map(|it| format!("127.0.0.1:{}", it.port()))
        .collect();
    let url = format!("etcd://{}", hosts.join(","));
    let manager = builder().connect(&url).await.unwrap();
    let other = connect(&ensemble.url()).await;
    let guard = manager.lock("order:42").ttl(TTL).acquire().await.unwrap();
    let open = || proxies.iter().map(Proxy::open_connections);
    // On a busy machine the first one may have been late.
    let mut first = 0;
    eventually(DEADLINE, "both connections are to one member", async || {
        first = open().position(|count| count == 2).unwrap_or_default();
        open().sum::<usize>() == 2 && proxies[first].open_connections() == 2
    })
    .await;
    proxies[first].freeze();
    works(&manager, "order:43").await;
    let others = [(first + 1) % 3, (first + 2) % 3];
    let next = others.map(|it| proxies[it].open_connections() > 0);
    let next = next.iter().position(|is_open| *is_open);
    let next = next.expect("another member is asked");
    proxies[others[next]].refuse();
    proxies[others[next]].cut();
    works(&manager, "order:44").await;
    assert!(proxies[others[1 - next]].open_connections() > 0);
    is_held(&other, "order:42").await;
    is_released(guard).await;
}
