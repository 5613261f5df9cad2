//! An ensemble of three of which members are killed, paused and unreachable.

use std::time::Duration;

use dlock_faults::{
    Together, World as _,
    ensemble::{
        Fault::{Killed, Paused},
        a_majority_has, all_restart, the_leader_has,
    },
    is_released,
};
use dlock_testkit::{EtcdMake, Proxy, eventually, hosts};

use crate::world::{DEADLINE, TTL, World};

#[tokio::test]
async fn a_leader_that_is_killed_loses_no_lease() {
    the_leader_has(Killed, &World::of(EtcdMake::Usual).await).await;
}

#[tokio::test]
async fn a_leader_of_the_oldest_version_that_is_killed_loses_no_lease() {
    the_leader_has(Killed, &World::of(EtcdMake::Old).await).await;
}

#[tokio::test]
async fn a_leader_that_is_paused_loses_no_lease_and_grants_none_when_it_goes_on() {
    the_leader_has(Paused, &World::of(EtcdMake::Usual).await).await;
}

#[tokio::test]
async fn a_leader_of_the_oldest_version_that_is_paused_loses_no_lease() {
    the_leader_has(Paused, &World::of(EtcdMake::Old).await).await;
}

#[tokio::test]
async fn without_a_majority_a_lease_is_lost_at_its_deadline_and_locks_come_back_with_it() {
    let world = World::of(EtcdMake::Usual).await;
    a_majority_has([Paused, Killed], &world, Duration::from_secs(3)).await;
}

#[tokio::test]
async fn an_ensemble_that_restarts_with_its_data_loses_no_lease() {
    all_restart(&World::of(EtcdMake::Usual).await).await;
}

#[tokio::test]
async fn an_ensemble_of_the_oldest_version_that_restarts_with_its_data_loses_no_lease() {
    all_restart(&World::of(EtcdMake::Old).await).await;
}

#[tokio::test]
async fn members_that_become_unreachable_are_replaced_by_the_next_one() {
    let world = World::of(EtcdMake::Usual).await;
    let proxies = world.proxies();
    let hosts = hosts(proxies.iter().map(Proxy::port));
    let process = world.connect(&hosts, TTL).await;
    let other = world.process().await;
    let guard = process.lock("order:42").acquire().await.unwrap();
    let open = || proxies.iter().map(Proxy::open_connections);
    // On a busy machine the first one may have been late.
    let mut first = 0;
    eventually(DEADLINE, "both connections are to one member", async || {
        first = open().position(|count| count == 2).unwrap_or_default();
        open().sum::<usize>() == 2 && proxies[first].open_connections() == 2
    })
    .await;
    proxies[first].freeze();
    process.works("order:43").await;
    let others = [(first + 1) % 3, (first + 2) % 3];
    let next = others.map(|it| proxies[it].open_connections() > 0);
    let next = next.iter().position(|is_open| *is_open);
    let next = next.expect("another member is asked");
    proxies[others[next]].refuse();
    proxies[others[next]].cut();
    process.works("order:44").await;
    assert!(proxies[others[1 - next]].open_connections() > 0);
    other.finds_held("order:42").await;
    is_released(guard).await;
}
