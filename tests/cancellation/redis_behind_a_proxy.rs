//! Connections to a real server that are cut between the deed and the answer.

mod modes;

use std::time::Duration;

use dlock::{LockError, LockManager, Wait};
use dlock_testkit::{Polled, Proxy, eventually};
use tokio::time::sleep;

use crate::common::{Env, LIMIT, OneKey, Redis, soon};
use crate::driver::{at_every_await, poll};

struct Cut {
    env: Redis,
    proxy: Proxy,
    manager: LockManager,
    other: LockManager,
}

impl Cut {
    async fn start() -> Self {
        let env = Redis::start().await;
        let proxy = Proxy::start(env.server.port());
        let manager = LockManager::connect(&proxy.url()).await.unwrap();
        let other = env.manager().await;
        Self {
            env,
            proxy,
            manager,
            other,
        }
    }

    async fn assert_free(&self) {
        let guard = soon(self.other.lock("order:42").acquire()).await.unwrap();
        soon(guard.release()).await.unwrap();
        self.env
            .assert_clean(1, &[&self.manager, &self.other])
            .await;
    }

    async fn value(&self) -> Option<String> {
        let mut connection = self.env.server.connection().await;
        ::redis::cmd("GET")
            .arg("dlock:{order:42}")
            .query_async(&mut connection)
            .await
            .unwrap()
    }
}

#[tokio::test]
async fn a_grant_whose_answer_was_cut_off_is_found_by_the_retry() {
    let cut = Cut::start().await;
    cut.proxy.cut_before_reply_to("order:42");
    let guard = soon(cut.manager.lock("order:42").acquire()).await.unwrap();
    assert!(!cut.proxy.is_trap_set(), "there was a cut");
    let value = cut.value().await.expect("it is held");
    let fence = value.split(' ').nth(1).unwrap().to_owned();
    assert_eq!(fence, guard.fencing_token().fence().to_string());
    // The first owner's number: no second attempt was needed, which would have been refused.
    assert!(value.contains(".1 "), "{value}");
    soon(guard.release()).await.unwrap();
    cut.assert_free().await;
}

#[tokio::test]
async fn giving_up_after_the_answer_was_cut_off_releases() {
    let cut = Cut::start().await;
    cut.proxy.cut_before_reply_to("order:42");
    let error = soon(cut.manager.lock("order:42").wait(Wait::Never).acquire())
        .await
        .expect_err("the answer was cut off");
    assert!(matches!(error, LockError::Unavailable { .. }), "{error}");
    cut.assert_free().await;
}

#[tokio::test]
async fn a_renewal_whose_answer_was_cut_off_is_repeated() {
    let cut = Cut::start().await;
    let ttl = Duration::from_secs(3);
    let body = cut.manager.lock("order:42").ttl(ttl).run(async |lease| {
        cut.proxy.cut_before_reply_to("order:42");
        eventually(LIMIT, "a renewal was cut off", async || {
            !cut.proxy.is_trap_set()
        })
        .await;
        let before = lease.remaining();
        eventually(LIMIT, "the lease is renewed all the same", async || {
            lease.remaining() > before
        })
        .await;
    });
    assert_eq!(soon(body).await, Ok(()));
    cut.assert_free().await;
}

#[tokio::test]
async fn a_release_whose_answer_was_cut_off_is_no_error() {
    let cut = Cut::start().await;
    let body = cut.manager.lock("order:42").run(async |_| {
        cut.proxy.cut_before_reply_to("order:42");
        "done"
    });
    assert_eq!(soon(body).await, Ok("done"));
    assert!(!cut.proxy.is_trap_set(), "there was a cut");
    cut.assert_free().await;
}

/// The request never arrives, the connection breaks: it is repeated over another one.
#[tokio::test]
async fn requests_that_were_cut_off_are_repeated() {
    let cut = Cut::start().await;
    cut.proxy.cut_before_request("order:42");
    let guard = soon(cut.manager.lock("order:42").acquire()).await.unwrap();
    cut.proxy.cut_before_request("order:42");
    soon(guard.release()).await.unwrap();
    cut.assert_free().await;
}

/// A peer that vanished without a word.
#[tokio::test]
async fn a_waiter_survives_a_connection_that_went_silent() {
    let cut = Cut::start().await;
    let holder = soon(cut.other.lock("order:42").acquire()).await.unwrap();
    let key = OneKey::new(cut.env.store().await, "order:42");
    let waiter = cut.manager.lock("order:42").wait(LIMIT);
    let waiter = tokio::spawn(waiter.acquire());
    key.until_waiting(1).await;
    cut.proxy.freeze();
    soon(holder.release()).await.unwrap();
    cut.proxy.cut();
    cut.proxy.thaw();
    let guard = soon(waiter).await.unwrap().unwrap();
    soon(guard.release()).await.unwrap();
    cut.assert_free().await;
}

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
