//! Readers and holders of permits whose connection is cut.

use std::time::Duration;

use dlock::{LockError, LockRequest, Wait};
use dlock_testkit::{Polled, eventually};
use futures_util::future::join_all;

use super::Cut;
use crate::common::{Env, LIMIT, OneKey, soon};
use crate::cut::deadline_of;
use crate::driver::{at_every_await, poll};

const KEY: &str = "order:42";

impl Cut {
    /// Those who share the lock, as the server has them.
    async fn holders(&self) -> Vec<String> {
        let mut connection = self.env.server.connection().await;
        let mut fields: Vec<String> = ::redis::cmd("HKEYS")
            .arg("dlock:{order:42}")
            .query_async(&mut connection)
            .await
            .unwrap();
        fields.retain(|field| field != "!");
        fields
    }

    /// A reader and a writer of another process get it, and nothing is left.
    async fn assert_free_for_all(&self) {
        let reader = soon(self.other.lock(KEY).shared().acquire()).await.unwrap();
        soon(reader.release()).await.unwrap();
        self.assert_free().await;
    }
}

/// A second owner would wait for the permit of the first.
#[tokio::test]
async fn a_permit_whose_answer_was_cut_off_is_found_by_the_retry() {
    let cut = Cut::start().await;
    cut.proxy.cut_before_reply_to(KEY);
    let guard = soon(cut.manager.lock(KEY).permits(1).acquire())
        .await
        .unwrap();
    assert!(!cut.proxy.is_trap_set(), "there was a cut");
    assert_eq!(cut.holders().await.len(), 1);
    guard.ensure_held().unwrap();
    soon(guard.release()).await.unwrap();
    cut.assert_free_for_all().await;
}

#[tokio::test]
async fn a_reader_that_gives_up_after_the_answer_was_cut_off_keeps_no_writer_out() {
    let cut = Cut::start().await;
    cut.proxy.cut_before_reply_to(KEY);
    let lock = cut.manager.lock(KEY).shared().wait(Wait::Never);
    let error = soon(lock.acquire())
        .await
        .expect_err("the answer was cut off");
    assert!(matches!(error, LockError::Unavailable { .. }), "{error}");
    cut.assert_free().await;
}

#[tokio::test]
async fn a_renewal_of_a_shared_lease_whose_answer_was_cut_off_is_repeated() {
    let cut = Cut::start().await;
    let ttl = Duration::from_secs(6);
    let lock = || cut.manager.lock(KEY).shared().ttl(ttl);
    let other = cut.other.lock(KEY).shared();
    let (one, two) = tokio::join!(soon(lock().acquire()), soon(lock().acquire()));
    let (one, two) = (one.unwrap(), two.unwrap());
    let elsewhere = soon(other.acquire()).await.unwrap();
    cut.proxy.cut_before_reply_to(KEY);
    eventually(LIMIT, "a renewal was cut off", async || {
        !cut.proxy.is_trap_set()
    })
    .await;
    let before = deadline_of(&one).max(deadline_of(&two)) + ttl / 6;
    eventually(LIMIT, "the lease is renewed all the same", async || {
        deadline_of(&one) > before && deadline_of(&two) > before
    })
    .await;
    for guard in [one, two, elsewhere] {
        soon(guard.release()).await.unwrap();
    }
    cut.assert_free_for_all().await;
}

/// The permit is free once, and no other one is.
#[tokio::test]
async fn a_release_of_a_permit_whose_answer_was_cut_off_is_no_error() {
    let cut = Cut::start().await;
    let permit = || cut.other.lock(KEY).permits(2);
    let elsewhere = soon(permit().acquire()).await.unwrap();
    let body = cut.manager.lock(KEY).permits(2).run(async |_| {
        cut.proxy.cut_before_reply_to(KEY);
        "done"
    });
    assert_eq!(soon(body).await, Ok("done"));
    assert!(!cut.proxy.is_trap_set(), "there was a cut");
    let next = soon(permit().acquire()).await.unwrap();
    let third = soon(permit().try_acquire()).await.unwrap();
    assert!(
        third.is_none(),
        "broken promise: three have one of two permits: {third:?}"
    );
    elsewhere.ensure_held().unwrap();
    soon(elsewhere.release()).await.unwrap();
    soon(next.release()).await.unwrap();
    cut.assert_free_for_all().await;
}

/// One of them is in the queue of the server, the others wait behind it in their process.
#[tokio::test]
async fn readers_that_wait_survive_a_connection_that_went_silent() {
    let cut = Cut::start().await;
    let writer = soon(cut.other.lock(KEY).acquire()).await.unwrap();
    let key = OneKey::new(cut.env.store().await, KEY);
    let readers = [(); 3].map(|()| {
        let reader = cut.manager.lock(KEY).shared().wait(LIMIT);
        tokio::spawn(reader.acquire())
    });
    key.until_waiting(1).await;
    cut.proxy.freeze();
    soon(writer.release()).await.unwrap();
    cut.proxy.cut();
    cut.proxy.thaw();
    // Nobody leaves before all are inside.
    let guards = soon(join_all(readers)).await;
    for guard in guards {
        soon(guard.unwrap().unwrap().release()).await.unwrap();
    }
    cut.assert_free_for_all().await;
}

/// Drops `request` at each await, and each time somebody of another process is inside who may be there too.
async fn dropped_anywhere(cut: &Cut, request: impl Fn() -> LockRequest) {
    let [parked, woken] = at_every_await(0.., async |polls, drops| {
        let inside = soon(cut.other.lock(KEY).shared().acquire()).await.unwrap();
        let outcome = soon(poll(request().acquire(), polls, drops)).await;
        let finished = matches!(outcome, Polled::Finished(Ok(_)));
        drop(outcome);
        inside.ensure_held().unwrap();
        soon(inside.release()).await.unwrap();
        for key in [KEY, "order:43"] {
            let guard = soon(cut.other.lock(key).acquire()).await.unwrap();
            soon(guard.release()).await.unwrap();
        }
        cut.env.assert_clean(2, &[&cut.manager, &cut.other]).await;
        finished
    })
    .await;
    assert!(parked.max(woken) >= 2, "{parked} {woken}");
}

#[tokio::test]
async fn a_reader_dropped_anywhere_leaves_nothing() {
    let cut = Cut::start().await;
    dropped_anywhere(&cut, || cut.manager.lock(KEY).shared()).await;
}

#[tokio::test]
async fn a_permit_dropped_anywhere_leaves_nothing() {
    let cut = Cut::start().await;
    dropped_anywhere(&cut, || cut.manager.lock(KEY).permits(2)).await;
}

#[tokio::test]
async fn a_call_for_keys_of_mixed_modes_dropped_anywhere_leaves_nothing() {
    let cut = Cut::start().await;
    dropped_anywhere(&cut, || cut.manager.lock("order:43").also_shared(KEY)).await;
}
