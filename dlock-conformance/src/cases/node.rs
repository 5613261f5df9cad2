//! The requests of a quorum to its nodes.

use dlock_runtime::{
    LockMode,
    store::{ALIVE, AcquireOutcome, GRANT_TTL, OwnerId, QuorumNode, Raised, Released, Renewal},
};
use tokio::time::Instant;

use crate::{
    Outcome,
    trial::{
        Broken, LABEL, TTL, Trial, expect, expect_eq, fence_of, holder_of, owner, owners, promise,
    },
};

pub(super) async fn a_proposal_sets_the_fence<S: QuorumNode>(trial: &Trial<'_, S>) -> Outcome {
    let first = owner();
    let start = trial.granted(first, TTL).await?;
    trial.release(first).await?;
    // Hours ahead of the clock, already reached, and far behind.
    let ahead = start + (1 << 30);
    let mut last = start;
    for proposal in [ahead, ahead, 1] {
        let owner = owner();
        let fence = fence_of(trial.propose(owner, proposal, false).await?)?;
        let wanted = proposal.max(last + 1);
        trial.expect_fence(fence, wanted, "as the fence of a proposal")?;
        let again = fence_of(trial.propose(owner, 2 * ahead, false).await?)?;
        expect_eq(again, fence, "for an owner that already holds the key")
            .map_err(promise("the owner has another lease than before"))?;
        trial.release(owner).await?;
        last = fence;
    }
    let next = owner();
    let fence = trial.granted(next, TTL).await?;
    trial.expect_fence(fence, last + 1, "as the next fence")?;
    trial.release_all([next]).await
}

pub(super) async fn only_the_holder_raises_a_fence<S: QuorumNode>(trial: &Trial<'_, S>) -> Outcome {
    let [holder, stranger, next] = owners();
    expect_eq(
        trial.raise(holder, 6, 7).await?,
        Raised::NotOwner,
        "of a free key",
    )?;
    let fence = trial.granted(holder, TTL).await?;
    let far = fence + 1_000_000_000;
    let raised = trial.raise(stranger, fence, far).await?;
    expect_eq(raised, Raised::NotOwner, "for a key of another owner")
        .map_err(promise("another owner's request was carried out"))?;
    let raised = trial.raise(holder, fence.saturating_sub(1), far).await?;
    expect_eq(raised, Raised::NotOwner, "of an earlier grant")?;
    let seen = trial.busy(stranger).await?;
    expect_eq(seen.fence, fence, "as the fence that was not raised")?;
    trial.expect_fence(seen.last_fence, fence, "as the last fence")?;
    trial.release(stranger).await?;
    for repeated in ["the first time", "the second time"] {
        expect_eq(
            trial.raise(holder, fence, far).await?,
            Raised::Raised,
            repeated,
        )?;
    }
    let lower = trial.raise(holder, far, fence).await?;
    expect_eq(lower, Raised::Raised, "to a lower value")?;
    expect_eq(
        trial.granted(holder, TTL).await?,
        far,
        "as the fence, not lowered",
    )
    .map_err(promise("the fence became less"))?;
    let seen = trial.busy(stranger).await?;
    expect_eq(seen.fence, far, "as the fence that others see")?;
    expect_eq(seen.label.as_deref(), Some(LABEL), "as the label")?;
    trial.release(stranger).await?;
    expect_eq(
        trial.release(holder).await?,
        Released::WasHeld,
        "of the holder",
    )?;
    let gone = trial.raise(holder, far, far + 9).await?;
    expect_eq(gone, Raised::NotOwner, "of a key that was released")?;
    let after = trial.granted(next, TTL).await?;
    trial.expect_fence(after, far + 1, "as the fence after one that was raised")?;
    trial.release_all([next]).await
}

pub(super) async fn a_raise_does_not_prolong_a_lease<S: QuorumNode>(
    trial: &Trial<'_, S>,
) -> Outcome {
    let [holder, other] = owners();
    trial.hurry(trial.terms.brief);
    let fence = trial.granted(holder, trial.terms.brief).await?;
    expect_eq(
        trial.raise(holder, fence, fence + 5).await?,
        Raised::Raised,
        "",
    )?;
    let seen = trial.busy_once(other).await?;
    let is_brief = seen.ttl.is_some_and(|ttl| ttl <= trial.terms.brief);
    expect(is_brief, "the TTL of the lease", seen.ttl)?;
    trial.calm()?;
    let ran_out = trial.until("a lease that has expired", async || {
        Ok(fence_of(trial.ask_once(other).await?))
    });
    ran_out.await?;
    expect_eq(
        trial.renew(holder).await?,
        Renewal::NotOwner,
        "for an expired lease",
    )
    .map_err(promise("a lease that had ended came back"))?;
    trial.release_all([other]).await
}

pub(super) async fn a_waiter_for_a_notice_gets_no_lease<S: QuorumNode>(
    trial: &Trial<'_, S>,
) -> Outcome {
    let [holder, told, second, passer_by] = owners();
    trial.granted(holder, TTL).await?;
    trial.hurry(ALIVE);
    let places = [
        trial.wait_for_notice(told).await?.position,
        trial.wait_for_notice(second).await?.position,
        trial.wait_for_notice(told).await?.position,
    ];
    expect_eq(
        places,
        [Some(0), Some(1), Some(0)],
        "as the places of the waiters",
    )?;
    trial.release(holder).await?;
    // The waiter was notified, but the key is free for whoever asks first.
    fence_of(trial.propose(passer_by, 0, false).await?)?;
    let places = [
        trial.wait_for_notice(second).await?.position,
        trial.wait_for_notice(told).await?.position,
    ];
    expect_eq(places, [Some(1), Some(0)], "as the places after the notice")?;
    trial.release_all([told, second, passer_by]).await
}

pub(super) async fn a_waiter_for_a_notice_leaves_the_queue_with_a_grant_or_release<
    S: QuorumNode,
>(
    trial: &Trial<'_, S>,
) -> Outcome {
    let [holder, taker, leaver, next] = owners();
    trial.hurry(trial.terms.brief);
    trial.granted(holder, trial.terms.brief).await?;
    trial.wait_for_notice(leaver).await?;
    trial.wait_for_notice(taker).await?;
    let left = trial.release(leaver).await?;
    expect_eq(left, Released::WasGone, "for an owner that only waits")?;
    let place = trial.wait_for_notice(taker).await?.position;
    expect_eq(place, Some(0), "as the place of the waiter behind it")?;
    trial.calm()?;
    let granted = trial.until("a grant after the lease has expired", async || {
        Ok(fence_of(trial.propose(taker, 0, true).await?))
    });
    granted.await?;
    let place = trial.wait_for_notice(next).await?.position;
    expect_eq(place, Some(0), "as the place of the only waiter")?;
    trial.release_all([next, taker]).await
}

pub(super) async fn a_waiter_for_a_lease_precedes_waiters_for_a_notice<S: QuorumNode>(
    trial: &Trial<'_, S>,
) -> Outcome {
    let [holder, waiter, told] = owners();
    trial.granted(holder, TTL).await?;
    trial.hurry(ALIVE);
    trial.busy(waiter).await?;
    let place = trial.wait_for_notice(told).await?.position;
    expect_eq(
        place,
        Some(1),
        "as the place behind the waiter for the lease",
    )?;
    trial.release(holder).await?;
    let seen = trial.wait_for_notice(told).await?;
    let is_granted = seen.ttl.is_some_and(|ttl| ttl <= GRANT_TTL);
    expect(is_granted, "a grant to the waiter for the lease", &seen)?;
    let fence = trial.granted(waiter, TTL).await?;
    expect_eq(fence, seen.fence, "as the fence of that grant")?;
    trial.release_all([told, waiter]).await
}

pub(super) async fn a_waiter_for_a_notice_keeps_new_sharers_out<S: QuorumNode>(
    trial: &Trial<'_, S>,
) -> Outcome {
    let mode = LockMode::Shared;
    if !trial.store.properties().modes.contains(mode) {
        return Ok(());
    }
    let [reader, writer, late] = owners();
    fence_of(trial.propose_in(mode, reader, 0, false).await?)?;
    trial.hurry(ALIVE);
    trial.wait_for_notice(writer).await?;
    for notice in [false, true] {
        let holder = holder_of(trial.propose_in(mode, late, 0, notice).await?);
        holder.map_err(Broken::kept_promises)?;
    }
    trial.calm()?;
    fence_of(trial.propose_in(mode, reader, 0, true).await?)?;
    trial.release_in(mode, reader).await?;
    fence_of(trial.propose(writer, 0, true).await?)?;
    trial.release_all([writer]).await?;
    trial.release_in(mode, late).await.map(drop)
}

/// A hint may be lost, for example before a subscription is established. One of many is enough.
pub(super) async fn a_notice_has_no_fence<S: QuorumNode>(trial: &Trial<'_, S>) -> Outcome {
    let (client, heard) = trial.listen()?;
    let begun = Instant::now();
    for attempt in 1.. {
        let (holder, waiter) = (owner(), OwnerId::new(client, attempt));
        trial.granted(holder, TTL).await?;
        trial.hurry(ALIVE);
        trial.wait_for_notice(waiter).await?;
        trial.release(holder).await?;
        heard.wait_for(waiter).await;
        if let Some(hint) = heard.hint_for(waiter) {
            trial.release(waiter).await?;
            let expected = (trial.key.to_string(), waiter, 0);
            return expect_eq(hint, expected, "as key, owner and fence of the hint");
        }
        let answer = trial.ask_once(waiter).await?;
        let is_free = matches!(answer, AcquireOutcome::Granted { .. });
        expect(is_free, "a key that is free after the notice", answer)?;
        trial.release(waiter).await?;
        if begun.elapsed() >= trial.terms.limit / 2 {
            break;
        }
    }
    Err(Broken::new("a hint for a waiter for a notice", "none"))
}
