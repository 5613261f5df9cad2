//! Processes that are killed or paused while they hold a lock or wait for it.

use std::time::Duration;

use dlock_faults::processes::{Child, KEY, Role, a_waiter_is_killed, the_holder_is_killed};
use dlock_postgres::Fence;
use dlock_testkit::PostgresServer;

use crate::world::{DEADLINE, World, client, connect};

/// Long enough not to run out before the test has broken the process.
const TTL: Duration = Duration::from_secs(4);

#[tokio::test]
#[ignore = "no test: the work of the other processes"]
async fn process() {
    let Some(mut role) = Role::of_this_process() else {
        return;
    };
    let url = role.words[1].clone();
    let manager = connect(&url).await;
    let guard = manager.holds(KEY, TTL).await;
    Role::holds(&guard, "");
    let mut client = client(&url).await;
    let tx = client.transaction().await.unwrap();
    if role.words[0] == "fences" {
        guard.fence(&tx).await.unwrap();
        let statement = "UPDATE account SET cents = 50 WHERE id = 7";
        tx.execute(statement, &[]).await.unwrap();
        println!("fenced");
    }
    role.passes_the_gate();
    if role.words[0] == "holds" {
        match guard.fence(&tx).await {
            Ok(()) => println!("fenced"),
            Err(error) => println!("refused: {error}"),
        }
    }
    println!("committed: {}", tx.commit().await.is_ok());
}

async fn child(world: &World<&'static PostgresServer>, role: &str) -> Child {
    Child::start(&[role, &world.url()], DEADLINE).await
}

#[tokio::test]
async fn the_lock_of_a_killed_process_is_free_after_its_ttl() {
    let world = World::shared().await;
    the_holder_is_killed(&world, &child(&world, "holds").await).await;
}

#[tokio::test]
async fn a_waiter_that_was_killed_is_passed_over() {
    let world = World::shared().await;
    a_waiter_is_killed(&world, async || child(&world, "holds").await).await;
}

#[tokio::test]
async fn a_process_that_was_paused_beyond_its_lease_is_refused_by_fence() {
    let world = World::shared().await;
    let child = child(&world, "holds").await;
    let (token, _) = child.held().await;
    let manager = world.manager().await;
    let next = child.is_replaced(token, &manager).await;
    child.goes_on().await;
    let refused = child.says("refused: ").await;
    assert!(refused.contains(KEY), "{refused}");
    assert!(child.wait(DEADLINE).await.success());
    next.release().await.unwrap();
    world.nothing_is_left().await;
}

#[tokio::test]
async fn a_process_that_is_paused_after_fence_keeps_the_key_until_its_commit() {
    let world = World::shared().await;
    let child = child(&world, "fences").await;
    child.says("fenced").await;
    child.pause();
    let over = "SELECT count(*) FROM dlock.holder WHERE ends <= clock_timestamp()";
    world
        .until("its lease ends", over, |count| count == 1)
        .await;
    let manager = world.manager().await;
    // The transaction is open.
    manager.finds_held(KEY).await;
    child.resume();
    child.goes_on().await;
    child.says("committed: true").await;
    let next = manager.lock(KEY).acquire().await.unwrap();
    let cents = "SELECT cents FROM account WHERE id = 7";
    assert_eq!(world.number(cents).await, 50);
    next.release().await.unwrap();
    assert!(child.wait(DEADLINE).await.success());
    world.nothing_is_left().await;
}
