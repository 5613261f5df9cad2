//! Connections to PostgreSQL that are cut between the deed and the answer, or are silent.

use std::time::Duration;

use dlock::{LockError, LockManager, Wait};
use dlock_testkit::{Proxy, eventually};

use super::env::Postgres;
use crate::common::{Env, LIMIT, OneKey, soon};

/// In the statement of each request.
const ACQUIRE: &str = ".acquire(";
const RENEW: &str = ".renew(";
const RELEASE: &str = ".release(";

struct Cut {
    env: Postgres,
    proxy: Proxy,
    manager: LockManager,
    other: LockManager,
}

impl Cut {
    async fn start() -> Self {
        let env = Postgres::start().await;
        let proxy = Proxy::start(env.server.port());
        let port = proxy.port();
        let url = format!("postgres://postgres@127.0.0.1:{port}/{}", env.database);
        let manager = Postgres::builder().connect(url).await.unwrap();
        let other = env.manager().await;
        Self {
            env,
            proxy,
            manager,
            other,
        }
    }

    async fn owner(&self) -> String {
        let client = self.env.client().await;
        let row = client.query_one("SELECT owner, fence FROM dlock.holder", &[]);
        row.await.unwrap().get(0)
    }

    async fn until_cut(&self) {
        eventually(LIMIT, "there was a cut", async || !self.proxy.is_trap_set()).await;
    }

    async fn assert_free(&self) {
        let guard = soon(self.other.lock("order:42").acquire()).await.unwrap();
        soon(guard.release()).await.unwrap();
        self.env
            .assert_clean(1, &[&self.manager, &self.other])
            .await;
    }
}

#[tokio::test]
async fn a_grant_whose_answer_was_cut_off_is_found_by_the_retry() {
    let cut = Cut::start().await;
    cut.proxy.cut_before_reply_to(ACQUIRE);
    let guard = soon(cut.manager.lock("order:42").acquire()).await.unwrap();
    assert!(!cut.proxy.is_trap_set(), "there was a cut");
    // The first owner's number: no second attempt was needed, which would have been refused.
    let owner = cut.owner().await;
    assert!(owner.ends_with(".1"), "{owner}");
    soon(guard.release()).await.unwrap();
    cut.assert_free().await;
}

#[tokio::test]
async fn giving_up_after_the_answer_was_cut_off_releases() {
    let cut = Cut::start().await;
    cut.proxy.cut_before_reply_to(ACQUIRE);
    let error = soon(cut.manager.lock("order:42").wait(Wait::Never).acquire())
        .await
        .expect_err("the answer was cut off");
    assert!(matches!(error, LockError::Unavailable { .. }), "{error}");
    cut.assert_free().await;
}

#[tokio::test]
async fn a_renewal_whose_answer_was_cut_off_is_repeated() {
    let cut = Cut::start().await;
    let ttl = Duration::from_secs(6);
    let body = cut.manager.lock("order:42").ttl(ttl).run(async |lease| {
        cut.proxy.cut_before_reply_to(RENEW);
        cut.until_cut().await;
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
async fn a_finished_body_keeps_its_result_when_the_release_is_cut_off() {
    let cut = Cut::start().await;
    for is_carried_out in [true, false] {
        let body = cut.manager.lock("order:42").run(async |_| {
            if is_carried_out {
                cut.proxy.cut_before_reply_to(RELEASE);
            } else {
                cut.proxy.cut_before_request(RELEASE);
            }
            "done"
        });
        assert_eq!(soon(body).await, Ok("done"));
        assert!(!cut.proxy.is_trap_set(), "there was a cut");
        cut.assert_free().await;
    }
}

#[tokio::test]
async fn a_detached_body_keeps_its_result_when_the_release_is_cut_off() {
    let cut = Cut::start().await;
    cut.proxy.cut_before_reply_to(RELEASE);
    let body = cut
        .manager
        .lock("order:42")
        .run_detached(|_| Box::pin(async { "done" }));
    assert_eq!(soon(body).await, Ok("done"));
    cut.assert_free().await;
}

#[tokio::test]
async fn requests_that_were_cut_off_are_repeated() {
    let cut = Cut::start().await;
    cut.proxy.cut_before_request(ACQUIRE);
    let guard = soon(cut.manager.lock("order:42").acquire()).await.unwrap();
    assert!(!cut.proxy.is_trap_set(), "there was a cut");
    cut.proxy.cut_before_request(RELEASE);
    soon(guard.release()).await.unwrap();
    cut.assert_free().await;
}

/// Without a word from the peer: the server has made the waiter the holder, and its message is lost.
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
