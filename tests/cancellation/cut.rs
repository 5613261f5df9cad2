//! Connections to a real server that are cut between the deed and the answer, or are silent: the cases of every server.

use std::time::Duration;

use dlock::{Lease, LockError, LockManager, Wait};
use dlock_testkit::{Proxy, eventually};
use tokio::time::Instant;

use crate::common::{Env, LIMIT, OneKey, soon};

const KEY: &str = "order:42";

/// A server that can be behind a proxy. Each request contains a text by which the proxy knows it.
pub(crate) trait Proxied: Env {
    const ACQUIRE: &str;
    const RENEW: &str;
    const RELEASE: &str;

    fn port(&self) -> u16;

    async fn manager_over(&self, proxy: &Proxy) -> LockManager;

    /// The owner of the lock, and its fence.
    async fn held(&self) -> (String, u64);
}

/// When a lease ends, as far as is known, or somewhat earlier: a renewal puts that off by a third of its TTL.
pub(crate) fn deadline_of(lease: &Lease) -> Instant {
    let now = Instant::now();
    now + lease.remaining()
}

pub(crate) struct Cut<E> {
    pub(crate) env: E,
    pub(crate) proxy: Proxy,
    /// Its connections lead through the proxy.
    pub(crate) manager: LockManager,
    pub(crate) other: LockManager,
}

impl<E: Proxied> Cut<E> {
    pub(crate) async fn start() -> Self {
        let env = E::start().await;
        let proxy = Proxy::start(env.port());
        let manager = env.manager_over(&proxy).await;
        let other = env.manager().await;
        Self {
            env,
            proxy,
            manager,
            other,
        }
    }

    async fn until_cut(&self) {
        eventually(LIMIT, "there was a cut", async || !self.proxy.is_trap_set()).await;
    }

    pub(crate) async fn assert_free(&self) {
        let guard = soon(self.other.lock(KEY).acquire()).await.unwrap();
        soon(guard.release()).await.unwrap();
        self.env
            .assert_clean(1, &[&self.manager, &self.other])
            .await;
    }
}

pub(crate) async fn a_grant_whose_answer_was_cut_off_is_found_by_the_retry<E: Proxied>() {
    let cut = Cut::<E>::start().await;
    cut.proxy.cut_before_reply_to(E::ACQUIRE);
    let guard = soon(cut.manager.lock(KEY).acquire()).await.unwrap();
    assert!(!cut.proxy.is_trap_set(), "there was a cut");
    let (owner, fence) = cut.env.held().await;
    assert_eq!(fence, guard.fencing_token().fence());
    // The first owner's number: no second attempt was needed, which would have been refused.
    assert!(owner.ends_with(".1"), "{owner}");
    soon(guard.release()).await.unwrap();
    cut.assert_free().await;
}

pub(crate) async fn giving_up_after_the_answer_was_cut_off_releases<E: Proxied>() {
    let cut = Cut::<E>::start().await;
    cut.proxy.cut_before_reply_to(E::ACQUIRE);
    let error = soon(cut.manager.lock(KEY).wait(Wait::Never).acquire())
        .await
        .expect_err("the answer was cut off");
    assert!(matches!(error, LockError::Unavailable { .. }), "{error}");
    cut.assert_free().await;
}

pub(crate) async fn a_renewal_whose_answer_was_cut_off_is_repeated<E: Proxied>() {
    let cut = Cut::<E>::start().await;
    let ttl = Duration::from_secs(6);
    let body = cut.manager.lock(KEY).ttl(ttl).run(async |lease| {
        cut.proxy.cut_before_reply_to(E::RENEW);
        cut.until_cut().await;
        let before = deadline_of(lease);
        eventually(LIMIT, "the lease is renewed all the same", async || {
            deadline_of(lease) > before + ttl / 6
        })
        .await;
    });
    assert_eq!(soon(body).await, Ok(()));
    cut.assert_free().await;
}

pub(crate) async fn a_finished_body_keeps_its_result_when_the_release_is_cut_off<E: Proxied>() {
    let cut = Cut::<E>::start().await;
    for is_carried_out in [true, false] {
        let body = cut.manager.lock(KEY).run(async |_| {
            if is_carried_out {
                cut.proxy.cut_before_reply_to(E::RELEASE);
            } else {
                cut.proxy.cut_before_request(E::RELEASE);
            }
            "done"
        });
        assert_eq!(soon(body).await, Ok("done"));
        assert!(!cut.proxy.is_trap_set(), "there was a cut");
        cut.assert_free().await;
    }
}

pub(crate) async fn a_detached_body_keeps_its_result_when_the_release_is_cut_off<E: Proxied>() {
    let cut = Cut::<E>::start().await;
    cut.proxy.cut_before_reply_to(E::RELEASE);
    let body = cut
        .manager
        .lock(KEY)
        .run_detached(|_| Box::pin(async { "done" }));
    assert_eq!(soon(body).await, Ok("done"));
    cut.assert_free().await;
}

/// The request never arrives, the connection breaks: it is repeated over another one.
pub(crate) async fn requests_that_were_cut_off_are_repeated<E: Proxied>() {
    let cut = Cut::<E>::start().await;
    cut.proxy.cut_before_request(E::ACQUIRE);
    let guard = soon(cut.manager.lock(KEY).acquire()).await.unwrap();
    assert!(!cut.proxy.is_trap_set(), "there was a cut");
    cut.proxy.cut_before_request(E::RELEASE);
    soon(guard.release()).await.unwrap();
    cut.assert_free().await;
}

/// A peer that vanished without a word: the server has made the waiter the holder, and its message is lost.
pub(crate) async fn a_waiter_survives_a_connection_that_went_silent<E: Proxied>() {
    let cut = Cut::<E>::start().await;
    let holder = soon(cut.other.lock(KEY).acquire()).await.unwrap();
    let key = OneKey::new(cut.env.store().await, KEY);
    let waiter = cut.manager.lock(KEY).wait(LIMIT);
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

/// Makes a test of each case for a server.
macro_rules! cases_of_cut_connections {
    ($env:path) => {
        crate::common::cases! { real $env:
            cut {
                a_grant_whose_answer_was_cut_off_is_found_by_the_retry,
                giving_up_after_the_answer_was_cut_off_releases,
                a_renewal_whose_answer_was_cut_off_is_repeated,
                a_finished_body_keeps_its_result_when_the_release_is_cut_off,
                a_detached_body_keeps_its_result_when_the_release_is_cut_off,
                requests_that_were_cut_off_are_repeated,
                a_waiter_survives_a_connection_that_went_silent,
            }
        }
    };
}
pub(crate) use cases_of_cut_connections;
