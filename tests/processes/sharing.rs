//! Processes that share a lock with others and are killed, stand still, or are cut off: each costs its own place,
//! until its own TTL.
#![cfg(feature = "redis")]

use std::{env, process::Command, time::Duration};

use dlock::{LockError, LockGuard, LockManager, LockRequest};
use dlock_testkit::{Proxy, Worker};
use tokio::time::Instant;

use crate::common::{Env, LIMIT, Redis, soon};

/// Set for the process that is not to test: the URL of the server.
const HOLDER: &str = "DLOCK_TEST_SHARER";

/// Long enough not to run out while the processes start on a loaded machine.
const TTL: Duration = Duration::from_secs(5);

fn permit(manager: &LockManager) -> LockRequest {
    manager.lock("export:7").permits(3).ttl(TTL)
}

fn reader(manager: &LockManager) -> LockRequest {
    manager.lock("catalog:7").shared().ttl(TTL)
}

#[tokio::test]
#[ignore = "no test: the work of the other process"]
async fn process() {
    let Ok(url) = env::var(HOLDER) else { return };
    let manager = LockManager::connect(&url).await.unwrap();
    let body = permit(&manager).run(async |permit| {
        let inner = reader(&manager).run(async |reader| {
            println!("holding {}", reader.fencing_token());
            permit.lost().await;
            reader.lost().await;
        });
        inner.await
    });
    // No limit: its timer would be late as well.
    match body.await {
        Err(LockError::Lost { .. }) | Ok(Err(LockError::Lost { .. })) => println!("outcome: lost"),
        other => println!("outcome: {other:?}"),
    }
}

/// Another process with a permit and a reader of its own, and two others beside it.
struct World {
    env: Redis,
    proxy: Proxy,
    managers: [LockManager; 2],
    permits: Vec<LockGuard>,
    readers: Vec<LockGuard>,
    worker: Worker,
}

impl World {
    async fn start() -> Self {
        let env = Redis::start().await;
        let proxy = Proxy::start(env.server.port());
        let managers = [env.manager().await, env.manager().await];
        let worker = Worker::spawn(
            Command::new(env::current_exe().unwrap())
                .args(["--ignored", "--exact", "sharing::process", "--nocapture"])
                .env(HOLDER, proxy.url()),
        );
        let line = worker.line("holding ", LIMIT).await;
        let (mut permits, mut readers) = (Vec::new(), Vec::new());
        for manager in &managers {
            permits.push(soon(permit(manager).acquire()).await.unwrap());
            readers.push(soon(reader(manager).acquire()).await.unwrap());
        }
        let token = readers[0].fencing_token();
        assert!(
            line.ends_with(&format!("holding {token}")),
            "{line}: {token}"
        );
        Self {
            env,
            proxy,
            managers,
            permits,
            readers,
            worker,
        }
    }

    /// Waits until the place of the other process is free. Nobody beside it loses anything.
    async fn outlive(&mut self) {
        let taken = soon(permit(&self.managers[0]).try_acquire()).await.unwrap();
        assert!(
            taken.is_none(),
            "broken promise: one permit too many: {taken:?}"
        );
        let since = Instant::now();
        let next = permit(&self.managers[0]).wait(LIMIT).acquire();
        let next = soon(next).await.expect("its lease runs out");
        println!("its place was free after {:.1?}", since.elapsed());
        for guard in self.permits.iter().chain(&self.readers) {
            guard.ensure_held().unwrap();
        }
        assert_eq!(
            next.fencing_token(),
            self.permits[0].fencing_token(),
            "broken promise: two tokens together"
        );
        let fifth = soon(permit(&self.managers[1]).try_acquire()).await.unwrap();
        assert!(
            fifth.is_none(),
            "broken promise: one permit too many: {fifth:?}"
        );
        self.permits.push(next);
    }

    /// The readers that are left go, and a writer waits for nobody else.
    async fn end(self) {
        let token = self.readers[0].fencing_token();
        for guard in self.permits.into_iter().chain(self.readers) {
            soon(guard.release()).await.unwrap();
        }
        let writer = self.managers[0].lock("catalog:7").wait(LIMIT);
        let writer = soon(writer.acquire()).await.unwrap();
        assert!(
            writer.fencing_token() > token,
            "broken promise: the token did not grow"
        );
        soon(writer.release()).await.unwrap();
        let [one, two] = &self.managers;
        self.env.assert_clean(2, &[one, two]).await;
    }
}

#[tokio::test]
async fn a_killed_one_costs_its_own_place_until_its_ttl() {
    let mut world = World::start().await;
    world.worker.kill();
    world.outlive().await;
    world.end().await;
}

#[tokio::test]
async fn one_that_stands_still_costs_its_own_place_and_finds_it_lost() {
    let mut world = World::start().await;
    world.worker.pause();
    world.outlive().await;
    world.worker.resume();
    let outcome = world.worker.line("outcome: ", LIMIT).await;
    assert!(
        outcome.ends_with("lost"),
        "broken promise: a lease is believed beyond its end: {outcome}"
    );
    world.end().await;
}

#[tokio::test]
async fn one_that_is_cut_off_costs_its_own_place_and_finds_it_lost() {
    let mut world = World::start().await;
    world.proxy.refuse();
    world.proxy.cut();
    world.outlive().await;
    let outcome = world.worker.line("outcome: ", LIMIT).await;
    assert!(
        outcome.ends_with("lost"),
        "broken promise: a lease is believed beyond its end: {outcome}"
    );
    world.proxy.accept();
    world.end().await;
}
