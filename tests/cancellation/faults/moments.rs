//! Two things at the same moment, or one that takes longer than the next one waits.

use std::time::Duration;

use dlock::{LostCause, Wait};
use dlock_testkit::eventually;
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};

use crate::common::{Fate, Faulty, Kind, LIMIT, is_lost, soon};
use crate::{TRUSTED, TTL};

/// B18. Whether it was released in time or lost before is one thing or the other, and the store is
/// told once.
#[tokio::test(start_paused = true)]
async fn a_release_at_the_moment_of_the_loss_has_one_outcome() {
    let mut outcomes = [0, 0];
    for milliseconds in 0..6 {
        let faulty = Faulty::start();
        let lock = faulty.manager.lock("order:42").ttl(TTL).renew(false);
        let guard = lock.acquire().await.unwrap();
        // From three before its end to two after it.
        let until = TRUSTED + Duration::from_millis(milliseconds);
        sleep(until.saturating_sub(Duration::from_millis(3))).await;
        let was_lost = guard.is_lost();
        let outcome = guard.release().await;
        assert_eq!(outcome.is_err(), was_lost, "{outcome:?}");
        let ended = |cause: &LostCause| *cause == LostCause::RenewalDisabled;
        assert!(!was_lost || is_lost(&outcome, ended), "{outcome:?}");
        outcomes[usize::from(was_lost)] += 1;
        faulty.assert_clean().await;
        assert_eq!(faulty.wire.count(Kind::Release), 1);
    }
    assert!(outcomes.iter().all(|count| *count > 0), "{outcomes:?}");
}

/// B18. It was lost while the release was on its way.
#[tokio::test(start_paused = true)]
async fn a_release_that_a_loss_overtakes_has_one_outcome() {
    let faulty = Faulty::start();
    let (gate, opened) = watch::channel(false);
    faulty.wire.next(Kind::Release, Fate::Stalled(opened));
    let guard = faulty.manager.lock("order:42").acquire().await.unwrap();
    let (outcome, ()) = tokio::join!(guard.release(), async {
        faulty.wire.until_sent(Kind::Release, 1).await;
        faulty.store.forget();
        gate.send_replace(true);
    });
    assert!(is_lost(&outcome, |cause| *cause == LostCause::Revoked));
    faulty.assert_clean().await;
    assert_eq!(faulty.wire.count(Kind::Release), 1);
}

/// B19. It asks once and takes no place; nothing of it is ever in the store.
#[tokio::test(start_paused = true)]
async fn a_wait_that_is_over_as_it_begins_asks_once() {
    let faulty = Faulty::start();
    let holder = faulty.other.lock("order:42").acquire().await.unwrap();
    for wait in [Wait::Never, Wait::For(Duration::ZERO)] {
        let before = Instant::now();
        let lock = faulty.manager.lock("order:42").wait(wait);
        let error = soon(lock.acquire()).await.unwrap_err();
        assert!(error.is_busy() && before.elapsed().is_zero(), "{error}");
    }
    let sent = faulty.wire.sent();
    assert_eq!(sent.len(), 2);
    assert!(
        sent.iter()
            .all(|sent| sent.kind == Kind::Acquire && sent.left_nothing)
    );
    holder.release().await.unwrap();
    faulty.assert_clean().await;
}

/// C11. One that has got no answer is given up before the next is sent, however many turns it has
/// missed; the lease is valid to its deadline.
#[tokio::test(start_paused = true)]
async fn there_is_one_renewal_at_a_time_however_long_it_takes() {
    let faulty = Faulty::with_response_timeout(TTL);
    let (gate, opened) = watch::channel(false);
    faulty.wire.next(Kind::Renew, Fate::ReplyHeld(opened));
    let guard = faulty.manager.lock("order:42").ttl(TTL).acquire().await;
    let guard = guard.unwrap();
    faulty.wire.until_sent(Kind::Renew, 1).await;
    let sent = Instant::now();
    // It is waited for no longer than leaves time for another one.
    let limit = TTL * 33 / 100;
    sleep(limit).await;
    assert_eq!(faulty.wire.count(Kind::Renew), 1);
    guard.ensure_held().unwrap();
    faulty.wire.until_sent(Kind::Renew, 2).await;
    assert!(sent.elapsed() >= limit);
    eventually(LIMIT, "it is confirmed", async || {
        guard.remaining() > TTL * 9 / 10
    })
    .await;
    assert_eq!(faulty.wire.count(Kind::Renew), 2);
    gate.send_replace(true);
    guard.release().await.unwrap();
    faulty.assert_clean().await;
}
