//! Processes that are killed or paused while they hold a lock or wait for it.

use std::time::Duration;

use dlock_etcd::Compare;
use dlock_faults::{
    World as _,
    processes::{Child, KEY, Role, a_waiter_is_killed, the_holder_is_killed},
};
use dlock_testkit::EtcdServer;

use crate::world::{DEADLINE, World, connect};

/// Long enough not to run out before the test has broken the process.
const TTL: Duration = Duration::from_secs(8);

#[tokio::test]
#[ignore = "no test: the work of the other processes"]
async fn process() {
    let Some(mut role) = Role::of_this_process() else {
        return;
    };
    let manager = connect(&role.words[0]).await;
    let guard = manager.holds(KEY, TTL).await;
    let key = guard.compare().unwrap().remove(0);
    let name = String::from_utf8(key.name().to_vec()).unwrap();
    Role::holds(&guard, &format!("{name} {}", key.create_revision()));
    role.passes_the_gate();
    println!("is held: {}", guard.ensure_held().is_ok());
}

async fn child(world: &World<EtcdServer>) -> Child {
    Child::start(&[&world.0.url()], DEADLINE).await
}

#[tokio::test]
async fn the_lock_of_a_killed_process_is_free_after_its_ttl() {
    let world = World(EtcdServer::start().await);
    the_holder_is_killed(&world, &child(&world).await).await;
}

#[tokio::test]
async fn a_waiter_that_was_killed_is_passed_over() {
    let world = World(EtcdServer::start().await);
    a_waiter_is_killed(&world, async || child(&world).await).await;
}

#[tokio::test]
async fn a_process_that_was_paused_beyond_its_lease_is_refused_by_the_comparison() {
    let world = World(EtcdServer::start().await);
    let (process, child) = tokio::join!(world.process(), child(&world));
    let (token, proof) = child.held().await;
    let comparison = [(proof[0].clone().into_bytes(), proof[1].parse().unwrap())];
    let write = async |value: &str| world.0.put_if(&comparison, "stock", value).await;
    assert!(write("1").await, "it holds the lease");
    let next = child.is_replaced(token, &process).await;
    assert!(
        !write("2").await,
        "broken promise: a late write was accepted"
    );
    child.goes_on().await;
    child.says("is held: false").await;
    next.release().await.unwrap();
}
