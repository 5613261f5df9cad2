//! The options of the attribute over PostgreSQL, etcd and ZooKeeper: each has its effect on the calls of another process.
//!
//! The managers wait for ever and their TTL is longer than any test, so an option that has no effect is noticed.

mod holders;
mod timing;

use std::{future::Future, pin::Pin, time::Duration};

use dlock::{LockError, LockManager, LockManagerBuilder, Wait};
use dlock_etcd::Etcd;
use dlock_postgres::{Postgres, Schema};
use dlock_testkit::{EtcdMake, EtcdServer, PostgresServer, ZooKeepers, within};
use dlock_zookeeper::ZooKeeper;
use tokio::{join, sync::Notify, time::Instant};

use crate::common::{ANSWER, LIMIT, soon};

/// A lease of this TTL outlasts a second in which the machine stands still.
const BRIEF: Duration = Duration::from_secs(3);

/// The session of ZooKeeper with the default settings. Its longest TTL is a few seconds less.
const SESSION: Duration = Duration::from_secs(40);

/// Two processes over one store.
#[derive(Clone)]
struct World {
    here: LockManager,
    there: LockManager,
    /// The options that the store refuses, see [`timing::store_bounds`].
    refuses: [Option<&'static str>; 4],
}

impl World {
    async fn start(url: &str, refuses: [Option<&'static str>; 4]) -> Self {
        let connect = || async { builder().connect(url).await.unwrap() };
        let (here, there) = join!(connect(), connect());
        join!(first_request(&here), first_request(&there));
        Self {
            here,
            there,
            refuses,
        }
    }

    async fn is_free(&self, key: &str) -> bool {
        let found = self.there.lock(key).try_acquire().await.unwrap();
        let is_free = found.is_some();
        if let Some(guard) = found {
            guard.release().await.unwrap();
        }
        is_free
    }
}

/// Waits for the answer to a first request. On a busy machine, servers of ZooKeeper that have just started take seconds for it, since
/// their Java has compiled nothing yet: longer than a call without a wait has.
async fn first_request(locks: &LockManager) {
    let guard = soon(locks.lock("first").acquire()).await.unwrap();
    guard.release().await.unwrap();
}

fn builder() -> LockManagerBuilder {
    LockManager::builder()
        .scheme("postgres", Postgres)
        .scheme("etcd", Etcd)
        .scheme("zookeeper", ZooKeeper)
        .wait(Wait::Forever)
        .response_timeout(ANSWER)
        .connect_timeout(LIMIT)
}

/// The place where a body stays until the test lets it go.
#[derive(Default)]
struct Gate {
    entered: Notify,
    open: Notify,
}

impl Gate {
    async fn pass(&self) {
        self.entered.notify_one();
        self.open.notified().await;
    }

    /// A gate that lets one body pass.
    fn opened() -> Self {
        let gate = Self::default();
        gate.open.notify_one();
        gate
    }

    /// Makes the checks while the body of the call is inside.
    async fn during<T>(
        &self,
        call: impl Future<Output = T>,
        checks: impl Future<Output = ()>,
    ) -> T {
        let checks = async {
            self.entered.notified().await;
            checks.await;
            self.open.notify_one();
        };
        // Each store answers many times meanwhile, and each of them with all others of the machine beside it.
        let both = within(3 * LIMIT, Box::pin(async { join!(call, checks) }));
        both.await.expect("the body ends").0
    }
}

#[track_caller]
fn assert_busy<T>(outcome: &Result<T, LockError>) {
    assert!(
        outcome.as_ref().is_err_and(LockError::is_busy),
        "broken promise: two hold the key"
    );
}

type Case = fn(World) -> Pin<Box<dyn Future<Output = ()> + Send>>;

macro_rules! cases {
    ($($module:ident: $($case:ident)*,)*) => {
        [$($((stringify!($case), |world| Box::pin($module::$case(world))),)*)*]
    };
}

const CASES: &[(&str, Case)] = &cases! {
    holders: key mode permits on_busy_and_enabled on_cancel several_keys,
    timing: ttl_and_lease wait renew max_hold min_hold_and_on_error store_bounds,
};

/// Runs all cases side by side, since most of them wait.
async fn every_option_has_its_effect(world: World) {
    let start = |(name, case): &(&'static str, Case)| (*name, tokio::spawn(case(world.clone())));
    let running: Vec<_> = CASES.iter().map(start).collect();
    let mut failed = Vec::new();
    for (name, case) in running {
        if case.await.is_err() {
            failed.push(name);
        }
    }
    assert_eq!(failed, [""; 0]);
}

const TOO_LONG: Option<&str> = Some("ttl");

#[tokio::test]
async fn every_option_has_its_effect_over_postgresql() {
    let server = PostgresServer::shared().await;
    let database = server.database().await;
    let migration = Schema::new("dlock").unwrap().migration(None).unwrap();
    server
        .client(&database)
        .await
        .batch_execute(&migration)
        .await
        .unwrap();
    let url = server.url_of("postgres", &database);
    every_option_has_its_effect(World::start(&url, [None, None, None, TOO_LONG]).await).await;
}

#[tokio::test]
async fn every_option_has_its_effect_over_etcd() {
    let server = EtcdServer::shared(EtcdMake::Usual).await;
    // It counts whole seconds.
    let refuses = [Some("ttl"), None, None, TOO_LONG];
    every_option_has_its_effect(World::start(&server.url(), refuses).await).await;
}

#[tokio::test]
async fn every_option_has_its_effect_over_zookeeper() {
    let servers = ZooKeepers::shared().await;
    // Leases end with their session.
    let refuses = [None, Some("ttl"), Some("min_hold"), TOO_LONG];
    let url = servers.url(SESSION);
    every_option_has_its_effect(World::start(&url, refuses).await).await;
}

#[tokio::test]
async fn a_min_hold_over_zookeeper_lasts_as_long_as_the_session_of_a_process_that_has_ended() {
    let servers = ZooKeepers::shared().await;
    let (session, ttl) = (Duration::from_secs(8), BRIEF);
    let process = builder()
        .ttl(ttl)
        .connect(&servers.url(session))
        .await
        .unwrap();
    let other = builder().connect(&servers.url(SESSION)).await.unwrap();
    join!(first_request(&process), first_request(&other));
    let begun = Instant::now();
    soon(timing::kept(&process, "ended", ttl, BRIEF))
        .await
        .unwrap();
    process.shutdown(LIMIT).await;
    drop(process);
    let next = soon(other.lock("kept:ended").acquire()).await.unwrap();
    assert!(begun.elapsed() >= session, "{:?}", begun.elapsed());
    next.release().await.unwrap();
}
