//! Servers that are killed, paused, separated and restarted.

use std::time::Duration;

use dlock_faults::ensemble::{
    Fault::{Killed, Paused},
    a_majority_has, all_restart, is_separated, the_leader_has,
};
use dlock_testkit::{Ensemble, ZooKeepers};

use crate::world::World;

/// A lease that is lost while the test runs.
const BRIEF: Duration = Duration::from_secs(6);

#[tokio::test]
async fn a_killed_leader_loses_no_lock() {
    the_leader_has(Killed, &World::lent("killed").await).await;
}

#[tokio::test]
async fn a_leader_that_is_paused_loses_no_lease_and_grants_none_when_it_goes_on() {
    the_leader_has(Paused, &World::lent("paused").await).await;
}

#[tokio::test]
async fn a_holder_behind_a_separated_follower_has_lost_its_lease_when_another_one_acquires() {
    let world = World::new(Box::new(ZooKeepers::start_apart().await), "separated");
    let follower = (world.servers.leader().await + 1) % 3;
    is_separated(follower, &world, Duration::from_secs(9)).await;
}

#[tokio::test]
async fn without_a_majority_a_lease_is_lost_at_its_deadline_and_tokens_grow_after_the_restart() {
    a_majority_has([Killed; 2], &World::lent("majority").await, BRIEF).await;
}

#[tokio::test]
async fn while_a_majority_is_paused_a_lease_is_lost_at_its_deadline_and_no_other_is_granted() {
    a_majority_has([Paused; 2], &World::lent("stopped").await, BRIEF).await;
}

#[tokio::test]
async fn an_ensemble_that_restarts_with_its_data_loses_no_lease() {
    all_restart(&World::lent("restarted").await).await;
}
