//! Places in the queue, and the names of holders.

use std::time::Duration;

use dlock_runtime::store::{ALIVE, AcquireRequest, LockStore, Queue, Released, Renewal};
use tokio::time::Instant;

use crate::{
    Outcome,
    trial::{LABEL, TTL, Trial, expect, expect_eq, expect_rest, fence_of, owners, promise},
};

pub(super) async fn waiters_queue_in_order_of_arrival<S: LockStore>(
    trial: &Trial<'_, S>,
) -> Outcome {
    let [holder, first, second] = owners();
    trial.granted(holder, TTL).await?;
    trial.hurry(ALIVE);
    let place = trial.busy(first).await?.position;
    expect_eq(place, Some(0), "as the place of the first waiter")?;
    let place = trial.busy(second).await?.position;
    expect_eq(place, Some(1), "as the place of the second waiter")?;
    let place = trial.busy(first).await?.position;
    let is_kept = place == Some(0) || (!trial.terms.keeps_places && place == Some(1));
    expect(
        is_kept,
        "Some(0) as the place of the first waiter, which repeats its request",
        place,
    )?;
    trial.release_all([second, first, holder]).await
}

pub(super) async fn a_busy_answer_names_the_holder<S: LockStore>(trial: &Trial<'_, S>) -> Outcome {
    const FUNCTION: &str = "shop::billing::settle";

    let [holder, other] = owners();
    let request = AcquireRequest::new(&trial.key, holder, TTL);
    let asked = Instant::now();
    let request = request
        .label(LABEL)
        .function(FUNCTION)
        .queue(Queue::ForLease);
    let answer = trial.store.acquire(request).await;
    let fence = match answer {
        Ok(answer) => fence_of(answer)?,
        Err(error) => return expect(false, "a grant", error),
    };
    let seen = trial.busy_once(other).await?;
    expect_eq(seen.label.as_deref(), Some(LABEL), "as the label")?;
    expect_eq(seen.function.as_deref(), Some(FUNCTION), "as the function")?;
    expect(seen.ttl.is_some(), "the TTL of the lease", &seen)?;
    expect_rest(seen.ttl.unwrap_or_default(), TTL, asked)?;
    expect_eq(seen.fence, fence, "as the fence")?;
    trial.expect_fence(seen.last_fence, fence, "as the last fence")?;
    trial.release_all([holder]).await
}

pub(super) async fn a_refused_request_leaves_the_ttl_unchanged<S: LockStore>(
    trial: &Trial<'_, S>,
) -> Outcome {
    let [holder, other] = owners();
    let fence = trial.granted(holder, TTL / 2).await?;
    expect_eq(
        trial.renew(other).await?,
        Renewal::NotOwner,
        "for a key of another owner",
    )
    .map_err(promise("another owner's request was carried out"))?;
    trial.release(other).await?;
    let seen = trial.busy(other).await?;
    let is_unchanged = seen.ttl.is_some_and(|ttl| ttl <= TTL / 2);
    expect(
        is_unchanged,
        "the TTL of the holder's own request",
        seen.ttl,
    )?;
    trial.expect_fence(seen.last_fence, fence, "as the last fence")?;
    trial.release_all([other, holder]).await
}

pub(super) async fn a_waiter_that_leaves_is_skipped<S: LockStore>(trial: &Trial<'_, S>) -> Outcome {
    let [holder, gone, next] = owners();
    trial.granted(holder, TTL).await?;
    trial.hurry(ALIVE);
    trial.busy(gone).await?;
    trial.busy(next).await?;
    let left = trial.release(gone).await?;
    expect_eq(left, Released::WasGone, "for an owner that only waits")?;
    let place = trial.busy(next).await?.position;
    expect_eq(place, Some(0), "as the place of the waiter behind it")?;
    trial.release(holder).await?;
    trial.granted(next, TTL).await?;
    trial.release_all([next]).await
}

pub(super) async fn a_crashed_waiter_is_skipped<S: LockStore>(trial: &Trial<'_, S>) -> Outcome {
    let [holder, dead, living] = owners();
    trial.granted(holder, TTL).await?;
    trial.hurry(ALIVE);
    // The store counts from the time of the request, not from the arrival of its answer.
    let since = Instant::now();
    let place = trial.busy(dead).await?.position;
    expect_eq(place, Some(0), "as the place of the first waiter")?;
    let place = trial.busy(living).await?.position;
    expect_eq(place, Some(1), "as the place of the second waiter")?;
    trial.calm()?;
    let forgotten = trial.until("a waiter that is skipped after its crash", async || {
        let place = trial.busy(living).await?.position;
        Ok(if place == Some(0) { Ok(()) } else { Err(place) })
    });
    forgotten.await?;
    // The clock of a server may round off a millisecond.
    let lived = since.elapsed() + Duration::from_millis(1);
    expect(
        lived >= ALIVE,
        &format!("a waiter that stays alive for {ALIVE:?}"),
        lived,
    )?;
    trial.release(holder).await?;
    trial.granted(living, TTL).await?;
    trial.release_all([living]).await
}

pub(super) async fn an_unconfirmed_grant_passes_to_the_next_waiter<S: LockStore>(
    trial: &Trial<'_, S>,
) -> Outcome {
    let [holder, killed, next] = owners();
    trial.granted(holder, TTL).await?;
    trial.busy(killed).await?;
    trial.release(holder).await?;
    let granted = trial.until("the end of a grant that was not confirmed", async || {
        Ok(fence_of(trial.ask(next, TTL, Queue::ForLease).await?))
    });
    granted.await?;
    let renewed = trial.renew(killed).await?;
    expect_eq(renewed, Renewal::NotOwner, "for the waiter that was killed")
        .map_err(promise("a lease that had ended came back"))?;
    trial.release_all([next]).await
}

pub(super) async fn a_busy_answer_has_the_latest_fence<S: LockStore>(
    trial: &Trial<'_, S>,
) -> Outcome {
    let [holder, waiter, other] = owners();
    let held = trial.granted(holder, TTL).await?;
    let told = trial.busy(waiter).await?.last_fence;
    expect(
        told >= held,
        "a last fence not below that of the holder",
        told,
    )?;
    // The waiter repeats its request, and the last answer counts.
    let told = trial.busy(waiter).await?.last_fence;
    trial.release(holder).await?;
    let granted = trial.granted(waiter, TTL).await?;
    expect(
        granted > told,
        "a fence above the previous last fence",
        (granted, told),
    )
    .map_err(promise("the fence did not grow"))?;
    let seen = trial.busy(other).await?.last_fence;
    expect(
        seen >= granted,
        "a last fence not below that of the holder",
        seen,
    )?;
    trial.release(waiter).await?;
    let next = trial.granted(other, TTL).await?;
    // A delayed message about the first grant must not be accepted any more.
    let told = trial.busy(waiter).await?.last_fence;
    let is_new = told >= next && told > granted;
    expect(is_new, "a last fence not below that of the holder", told)?;
    trial.release_all([waiter, other]).await
}
