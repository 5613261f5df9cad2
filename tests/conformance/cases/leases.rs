//! Leases from their grant to their end.

use std::sync::atomic::{AtomicBool, Ordering};

use dlock::{LockError, LockManager, LostCause, OnLost, distributed_lock};
use tokio::{
    task::yield_now,
    time::{Instant, sleep},
};

use crate::common::{Env, assert_idle, is_lost, soon};

pub(crate) async fn a_lease_is_renewed_as_long_as_its_body_runs<E: Env>() {
    let env = E::start().await;
    let managers = [env.manager().await, env.manager().await];
    let body = managers[0]
        .lock("order:42")
        .ttl(E::BRIEF)
        .run(async |lease| {
            let since = Instant::now();
            while since.elapsed() < 2 * E::BRIEF {
                let other = managers[1].lock("order:42").try_acquire().await.unwrap();
                assert!(
                    other.is_none(),
                    "broken promise: two hold the key: after {:?}",
                    since.elapsed()
                );
                lease.ensure_held().unwrap();
                sleep(E::BRIEF / 10).await;
            }
            lease.remaining()
        });
    let remaining = soon(body).await.unwrap();
    assert!(
        !remaining.is_zero() && remaining <= E::BRIEF,
        "{remaining:?}"
    );
    env.assert_clean(1, &[&managers[0], &managers[1]]).await;
}

pub(crate) async fn max_hold_ends_a_lease_that_is_renewed<E: Env>() {
    let env = E::start().await;
    let managers = [env.manager().await, env.manager().await];
    let limit = E::BRIEF * 3 / 2;
    let before = Instant::now();
    let lock = managers[0].lock("order:42").ttl(E::BRIEF).max_hold(limit);
    let outcome = soon(lock.run(async |_| std::future::pending::<()>().await)).await;
    assert!(
        is_lost(&outcome, |cause| *cause == LostCause::MaxHold),
        "{outcome:?}"
    );
    assert!(before.elapsed() >= limit);
    let next = soon(managers[1].lock("order:42").acquire()).await.unwrap();
    soon(next.release()).await.unwrap();
    env.assert_clean(1, &[&managers[0], &managers[1]]).await;
}

pub(crate) async fn min_hold_keeps_others_out_when_the_holder_has_gone<E: Env>() {
    let env = E::start().await;
    let managers = [env.manager().await, env.manager().await];
    let least = E::BRIEF;
    // The lease has to be prolonged, or to be cut short. It is not so brief that it ends first on a slow
    // machine.
    let holds = async |key: &str, ttl, is_dropped| {
        let before = Instant::now();
        let lock = managers[0].lock(key).ttl(ttl).min_hold(least);
        let guard = soon(lock.acquire()).await.unwrap();
        let token = guard.fencing_token();
        if is_dropped {
            drop(guard);
        } else {
            soon(guard.release()).await.unwrap();
        }
        assert_idle(&[&managers[0]]).await;
        // On a slow machine the time may have passed by now. An attempt before that time gets nothing.
        let other = managers[1].lock(key);
        let next = match soon(other.clone().try_acquire()).await.unwrap() {
            Some(next) => next,
            None => soon(other.acquire()).await.unwrap(),
        };
        assert!(before.elapsed() >= least, "after {:?}", before.elapsed());
        assert!(
            next.fencing_token() > token,
            "broken promise: the token did not grow"
        );
        soon(next.release()).await.unwrap();
    };
    tokio::join!(
        holds("order:42", least * 2 / 3, false),
        holds("order:43", least * 20, true)
    );
    env.assert_clean(2, &[&managers[0], &managers[1]]).await;
}

pub(crate) async fn a_lease_without_renewal_ends_after_its_ttl<E: Env>() {
    let env = E::start().await;
    let manager = env.manager().await;
    let before = Instant::now();
    let lock = manager.lock("order:42").ttl(E::BRIEF).renew(false);
    let outcome = soon(lock.run(async |_| std::future::pending::<()>().await)).await;
    assert!(
        is_lost(&outcome, |cause| *cause == LostCause::RenewalDisabled),
        "{outcome:?}"
    );
    // Earlier by the drift, never later than the store.
    assert!(before.elapsed() + E::BRIEF / 50 >= E::BRIEF);
    env.assert_clean(1, &[&manager]).await;
}

pub(crate) async fn a_body_is_cancelled_when_the_store_says_it_is_lost<E: Env>() {
    struct Dropped<'a>(&'a AtomicBool);
    impl Drop for Dropped<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    let env = E::start().await;
    let manager = env.manager().await;
    let dropped = AtomicBool::new(false);
    let ttl = 4 * E::BRIEF;
    let before = Instant::now();
    let body = manager.lock("order:42").ttl(ttl).run(async |_| {
        let _dropped = Dropped(&dropped);
        env.delete("order:42").await;
        std::future::pending::<()>().await;
    });
    let outcome = soon(body).await;
    assert!(
        is_lost(&outcome, |cause| *cause == LostCause::Revoked),
        "{outcome:?}"
    );
    assert!(
        dropped.load(Ordering::Relaxed),
        "the body is gone before the caller knows"
    );
    // The next renewal told, which comes after a third of the TTL; exact where time is paused.
    assert!(before.elapsed() <= ttl / 3 + E::PROMPT);
    env.assert_clean(1, &[&manager]).await;
}

pub(crate) async fn a_body_that_may_finish_does_so_without_its_lease<E: Env>() {
    let env = E::start().await;
    let manager = env.manager().await;
    let lock = manager
        .lock("order:42")
        .ttl(E::BRIEF)
        .on_lost(OnLost::Finish);
    let outcome = soon(lock.run(async |lease| {
        env.delete("order:42").await;
        let error = lease.lost().await;
        assert!(matches!(error, LockError::Lost { .. }));
        assert!(lease.is_lost() && lease.ensure_held().is_err());
        assert!(lease.remaining().is_zero());
        yield_now().await;
        "done"
    }))
    .await;
    assert_eq!(outcome, Ok("done"));
    env.assert_clean(1, &[&manager]).await;
}

pub(crate) async fn a_release_tells_that_the_lease_was_gone<E: Env>() {
    let env = E::start().await;
    let manager = env.manager().await;
    for (on_lost, is_told) in [(OnLost::Stop, true), (OnLost::Finish, false)] {
        let lock = manager.lock("order:42").on_lost(on_lost);
        let guard = soon(lock.acquire()).await.unwrap();
        env.delete("order:42").await;
        let outcome = soon(guard.release()).await;
        let told = is_lost(&outcome, |cause| *cause == LostCause::Revoked);
        assert_eq!(told, is_told, "{outcome:?}");
    }
    env.assert_clean(1, &[&manager]).await;
}

/// Its body ends before any renewal could tell: the release does.
pub(crate) async fn a_short_body_whose_lock_was_deleted_is_no_success<E: Env>() {
    #[distributed_lock(key = "order:42", manager = locks)]
    async fn settle<E: Env>(locks: &LockManager, env: &E) -> Result<&'static str, LockError> {
        env.delete("order:42").await;
        Ok("settled")
    }

    #[distributed_lock(key = "order:42", manager = locks, on_lost = finish)]
    async fn settle_anyway<E: Env>(
        locks: &LockManager,
        env: &E,
    ) -> Result<&'static str, LockError> {
        env.delete("order:42").await;
        Ok("settled")
    }

    let env = E::start().await;
    let manager = env.manager().await;
    let lock = manager.lock("order:42");
    let body = async |_: &dlock::Lease| env.delete("order:42").await;
    let built = soon(lock.clone().run(body)).await;
    let attributed = soon(settle(&manager, &env)).await;
    for outcome in [built.map(|()| "settled"), attributed] {
        let told = is_lost(&outcome, |cause| *cause == LostCause::Revoked);
        assert!(told, "{outcome:?}");
    }
    let built = soon(lock.on_lost(OnLost::Finish).run(body)).await;
    assert_eq!(built, Ok(()));
    let attributed = soon(settle_anyway(&manager, &env)).await;
    assert_eq!(attributed, Ok("settled"));
    env.assert_clean(1, &[&manager]).await;
}

pub(crate) async fn a_lost_lease_does_not_harm_its_successor<E: Env>() {
    let env = E::start().await;
    let managers = [env.manager().await, env.manager().await];
    let loser = soon(managers[0].lock("order:42").acquire()).await.unwrap();
    env.delete("order:42").await;
    let winner = soon(managers[1].lock("order:42").acquire()).await.unwrap();
    assert!(
        winner.fencing_token() > loser.fencing_token(),
        "broken promise: the token did not grow"
    );
    let outcome = soon(loser.release()).await;
    assert!(
        is_lost(&outcome, |cause| *cause == LostCause::Revoked),
        "{outcome:?}"
    );
    // Its release has not touched what is not its own.
    assert_eq!(env.locks().await.len(), 1);
    assert!(
        soon(managers[0].lock("order:42").try_acquire())
            .await
            .unwrap()
            .is_none(),
        "broken promise: two hold the key"
    );
    soon(winner.release())
        .await
        .expect("it was the holder to the end");
    env.assert_clean(1, &[&managers[0], &managers[1]]).await;
}
