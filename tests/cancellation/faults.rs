//! Requests and answers that get lost, one by one, with paused time.

mod moments;
mod releases;

use std::{
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use dlock::{LockError, LockGuard, LostCause, Wait, store::StoreErrorKind};
use dlock_testkit::eventually;
use tokio::{
    sync::watch,
    task::yield_now,
    time::{Instant, sleep, timeout},
};

use crate::common::{Fate, Faulty, Kind, LIMIT, is_lost, soon};
use crate::{TRUSTED, TTL};

/// The retry of the same owner finds its own lease.
#[tokio::test(start_paused = true)]
async fn a_grant_whose_answer_was_lost_is_found_by_the_retry() {
    for fate in [Fate::ReplyLost, Fate::ReplySwallowed] {
        let faulty = Faulty::start();
        faulty.wire.next(Kind::Acquire, fate);
        let guard = soon(faulty.manager.lock("order:42").acquire())
            .await
            .unwrap();
        let sent = faulty.wire.sent();
        assert_eq!(sent.len(), 2);
        assert_eq!(sent[0].owner, sent[1].owner);
        assert_eq!(sent[0].fence, Some(guard.fencing_token().fence()));
        assert_eq!(sent[1].fence, sent[0].fence);
        guard.release().await.unwrap();
        faulty.assert_clean().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_was_lost_is_repeated() {
    for fate in [Fate::Lost, Fate::Swallowed] {
        let faulty = Faulty::start();
        faulty.wire.next(Kind::Acquire, fate.clone());
        faulty.wire.next(Kind::Acquire, fate);
        let guard = soon(faulty.manager.lock("order:42").acquire())
            .await
            .unwrap();
        assert_eq!(faulty.wire.count(Kind::Acquire), 3);
        guard.release().await.unwrap();
        faulty.assert_clean().await;
    }
}

/// The wait is over, and what was granted without the caller's knowledge is given back.
#[tokio::test(start_paused = true)]
async fn giving_up_after_a_lost_answer_releases() {
    // Longer than a healthy store takes for an answer, or the lock would count as busy.
    let brief = Duration::from_millis(300);
    for (fate, wait, kind) in [
        (Fate::ReplyLost, Wait::Never, StoreErrorKind::Disconnected),
        (Fate::ReplySwallowed, Wait::Never, StoreErrorKind::TimedOut),
        (
            Fate::ReplySwallowed,
            Wait::For(brief),
            StoreErrorKind::TimedOut,
        ),
        (
            Fate::ReplyLost,
            Wait::For(brief),
            StoreErrorKind::Disconnected,
        ),
    ] {
        let faulty = Faulty::start();
        faulty.wire.always(Kind::Acquire, fate);
        let error = soon(faulty.manager.lock("order:42").wait(wait).acquire())
            .await
            .expect_err("no answer came");
        assert!(
            matches!(&error, LockError::Unavailable { reason, .. } if reason.kind() == kind),
            "{error}"
        );
        let guard = faulty.other.lock("order:42").acquire().await.unwrap();
        guard.release().await.unwrap();
        faulty.assert_clean().await;
    }
}

/// A grant that comes when its caller has gone. The release has been sent after it on
/// the same connection, and so comes after it.
#[tokio::test(start_paused = true)]
async fn a_grant_that_comes_after_the_wait_is_released() {
    let faulty = Faulty::start();
    let (gate, opened) = watch::channel(false);
    faulty.wire.next(Kind::Acquire, Fate::Stalled(opened));
    let before = Instant::now();
    let wait = Duration::from_millis(500);
    let error = faulty.manager.lock("order:42").wait(wait).acquire().await;
    assert!(
        matches!(error, Err(LockError::Unavailable { .. })),
        "{error:?}"
    );
    assert_eq!(before.elapsed(), wait, "not a moment longer");
    faulty.wire.until_sent(Kind::Release, 1).await;
    gate.send_replace(true);
    eventually(LIMIT, "it is granted after all", async || {
        faulty.wire.sent()[0].fence.is_some()
    })
    .await;
    let guard = soon(faulty.other.lock("order:42").acquire()).await.unwrap();
    guard.release().await.unwrap();
    faulty.assert_clean().await;
}

/// The time from before the question was sent counts, since the store may have granted then.
#[tokio::test(start_paused = true)]
async fn a_deadline_is_counted_from_the_question_and_not_from_the_answer() {
    let faulty = Faulty::with_response_timeout(TTL);
    let (gate, opened) = watch::channel(false);
    faulty.wire.next(Kind::Acquire, Fate::ReplyHeld(opened));
    let slow = Duration::from_secs(12);
    let lock = faulty
        .manager
        .lock("order:42")
        .ttl(TTL)
        .wait(TTL)
        .renew(false);
    let (guard, ()) = tokio::join!(lock.acquire(), async {
        sleep(slow).await;
        gate.send_replace(true);
    });
    let guard = guard.unwrap();
    assert_eq!(slow + guard.remaining(), TRUSTED);
    guard.release().await.unwrap();
    faulty.assert_clean().await;
}

/// The lease had ended when the answer came, so the body must not start with it.
#[tokio::test(start_paused = true)]
async fn an_answer_that_took_as_long_as_the_lease_is_no_grant() {
    let faulty = Faulty::with_response_timeout(2 * TTL);
    let (gate, opened) = watch::channel(false);
    faulty.wire.next(Kind::Acquire, Fate::ReplyHeld(opened));
    let lock = faulty.manager.lock("order:42").ttl(TTL).wait(2 * TTL);
    let (guard, ()) = tokio::join!(lock.acquire(), async {
        sleep(TRUSTED).await;
        gate.send_replace(true);
    });
    let guard = guard.unwrap();
    assert_eq!(faulty.wire.count(Kind::Acquire), 2, "it asked again");
    assert_eq!(guard.remaining(), TRUSTED, "and has a whole lease");
    guard.release().await.unwrap();
    faulty.assert_clean().await;
}

/// The store has prolonged the lease, but has not said so.
#[tokio::test(start_paused = true)]
async fn a_renewal_without_an_answer_keeps_the_deadline_and_is_repeated() {
    let faulty = Faulty::start();
    let guard = faulty
        .manager
        .lock("order:42")
        .ttl(TTL)
        .acquire()
        .await
        .unwrap();
    let since = Instant::now();
    faulty.wire.next(Kind::Renew, Fate::ReplyLost);
    faulty.wire.next(Kind::Renew, Fate::Lost);
    faulty.wire.until_sent(Kind::Renew, 1).await;
    assert!(faulty.wire.sent()[1].carried_out);
    let confirmed = |guard: &LockGuard| since.elapsed() + guard.remaining();
    assert_eq!(confirmed(&guard), TRUSTED);
    faulty.wire.until_sent(Kind::Renew, 2).await;
    assert_eq!(confirmed(&guard), TRUSTED);
    eventually(LIMIT, "the third renewal is confirmed", async || {
        confirmed(&guard) > TTL
    })
    .await;
    assert_eq!(faulty.wire.count(Kind::Renew), 3);
    assert!(
        since.elapsed() < TTL / 2,
        "it did not wait for its next turn"
    );
    guard.release().await.unwrap();
    faulty.assert_clean().await;
}

/// The store may have started the TTL anew when the request was sent, and not when it answered.
#[tokio::test(start_paused = true)]
async fn a_renewed_deadline_is_counted_from_the_request_and_not_from_the_answer() {
    let faulty = Faulty::with_response_timeout(TTL);
    let (gate, opened) = watch::channel(false);
    faulty.wire.next(Kind::Renew, Fate::ReplyHeld(opened));
    let lock = faulty.manager.lock("order:42").ttl(TTL);
    let guard = lock.acquire().await.unwrap();
    let since = Instant::now();
    faulty.wire.until_sent(Kind::Renew, 1).await;
    let sent = since.elapsed();
    sleep(Duration::from_secs(5)).await;
    assert_eq!(
        since.elapsed() + guard.remaining(),
        TRUSTED,
        "not confirmed"
    );
    gate.send_replace(true);
    eventually(LIMIT, "it is confirmed", async || {
        since.elapsed() + guard.remaining() > TRUSTED
    })
    .await;
    assert!(since.elapsed() + guard.remaining() <= sent + TRUSTED);
    guard.release().await.unwrap();
    faulty.assert_clean().await;
}

/// The body goes on with the lease it has while a renewal is under way.
#[tokio::test(start_paused = true)]
async fn a_renewal_that_fails_once_is_not_noticed_by_the_body() {
    let faulty = Faulty::start();
    faulty.wire.next(Kind::Renew, Fate::Swallowed);
    let body = faulty.manager.lock("order:42").ttl(TTL).run(async |_| {
        sleep(2 * TTL).await;
    });
    assert_eq!(body.await, Ok(()));
    faulty.assert_clean().await;
}

/// It ends not a moment later than the deadline that was confirmed.
#[tokio::test(start_paused = true)]
async fn a_body_whose_lease_cannot_be_renewed_ends_at_its_deadline() {
    struct EndsAt<'a>(&'a Mutex<Option<Instant>>);
    impl Drop for EndsAt<'_> {
        fn drop(&mut self) {
            *self.0.lock().unwrap() = Some(Instant::now());
        }
    }

    for fate in Fate::LOSSES {
        let faulty = Faulty::start();
        faulty.wire.always(Kind::Renew, fate.clone());
        let ended = Mutex::new(None);
        let since = Instant::now();
        let body = faulty.manager.lock("order:42").ttl(TTL).run(async |_| {
            let _ends = EndsAt(&ended);
            std::future::pending::<()>().await;
        });
        let outcome = timeout(2 * TTL, body).await.expect("it ends");
        let not_renewed = |cause: &LostCause| matches!(cause, LostCause::NotRenewed { .. });
        assert!(is_lost(&outcome, not_renewed), "{fate:?}: {outcome:?}");
        let held = ended.into_inner().unwrap().unwrap() - since;
        // The timers are exact to a millisecond.
        let moment = Duration::from_millis(1);
        assert!(held <= TRUSTED + moment, "{fate:?}: {held:?}");
        assert!(held + moment >= TRUSTED, "{fate:?}: {held:?}");
        assert!(
            faulty.wire.count(Kind::Renew) >= 3,
            "it tried several times"
        );
        faulty.assert_clean().await;
    }
}

/// The confirmed deadline stays, even if the answer to a renewal comes in the end.
#[tokio::test(start_paused = true)]
async fn a_renewal_confirmed_after_the_deadline_revives_nothing() {
    let faulty = Faulty::with_response_timeout(2 * TTL);
    let (gate, opened) = watch::channel(false);
    faulty.wire.always(Kind::Renew, Fate::ReplyHeld(opened));
    let guard = faulty
        .manager
        .lock("order:42")
        .ttl(TTL)
        .acquire()
        .await
        .unwrap();
    assert!(matches!(guard.lost().await, LockError::Lost { .. }));
    gate.send_replace(true);
    for _ in 0..10 {
        yield_now().await;
        assert!(guard.is_lost() && guard.remaining().is_zero());
    }
    assert!(guard.release().await.is_err());
    faulty.assert_clean().await;
}

/// A wait that ends while the question is under way is not exceeded by the answer's time.
#[tokio::test(start_paused = true)]
async fn a_wait_is_kept_even_if_no_answer_comes() {
    let faulty = Faulty::start();
    faulty.wire.always(Kind::Acquire, Fate::Swallowed);
    let started = AtomicBool::new(false);
    for wait in [300, 1000, 2500].map(Duration::from_millis) {
        let before = Instant::now();
        let lock = faulty.manager.lock("order:42").wait(wait);
        let outcome = lock
            .run(async |_| started.store(true, Ordering::Relaxed))
            .await;
        assert!(
            matches!(outcome, Err(LockError::Unavailable { .. })),
            "{outcome:?}"
        );
        assert_eq!(before.elapsed(), wait);
    }
    assert!(!started.load(Ordering::Relaxed), "no body without a lease");
    faulty.assert_clean().await;
}

/// What is known of a busy lock is not forgotten because the end of the wait cut a question short.
#[tokio::test(start_paused = true)]
async fn a_last_question_that_is_cut_short_does_not_hide_who_held_the_lock() {
    let faulty = Faulty::start();
    let holder = faulty.other.lock("order:42").acquire().await.unwrap();
    // It asks again after a second, and has half a second left for the answer.
    let wait = Duration::from_millis(1500);
    let waiter = faulty.manager.lock("order:42").wait(wait).acquire();
    let (outcome, ()) = tokio::join!(waiter, async {
        faulty.wire.until_sent(Kind::Acquire, 1).await;
        faulty.wire.always(Kind::Acquire, Fate::Swallowed);
    });
    let error = outcome.unwrap_err();
    assert!(error.is_busy(), "{error}");
    assert_eq!(faulty.wire.count(Kind::Acquire), 2);
    holder.release().await.unwrap();
    faulty.assert_clean().await;
}
