//! The end of a section, when requests or answers get lost.

use std::time::Duration;

use dlock::{LostCause, Wait};
use dlock_testkit::eventually;
use tokio::{
    sync::watch,
    task::yield_now,
    time::{Instant, sleep},
};

use crate::TTL;
use crate::common::{Fate, Faulty, Kind, assert_idle, is_lost, soon};

/// The body's result stands, and the release is repeated behind the caller's back.
#[tokio::test(start_paused = true)]
async fn a_release_without_an_answer_is_repeated_and_no_error() {
    for fate in Fate::LOSSES {
        let faulty = Faulty::start();
        faulty.wire.next(Kind::Release, fate.clone());
        faulty.wire.next(Kind::Release, fate);
        let outcome = faulty.manager.lock("order:42").run(async |_| "done").await;
        assert_eq!(outcome, Ok("done"));
        let guard = soon(faulty.other.lock("order:42").acquire()).await.unwrap();
        guard.release().await.unwrap();
        faulty.assert_clean().await;
        assert_eq!(faulty.wire.count(Kind::Release), 3);
    }
}

/// What keeps others out after the body is repeated as a release is, and is no release.
#[tokio::test(start_paused = true)]
async fn a_min_hold_is_kept_although_answers_are_lost() {
    let least = Duration::from_secs(60);
    for fate in Fate::LOSSES {
        for is_dropped in [false, true] {
            let faulty = Faulty::start();
            faulty.wire.next(Kind::Renew, fate.clone());
            faulty.wire.next(Kind::Renew, fate.clone());
            let before = Instant::now();
            let lock = faulty.manager.lock("order:42").min_hold(least);
            let guard = lock.acquire().await.unwrap();
            if is_dropped {
                drop(guard);
            } else {
                guard.release().await.unwrap();
            }
            let other = faulty.other.lock("order:42").wait(Wait::Forever);
            let guard = other.acquire().await.unwrap();
            // A question of the waiter's at the very end may be a little late.
            let waited = before.elapsed();
            assert!(least <= waited && waited < least * 2, "{waited:?}");
            guard.release().await.unwrap();
            assert_idle(&[&faulty.manager, &faulty.other]).await;
            assert!(faulty.store.is_empty());
            assert_eq!(faulty.wire.count(Kind::Renew), 3);
            assert_eq!(faulty.wire.count(Kind::Release), 0);
        }
    }
}

/// A lease that is to be prolonged ends meanwhile: as for a renewal, there has to be time for a second try.
#[tokio::test(start_paused = true)]
async fn a_min_hold_of_a_brief_lease_is_kept_although_an_answer_is_lost() {
    let (ttl, least) = (Duration::from_secs(1), Duration::from_secs(10));
    for fate in Fate::LOSSES {
        let faulty = Faulty::start();
        faulty.wire.next(Kind::Renew, fate.clone());
        let before = Instant::now();
        let lock = faulty.manager.lock("order:42").ttl(ttl).min_hold(least);
        lock.acquire().await.unwrap().release().await.unwrap();
        let other = faulty.other.lock("order:42").wait(Wait::Forever);
        let guard = other.acquire().await.unwrap();
        let waited = before.elapsed();
        assert!(
            least <= waited && waited < least * 2,
            "{fate:?}: {waited:?}"
        );
        guard.release().await.unwrap();
        assert_idle(&[&faulty.manager, &faulty.other]).await;
        assert!(faulty.store.is_empty());
        assert_eq!(faulty.wire.count(Kind::Renew), 2);
    }
}

/// A renewal that is due at the very end of the body must not put the TTL in place of what is
/// left of the `min_hold`, whether that is longer or shorter.
#[tokio::test(start_paused = true)]
async fn a_min_hold_is_kept_although_a_renewal_is_due() {
    let moment = Duration::from_millis(1);
    for least in [TTL * 2, TTL / 2] {
        for turns in 0..4 {
            let faulty = Faulty::start();
            let before = Instant::now();
            let lock = faulty.manager.lock("order:42").ttl(TTL).min_hold(least);
            // In a task of its own, which has its turn among the manager's.
            let body = tokio::spawn(async move {
                let guard = lock.acquire().await.unwrap();
                sleep((TTL / 3).saturating_sub(moment)).await;
                // Set last, this timer fires after the renewer's.
                sleep(moment).await;
                for _ in 0..turns {
                    yield_now().await;
                }
                guard.release().await.unwrap();
            });
            body.await.unwrap();
            let other = faulty.other.lock("order:42").wait(Wait::Forever);
            let guard = other.acquire().await.unwrap();
            let waited = before.elapsed();
            let late = Duration::from_secs(2);
            assert!(least <= waited && waited < least + late, "{waited:?}");
            guard.release().await.unwrap();
            assert_idle(&[&faulty.manager, &faulty.other]).await;
            assert!(faulty.store.is_empty());
        }
    }
}

/// Not every store carries out requests in the order in which they were sent: the renewal would put the
/// whole TTL, or less than the rest, in place of what the lease is kept for.
#[tokio::test(start_paused = true)]
async fn a_min_hold_is_not_asked_for_before_a_renewal_under_way_has_its_answer() {
    let least = 2 * TTL;
    for is_dropped in [false, true] {
        let faulty = Faulty::with_response_timeout(Duration::from_secs(9));
        let (gate, opened) = watch::channel(false);
        faulty.wire.next(Kind::Renew, Fate::ReplyHeld(opened));
        let before = Instant::now();
        let lock = faulty.manager.lock("order:42").ttl(TTL).min_hold(least);
        let guard = lock.acquire().await.unwrap();
        faulty.wire.until_sent(Kind::Renew, 1).await;
        let leaving = tokio::spawn(async move {
            if is_dropped {
                drop(guard);
                Ok(())
            } else {
                guard.release().await
            }
        });
        sleep(Duration::from_secs(2)).await;
        assert_eq!(faulty.wire.count(Kind::Renew), 1, "the renewal goes first");
        gate.send_replace(true);
        assert_eq!(leaving.await.unwrap(), Ok(()));
        assert_idle(&[&faulty.manager]).await;
        assert_eq!(faulty.wire.count(Kind::Renew), 2);
        assert_eq!(faulty.wire.count(Kind::Release), 0);
        let lock = faulty.other.lock("order:42").wait(Wait::Forever);
        lock.acquire().await.unwrap().release().await.unwrap();
        let kept = before.elapsed();
        assert!(
            kept >= least && kept < least + Duration::from_secs(2),
            "{kept:?}"
        );
    }
}

/// To keep it is a question as well, and the answer counts as that to a release does.
#[tokio::test(start_paused = true)]
async fn a_lease_that_is_gone_when_it_is_to_be_kept_is_lost() {
    let faulty = Faulty::start();
    let lock = faulty.manager.lock("order:42").min_hold(2 * TTL);
    let outcome = lock.run(async |_| faulty.store.forget()).await;
    assert!(
        is_lost(&outcome, |cause| *cause == LostCause::Revoked),
        "{outcome:?}"
    );
    assert_idle(&[&faulty.manager]).await;
    assert!(faulty.store.is_empty());
}

/// When nothing gets through, the store's TTL has to do; the manager does not try for ever.
#[tokio::test(start_paused = true)]
async fn a_release_that_never_arrives_is_given_up_when_the_lease_has_run_out() {
    let faulty = Faulty::start();
    faulty.wire.always(Kind::Release, Fate::Swallowed);
    let since = Instant::now();
    let outcome = faulty
        .manager
        .lock("order:42")
        .ttl(TTL)
        .run(async |_| 7)
        .await;
    assert_eq!(outcome, Ok(7));
    assert!(
        since.elapsed() <= Duration::from_secs(1),
        "one answer's time"
    );
    eventually(2 * TTL, "it is given up", async || {
        faulty.manager.active_keys() == 0
    })
    .await;
    assert!(
        since.elapsed() >= TTL,
        "as long as there may be something to release"
    );
    assert!(faulty.store.is_empty());
    assert_eq!(faulty.wire.count(Kind::Renew), 0);
}

/// A renewal that is under way when the holder leaves has no successor.
#[tokio::test(start_paused = true)]
async fn nothing_is_renewed_after_the_release() {
    let faulty = Faulty::start();
    let (gate, opened) = watch::channel(false);
    faulty.wire.next(Kind::Renew, Fate::ReplyHeld(opened));
    let guard = faulty
        .manager
        .lock("order:42")
        .ttl(TTL)
        .acquire()
        .await
        .unwrap();
    faulty.wire.until_sent(Kind::Renew, 1).await;
    drop(guard);
    gate.send_replace(true);
    faulty.assert_clean().await;
    sleep(3 * TTL).await;
    let sent: Vec<_> = faulty.wire.sent().iter().map(|sent| sent.kind).collect();
    assert_eq!(sent, [Kind::Acquire, Kind::Renew, Kind::Release]);
}
