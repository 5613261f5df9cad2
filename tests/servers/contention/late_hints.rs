//! Hints that come late, twice, or for no waiter cost nothing but time.

use std::time::Duration;

use tokio::time::Instant;

use crate::common::{Fate, Kind, LIMIT, soon};
use crate::contention::victim::{TTL, Victim};

/// The latest answer is fresh, but knew the fence of the hint already: it came after the grant,
/// which has ended, and does not say when that was.
#[tokio::test(start_paused = true)]
async fn a_late_hint_is_not_believed_though_the_latest_answer_is_fresh() {
    let (victim, behind) = Victim::behind_a_holder().await;
    let (waiting, owner, holder) = (behind.waiting, behind.owner, behind.holder);
    victim.wire.always(Kind::Acquire, Fate::Lost);
    victim.key.release(holder).await;
    let fence = victim.last_fence().await;

    // Nobody has told it, its questions do not get through, and so its lease ends.
    let (stranger, next) = victim.stranger(TTL).await;
    assert_eq!(next, fence + 1, "the one between was the waiter's");
    victim.wire.heal();
    victim.key.until_waiting(1).await;

    victim.assert_asks(&waiting, (owner, fence)).await;
    assert_eq!(victim.last_fence().await, next, "the stranger has it still");
    victim.key.release(stranger).await;
    victim.finish(waiting, next).await;
}

/// The only answer that knew a smaller fence is too old.
#[tokio::test(start_paused = true)]
async fn a_late_hint_is_not_believed_past_its_deadline() {
    let (victim, behind) = Victim::behind_a_holder().await;
    let (waiting, owner, holder) = (behind.waiting, behind.owner, behind.holder);
    victim.wire.always(Kind::Acquire, Fate::Lost);
    victim.key.release(holder).await;
    let fence = victim.last_fence().await;
    let (stranger, next) = victim.stranger(TTL).await;

    victim.assert_asks(&waiting, (owner, fence)).await;
    victim.wire.heal();
    victim.key.until_waiting(1).await;
    victim.key.release(stranger).await;
    victim.finish(waiting, next).await;
}

/// A hint that is late, but not too late, is believed no longer than the grant lasts.
#[tokio::test(start_paused = true)]
async fn a_lease_by_hint_ends_before_the_grant_does() {
    let (victim, behind) = Victim::behind_a_holder().await;
    let (waiting, owner, holder) = (behind.waiting, behind.owner, behind.holder);
    victim.wire.always(Kind::Acquire, Fate::Lost);
    victim.wire.always(Kind::Renew, Fate::Lost);
    victim.key.release(holder).await;
    let granted = Instant::now();
    let fence = victim.last_fence().await;
    // Later, too little would be left to begin with.
    tokio::time::sleep(Duration::from_millis(1500)).await;
    victim.store.hint(owner, fence);
    let guard = soon(waiting).await.unwrap().unwrap();
    assert_eq!(guard.fencing_token().fence(), fence);
    let (lost, (stranger, _)) = tokio::join!(
        async {
            guard.lost().await;
            granted.elapsed()
        },
        victim.stranger(TTL)
    );
    assert!(lost < Duration::from_secs(3), "{lost:?}");
    victim.wire.heal();
    guard.release().await.expect_err("it was lost");
    victim.key.release(stranger).await;
    victim.assert_clean().await;
}

#[tokio::test(start_paused = true)]
async fn a_hint_that_comes_twice_is_believed_once() {
    let (victim, behind) = Victim::behind_a_holder().await;
    let (waiting, owner, holder) = (behind.waiting, behind.owner, behind.holder);
    victim.key.release(holder).await;
    let fence = victim.last_fence().await;
    let asked = victim.wire.count(Kind::Acquire);
    victim.store.hint(owner, fence);
    victim.store.hint(owner, fence);
    let guard = soon(waiting).await.unwrap().unwrap();
    victim.store.hint(owner, fence);
    assert_eq!(guard.fencing_token().fence(), fence);
    assert_eq!(victim.wire.count(Kind::Acquire), asked);
    soon(guard.release()).await.unwrap();

    // Again, for the same owner and for the next, while somebody else has the lock.
    let (stranger, next) = victim.stranger(TTL).await;
    let (waiting, heir) = victim.wait().await;
    assert_ne!(owner, heir);
    let asked = victim.wire.count(Kind::Acquire);
    victim.store.hint(owner, fence);
    tokio::task::yield_now().await;
    assert_eq!(victim.wire.count(Kind::Acquire), asked, "it is for nobody");
    victim.assert_asks(&waiting, (heir, fence)).await;
    assert_eq!(victim.last_fence().await, next);
    victim.key.release(stranger).await;
    victim.finish(waiting, next).await;
}

#[tokio::test(start_paused = true)]
async fn a_hint_for_a_waiter_that_has_gone_keeps_the_lock_from_nobody() {
    let (victim, behind) = Victim::behind_a_holder().await;
    let (waiting, owner, holder) = (behind.waiting, behind.owner, behind.holder);
    victim.key.release(holder).await;
    let fence = victim.last_fence().await;
    waiting.abort();
    victim.store.hint(owner, fence);
    assert!(soon(waiting).await.is_err(), "it was aborted");
    victim.store.hint(owner, fence);
    victim.assert_clean().await;
    let released = Instant::now();
    let (stranger, _) = victim.stranger(LIMIT).await;
    assert!(released.elapsed().is_zero(), "it was given back at once");
    victim.key.release(stranger).await;
    victim.assert_clean().await;
}
