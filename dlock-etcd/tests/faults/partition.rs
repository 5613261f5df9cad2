//! Members that are separated from each other, or slow, while clients reach all of them.

use std::{cell::Cell, time::Duration};

use dlock_faults::{Together, ensemble::is_separated, grew, is_released};
use dlock_testkit::{Ensemble, EtcdMake, eventually};
use tokio::time::{Instant, sleep};

use crate::world::{DEADLINE, TTL, World, connect};

#[tokio::test]
async fn a_leader_that_is_separated_loses_no_lease_and_grants_none() {
    let world = World::apart().await;
    let leader = world.0.leader().await;
    let [one, other] = world.two_at(leader).await;
    let guard = one.lock("order:42").acquire().await.unwrap();
    let token = guard.fencing_token();
    world.0.isolate(leader).await;
    other.finds_held("order:42").await;
    one.works("order:43").await;
    world.0.leader_but(leader).await;
    world.0.rejoin();
    other.finds_held("order:42").await;
    is_released(guard).await;
    is_released(other.acquires_after(token, "order:42").await).await;
}

/// The holder knows only the member that is separated, which was the leader.
#[tokio::test]
async fn a_holder_behind_a_separated_leader_has_lost_its_lease_when_another_one_acquires() {
    let world = World::apart().await;
    let leader = world.0.leader().await;
    is_separated(leader, &world, Duration::from_secs(3)).await;
}

#[tokio::test]
async fn a_waiter_behind_a_separated_member_is_passed_over() {
    let world = World::apart().await;
    let separated = (world.0.leader().await + 1) % 3;
    let at = async |index: usize| connect(&world.0.members()[(separated + index) % 3].url()).await;
    let (alone, holder, behind) = (at(0).await, at(1).await, at(2).await);
    let guard = holder.holds("order:42", TTL).await;
    let member = &world.0.members()[(separated + 1) % 3];
    let claims = async |count| member.keys("dlock/order:42/").await.len() == count;
    let cut_off = tokio::spawn(alone.lock("order:42").ttl(TTL).wait(DEADLINE).acquire());
    eventually(DEADLINE, "the first one waits", async || claims(2).await).await;
    let next = tokio::spawn(behind.lock("order:42").ttl(TTL).wait(DEADLINE).acquire());
    eventually(DEADLINE, "the second one waits", async || claims(3).await).await;
    world.0.isolate(separated).await;
    is_released(guard).await;
    let next = next.await.unwrap().unwrap();
    assert!(!cut_off.is_finished(), "it is not notified, and waits");
    world.0.rejoin();
    alone.finds_held("order:42").await;
    is_released(next).await;
    is_released(cut_off.await.unwrap().unwrap()).await;
}

/// A leader that stops for a moment again and again, as one whose disk is slow: it answers late, and is not replaced.
#[tokio::test]
async fn locks_go_on_while_the_leader_is_slow() {
    const STOPS: Duration = Duration::from_millis(300);
    const GOES_ON: Duration = Duration::from_millis(50);
    let world = World::of(EtcdMake::Usual).await;
    let leader = world.0.leader().await;
    let [one, other] = world.two_at(leader).await;
    let guard = one.holds("order:42", Duration::from_secs(6)).await;
    let is_over = Cell::new(false);
    let slow = async {
        // The pace of the fault.
        while !is_over.get() {
            world.0.pause(leader);
            sleep(STOPS).await;
            world.0.resume(leader);
            sleep(GOES_ON).await;
        }
    };
    let locks = async {
        let end = Instant::now() + Duration::from_secs(12);
        let mut last = None;
        eventually(DEADLINE, "two TTLs have passed", async || {
            let lock = other.lock("order:43").wait(DEADLINE);
            if let Ok(next) = lock.acquire().await {
                grew(last, next.fencing_token());
                last = Some(next.fencing_token());
                next.release().await.ok();
            }
            Instant::now() > end
        })
        .await;
        is_over.set(true);
        assert!(last.is_some(), "locks were acquired");
    };
    tokio::join!(slow, locks);
    // Renewals have kept it for two TTLs, or it is lost and known to be.
    eventually(DEADLINE, "an answer about the key", async || {
        let found = other.lock("order:42").try_acquire().await;
        let is_free = matches!(found, Ok(Some(_)));
        assert!(
            !is_free || guard.is_lost(),
            "broken promise: two hold `order:42`"
        );
        found.is_ok()
    })
    .await;
    if let Err(error) = guard.release().await {
        assert!(error.is_lost(), "{error}");
    }
}
