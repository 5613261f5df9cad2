//! Many tasks of several managers on few keys, undisturbed and while the server ends dlock's connections.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use dlock_runtime::{FencingToken, LockManager};
use dlock_testkit::{PostgresServer, eventually};
use tokio::task::JoinSet;

use crate::world::{CONNECTIONS, DEADLINE, World};

const KEYS: usize = 4;

/// The resource that a key protects: it sees each section, and refuses two at once and tokens that do not grow.
#[derive(Default)]
struct Resource {
    is_inside: AtomicBool,
    sections: Mutex<Vec<(usize, FencingToken)>>,
}

/// Ends with the body, also when that is cancelled.
struct Inside<'a>(&'a AtomicBool);

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

impl Resource {
    async fn enter(&self, manager: usize, token: FencingToken) {
        assert!(
            !self.is_inside.swap(true, Ordering::SeqCst),
            "broken promise: two are inside"
        );
        let _inside = Inside(&self.is_inside);
        tokio::time::sleep(Duration::from_millis(1)).await;
        {
            let mut sections = self.sections.lock().unwrap();
            assert!(
                sections.last().is_none_or(|(_, last)| *last < token),
                "broken promise: the token did not grow"
            );
            sections.push((manager, token));
        }
    }
}

type Resources = Arc<Vec<Resource>>;

fn resources() -> Resources {
    Arc::new((0..KEYS).map(|_| Resource::default()).collect())
}

/// Runs tasks of two managers, each of which enters its key again and again.
async fn crowd(resources: &Resources, managers: &[LockManager; 2], tasks: usize, sections: usize) {
    let mut running = JoinSet::new();
    for task in 0..tasks {
        let (number, key) = (task % 2, task / 2 % KEYS);
        let (manager, resources) = (managers[number].clone(), resources.clone());
        running.spawn(async move {
            for _ in 0..sections {
                loop {
                    let lock = manager.lock(format!("order:{key}")).ttl(DEADLINE);
                    let call = lock.wait(6 * DEADLINE).run(async |lease| {
                        resources[key].enter(number, lease.fencing_token()).await;
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
    while let Some(task) = running.join_next().await {
        task.unwrap();
    }
}

fn entered(resources: &[Resource]) -> usize {
    resources
        .iter()
        .map(|it| it.sections.lock().unwrap().len())
        .sum()
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
        let sections = resource.sections.lock().unwrap();
        // While both want it.
        let half = &sections[..sections.len() / 2];
        let first = half.iter().filter(|(manager, _)| *manager == 0).count();
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
