//! Servers that are paused or killed while they are needed.

use std::time::Duration;

use dlock_faults::{is_released, names, unavailable};
use dlock_runtime::StoreErrorKind;
use dlock_testkit::{PostgresOptions, eventually};
use tokio::task::JoinSet;

use crate::world::{DEADLINE, World};

#[tokio::test]
async fn a_server_that_is_paused_for_less_than_the_ttl_loses_no_lease() {
    let world = World::new(PostgresOptions::new()).await;
    let (one, other) = (world.manager().await, world.manager().await);
    let guard = one.holds("order:42", Duration::from_secs(120)).await;
    world.server.pause();
    let late = one.lock("order:43").ttl(Duration::from_secs(10));
    let late = late.wait(Duration::from_secs(3));
    let error = late.acquire().await.unwrap_err();
    // The last request had no answer in time, or its connection was given up.
    let kinds = [StoreErrorKind::TimedOut, StoreErrorKind::Disconnected];
    assert!(kinds.contains(&unavailable(&error)), "{error}");
    names(&error, &["`order:43`", "answer"]);
    world.server.resume();
    // The server now carries out what was sent, and dlock releases it. If the release overtakes it, over a new connection, the
    // late lease ends by itself after its 10 s, or when dlock releases it once more.
    other.works("order:43").await;
    other.finds_held("order:42").await;
    is_released(guard).await;
    world.nothing_is_left().await;
}

#[tokio::test]
async fn a_server_that_is_paused_for_longer_than_the_ttl_loses_the_lease_in_time() {
    let world = World::new(PostgresOptions::new()).await;
    let (one, other) = (world.manager().await, world.manager().await);
    let fault = async || world.server.pause();
    one.loses("order:42", Duration::from_secs(5), fault).await;
    world.server.resume();
    let next = other.lock("order:42").acquire().await.unwrap();
    next.release().await.unwrap();
    world.nothing_is_left().await;
    one.is_idle().await;
}

#[tokio::test]
async fn a_server_that_is_killed_with_requests_under_way_keeps_no_lease_without_a_holder() {
    const CALLS: i64 = 20;
    let world = World::new(PostgresOptions::new()).await;
    let (proxy, manager) = world.behind_proxy().await;
    proxy.hold_replies();
    let mut calls = JoinSet::new();
    for number in 0..CALLS {
        // Every other call has given up before the server is back.
        let is_patient = number % 2 == 0;
        let patience = [Duration::from_secs(8), 3 * DEADLINE];
        let wait = patience[usize::from(is_patient)];
        let lock = manager.lock(format!("order:{number}")).ttl(4 * DEADLINE);
        let acquired = lock.wait(wait).acquire();
        calls.spawn(async move { (is_patient, acquired.await) });
    }
    eventually(DEADLINE, "all leases are written", async || {
        world.holders().await == CALLS
    })
    .await;
    world.server.kill();
    let mut guards = Vec::new();
    for _ in 0..CALLS / 2 {
        let (is_patient, acquired) = calls.join_next().await.unwrap().unwrap();
        let error = acquired.unwrap_err();
        assert!(!is_patient && error.is_unavailable(), "{error}");
    }
    proxy.thaw();
    world.server.restart().await;
    while let Some(call) = calls.join_next().await {
        let (is_patient, acquired) = call.unwrap();
        assert!(is_patient);
        guards.push(acquired.unwrap());
    }
    // Long before their TTL.
    eventually(
        DEADLINE,
        "the leases of calls that gave up are released",
        async || world.holders().await == CALLS / 2,
    )
    .await;
    for guard in guards {
        guard.release().await.unwrap();
    }
    world.nothing_is_left().await;
}
