//! Forged hints: messages about grants that no release has sent.
//!
//! A hint names its waiter's owner, which has 122 random bits: only who may read the locks or list
//! the channels of the server knows it, and who may also publish there is trusted like one who may
//! write the locks. What is shown here is how far such a hint gets: until the next request.

use std::time::Duration;

use dlock::{
    LostCause,
    store::{AcquireOutcome, Renewal},
};
use dlock_testkit::eventually;
use tokio::time::Instant;

use crate::common::{Kind, LIMIT, OneKey, is_lost, soon};
use crate::contention::victim::{Behind, Hushed, TTL, Victim};

#[tokio::test(start_paused = true)]
async fn a_forged_hint_is_found_out_by_the_first_renewal() {
    let (victim, behind) = Victim::behind_a_holder().await;
    let Behind {
        waiting,
        owner,
        holder,
        fence,
    } = behind;
    victim.store.hint(owner, fence + 1);
    let since = Instant::now();
    let guard = soon(waiting).await.unwrap().unwrap();
    assert!(guard.remaining() < Duration::from_secs(3));
    guard.lost().await;
    assert!(
        since.elapsed() <= Duration::from_secs(1),
        "{:?}",
        since.elapsed()
    );
    let outcome = soon(guard.release()).await;
    assert!(
        is_lost(&outcome, |cause| *cause == LostCause::Revoked),
        "{outcome:?}"
    );
    assert_eq!(victim.key.renew(holder).await, Renewal::Renewed);
    victim.key.release(holder).await;
    victim.assert_clean().await;
}

#[tokio::test(start_paused = true)]
async fn a_section_by_a_forged_hint_ends_in_an_error_however_short_it_is() {
    let (victim, behind) = Victim::behind_a_holder().await;
    let Behind {
        waiting,
        owner,
        holder,
        fence,
    } = behind;
    victim.store.hint(owner, fence + 1);
    let guard = soon(waiting).await.unwrap().unwrap();
    let outcome = soon(guard.release()).await;
    assert!(
        is_lost(&outcome, |cause| *cause == LostCause::Revoked),
        "{outcome:?}"
    );
    assert_eq!(victim.key.renew(holder).await, Renewal::Renewed);

    // The next one of the process starts afresh.
    let (waiting, _) = victim.wait().await;
    victim.key.release(holder).await;
    victim.finish(waiting, fence).await;
}

#[tokio::test(start_paused = true)]
async fn a_hint_with_a_fence_that_makes_no_token_only_makes_the_waiter_ask() {
    let (victim, behind) = Victim::behind_a_holder().await;
    let Behind {
        waiting,
        owner,
        holder,
        fence,
    } = behind;
    for forged in [0, 1, fence, 1 << 51, u64::MAX] {
        victim.assert_asks(&waiting, (owner, forged)).await;
    }
    assert_eq!(victim.wire.count(Kind::Renew), 0);
    let stranger = OneKey::<Hushed>::owner();
    let answer = victim.key.ask_once(stranger, TTL).await;
    assert!(
        matches!(answer, AcquireOutcome::Busy(_)),
        "broken promise: two hold the key: {answer:?}"
    );
    victim.key.release(holder).await;
    victim.finish(waiting, fence).await;
}

// G13
/// While one question is under way, whatever comes makes for one more.
#[tokio::test(start_paused = true)]
async fn a_flood_of_forged_hints_makes_for_one_question_at_a_time() {
    const FLOOD: usize = 10_000;
    let (victim, behind) = Victim::behind_a_holder().await;
    let Behind {
        waiting,
        owner,
        holder,
        fence,
    } = behind;
    for _ in 0..3 {
        let asked = victim.wire.count(Kind::Acquire);
        for _ in 0..FLOOD {
            victim.store.hint(owner, 0);
        }
        eventually(LIMIT, "it asks", async || {
            victim.wire.count(Kind::Acquire) > asked
        })
        .await;
        for _ in 0..FLOOD {
            victim.store.hint(owner, fence);
        }
        // A whole second, in which it would ask once by itself.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let more = victim.wire.count(Kind::Acquire) - asked;
        assert!(more <= 4, "{more} questions");
        assert!(!waiting.is_finished());
    }
    assert_eq!(victim.key.renew(holder).await, Renewal::Renewed);
    victim.key.release(holder).await;
    victim.finish(waiting, fence).await;
}
