//! Many tasks of several managers on few keys, undisturbed and while the server ends dlock's connections.

use std::{sync::Arc, time::Duration};

use dlock_faults::{Process, Resource};
use dlock_testkit::{PostgresServer, eventually};
use tokio::task::JoinSet;

use crate::world::{CONNECTIONS, DEADLINE, World};

const KEYS: usize = 4;

type Resources = Arc<Vec<Resource>>;

fn resources() -> Resources {
    Arc::new((0..KEYS).map(|_| Resource::default()).collect())
}

/// Runs tasks of two managers, each of which enters its key again and again.
async fn crowd(resources: &Resources, managers: &[Process; 2], tasks: usize, sections: usize) {
    let mut running = JoinSet::new();
    for task in 0..tasks {
        let (number, key) = (task % 2, task / 2 % KEYS);
        let (manager, resources) = (managers[number].clone(), resources.clone());
        running.spawn(async move {
            for _ in 0..sections {
                loop {
                    let lock = manager.lock(format!("order:{key}")).ttl(DEADLINE);
                    let call = lock.wait(6 * DEADLINE).run(async |lease| {
                        let _inside = resources[key].enter(number, lease.fencing_token());
                        tokio::time::sleep(Duration::from_millis(1)).await;
                    });
                    // A machine that is busy for seconds may lose a lease, and then the body as well.
                    match call.await {
                        Ok(()) => break,
                        Err(error) => assert!(error.is_lost(), "{error}"),
                    }
                }
            }
        });
    }
    running.join_all().await;
}

fn entered(resources: &[Resource]) -> usize {
    resources.iter().map(|it| it.entered().len()).sum()
}

#[tokio::test]
async fn tasks_of_two_managers_all_get_their_turn_and_never_two_at_once() {
    const TASKS: usize = 64;
    const SECTIONS: usize = 12;
    let world = World::shared().await;
    let managers = [world.manager().await, world.manager().await];
    let resources = resources();
    crowd(&resources, &managers, TASKS, SECTIONS).await;
    assert!(entered(&resources) >= TASKS * SECTIONS);
    for resource in &*resources {
        let sections = resource.entered();
        // While both want it.
        let half = &sections[..sections.len() / 2];
        let first = half.iter().filter(|manager| **manager == 0).count();
        let share = half.len() / 5;
        assert!(
            (share..=half.len() - share).contains(&first),
            "{first} of {}",
            half.len()
        );
    }
    world.nothing_is_left().await;
}

#[tokio::test]
async fn connections_that_are_terminated_all_the_time_let_in_one_at_a_time() {
    const TASKS: usize = 200;
    const SECTIONS: usize = 2;
    let world = World::shared().await;
    let managers = [world.manager().await, world.manager().await];
    let resources = resources();
    tokio::join!(
        crowd(&resources, &managers, TASKS, SECTIONS),
        terminate(&world, &resources, TASKS * SECTIONS),
    );
    assert!(entered(&resources) >= TASKS * SECTIONS);
    world.nothing_is_left().await;
}

/// Ends all connections of dlock each time that some more sections have ended, until all have.
async fn terminate(world: &World<&'static PostgresServer>, resources: &Resources, all: usize) {
    let client = world.client().await;
    let statement = CONNECTIONS.replace("count(*)", "count(pg_terminate_backend(pid))");
    let mut next = 10;
    while next < all {
        eventually(4 * DEADLINE, "sections go on", async || {
            entered(resources) >= next
        })
        .await;
        client.query_one(&statement, &[]).await.unwrap();
        next = entered(resources) + 20;
    }
}
