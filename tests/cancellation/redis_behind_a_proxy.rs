//! Redis behind a proxy: connections that are cut, and calls that are dropped.

mod modes;

use std::time::Duration;

use dlock::LockManager;
use dlock_testkit::{Polled, Proxy};
use tokio::time::sleep;

use crate::common::{Env, Redis, soon};
use crate::cut::{Proxied, cases_of_cut_connections};
use crate::driver::{at_every_await, poll};

type Cut = crate::cut::Cut<Redis>;

impl Proxied for Redis {
    const ACQUIRE: &str = "order:42";
    const RENEW: &str = "order:42";
    const RELEASE: &str = "order:42";

    fn port(&self) -> u16 {
        self.server.port()
    }

    async fn manager_over(&self, proxy: &Proxy) -> LockManager {
        LockManager::connect(&proxy.url()).await.unwrap()
    }

    async fn held(&self) -> (String, u64) {
        let mut connection = self.server.connection().await;
        let value: String = ::redis::cmd("GET")
            .arg("dlock:{order:42}")
            .query_async(&mut connection)
            .await
            .unwrap();
        let mut parts = value.split(' ');
        let mut next = || parts.next().expect("an owner and a fence");
        (next().to_owned(), next().parse().unwrap())
    }
}

cases_of_cut_connections! { Redis }

/// The real client library: a dropped future may have been sent, or not.
#[tokio::test]
async fn an_acquisition_dropped_anywhere_leaves_nothing() {
    let env = Redis::start().await;
    let managers = [env.manager().await, env.manager().await];
    let mut keys = 0;
    let [parked, woken] = at_every_await(0.., async |polls, drops| {
        keys += 1;
        let key = format!("order:{keys}");
        let outcome = soon(poll(managers[0].lock(&key).acquire(), polls, drops)).await;
        let finished = matches!(outcome, Polled::Finished(Ok(_)));
        drop(outcome);
        let guard = soon(managers[1].lock(&key).acquire()).await.unwrap();
        soon(guard.release()).await.unwrap();
        env.assert_clean(keys, &[&managers[0], &managers[1]]).await;
        finished
    })
    .await;
    assert!(parked.max(woken) >= 2, "{parked} {woken}");
}

/// A call that is dropped at an unknown moment always sends the release.
#[tokio::test]
async fn acquisitions_dropped_at_any_time_leave_nothing() {
    let env = Redis::start().await;
    let manager = env.manager().await;
    for round in 0..200_u64 {
        let lock = manager.lock(format!("order:{}", round % 7)).acquire();
        let pause = sleep(Duration::from_micros(round * 17 % 1000));
        tokio::select! {
            guard = lock => drop(guard.unwrap()),
            () = pause => {}
        }
    }
    env.assert_clean(7, &[&manager]).await;
}
