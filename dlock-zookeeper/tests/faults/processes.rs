//! Processes that are killed or paused while they hold a lock or wait for it.

use std::time::Duration;

use dlock_faults::{
    World as _,
    processes::{Child, KEY, Role, a_waiter_is_killed, the_holder_is_killed},
};
use dlock_testkit::ZooKeepers;
use dlock_zookeeper::Check;
use zookeeper_client::{Acls, CreateMode, Error};

use crate::world::{LIMIT, World, client, connect};

/// The session of a process that is killed or paused. Its locks are free afterwards.
const BRIEF: Duration = Duration::from_secs(10);
const BRIEF_TTL: Duration = Duration::from_secs(8);

#[tokio::test]
#[ignore = "no test: the work of the other processes"]
async fn process() {
    let Some(mut role) = Role::of_this_process() else {
        return;
    };
    let process = connect(&role.words[0], BRIEF_TTL).await;
    let guard = process.lock(KEY).acquire().await.unwrap();
    Role::holds(&guard, guard.check().unwrap().remove(0).path());
    role.passes_the_gate();
    println!("is held: {}", guard.ensure_held().is_ok());
}

async fn child(world: &World<&'static ZooKeepers>) -> Child {
    Child::start(&[&world.url(BRIEF)], LIMIT).await
}

#[tokio::test]
async fn the_lock_of_a_killed_process_is_free_when_its_session_ends() {
    let world = World::shared("killed").await;
    the_holder_is_killed(&world, &child(&world).await).await;
}

#[tokio::test]
async fn a_waiter_that_was_killed_is_passed_over() {
    let world = World::shared("passed").await;
    a_waiter_is_killed(&world, async || child(&world).await).await;
}

#[tokio::test]
async fn a_process_that_was_paused_beyond_its_session_is_refused_by_the_check() {
    let world = World::shared("paused").await;
    let (process, client) = tokio::join!(world.process(), client(world.servers));
    let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
    client.create("/stock", b"50", &options).await.unwrap();
    let child = child(&world).await;
    let (token, proof) = child.held().await;
    let write = async |data: &str| {
        let mut transaction = client.new_multi_writer();
        transaction.add_check_version(&proof[0], -1).unwrap();
        let written = transaction.add_set_data("/stock", data.as_bytes(), None);
        written.unwrap();
        transaction.commit().await.map(drop).map_err(Error::from)
    };
    assert_eq!(write("41").await, Ok(()), "it holds the lease");
    let next = child.is_replaced(token, &process).await;
    let late = write("40").await;
    assert_eq!(late, Err(Error::NoNode), "broken promise: a late write");
    assert_eq!(
        client.get_data("/stock").await.unwrap().0,
        b"41",
        "broken promise: a late write was accepted"
    );
    child.goes_on().await;
    child.says("is held: false").await;
    next.release().await.unwrap();
}
