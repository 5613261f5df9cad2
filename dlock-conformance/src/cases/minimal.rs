//! Acquire, renew and release.

use std::time::Duration;

use dlock_runtime::{
    FencingToken, LockKey,
    store::{
        AcquireOutcome, AcquireRequest, LockMode, LockStore, Queue, ReleaseRequest, Released,
        RenewBatch, Renewal,
    },
};
use futures_util::future::join_all;
use tokio::time::{Instant, sleep};

use crate::{
    Outcome,
    trial::{Broken, TTL, Trial, expect, expect_eq, expect_rest, fence_of, owner, owners, promise},
};

pub(super) async fn a_free_key_is_granted_and_a_held_one_is_busy<S: LockStore>(
    trial: &Trial<'_, S>,
) -> Outcome {
    let [holder, other] = owners();
    fence_of(trial.ask_once(holder).await?)?;
    trial.busy_once(other).await?;
    expect_eq(
        trial.release(holder).await?,
        Released::WasHeld,
        "of the holder",
    )?;
    fence_of(trial.ask_once(other).await?)?;
    trial.release_all([other]).await
}

pub(super) async fn keys_are_independent<S: LockStore>(trial: &Trial<'_, S>) -> Outcome {
    let elsewhere = trial.elsewhere(2);
    let [here, there] = owners();
    trial.granted(here, TTL).await?;
    fence_of(elsewhere.ask_once(there).await?)?;
    let renewal = trial.renew(there).await?;
    expect_eq(renewal, Renewal::NotOwner, "of the owner of another key")
        .map_err(promise("another owner's request was carried out"))?;
    trial.release_all([here]).await?;
    elsewhere.busy_once(here).await?;
    elsewhere.release_all([there]).await?;

    // A store may lose these differences when it maps keys to names of its own.
    let room = LockKey::MAX_LEN - trial.key.as_str().len() - ":".len();
    let [ends_in_a, ends_in_b] = ["a", "b"].map(|end| "x".repeat(room - 1) + end);
    let pairs = [
        ("order", "Order"),
        ("%3a", "%3A"),
        ("/", "_"),
        ("\u{fc}", "\u{f6}"),
        ("\u{fc}", "u\u{308}"),
        (&*ends_in_a, &*ends_in_b),
    ];
    for (one, other) in pairs {
        let [one, other] = [one, other].map(|rest| trial.beside(rest));
        one.granted(here, TTL).await?;
        let answer = other.ask_once(there).await?;
        let is_granted = matches!(answer, AcquireOutcome::Granted { .. });
        let expected = format!("a grant of {} beside {}", other.key, one.key);
        expect(is_granted, &expected, answer)?;
        one.release_all([here]).await?;
        other.release_all([there]).await?;
    }
    Ok(())
}

pub(super) async fn concurrent_requests_get_at_most_one_grant<S: LockStore>(
    trial: &Trial<'_, S>,
) -> Outcome {
    let owners: [_; 8] = owners();
    let answers = join_all(owners.map(|owner| trial.ask_once(owner))).await;
    let mut granted = 0;
    for answer in answers {
        granted += usize::from(matches!(answer?, AcquireOutcome::Granted { .. }));
    }
    // In a quorum it is possible that no owner got a majority.
    expect(granted <= 1, "one grant at most", granted)
        .map_err(promise("several holders at once"))?;
    trial.release_all(owners).await
}

pub(super) async fn a_repeated_request_returns_the_same_fence_and_restarts_the_ttl<S: LockStore>(
    trial: &Trial<'_, S>,
) -> Outcome {
    let [holder, other] = owners();
    trial.hurry(trial.terms.brief);
    let fence = trial.granted(holder, trial.terms.brief).await?;
    // It also replaces a much shorter TTL of the first request.
    let again = trial.granted(holder, 2 * TTL).await?;
    expect_eq(again, fence, "as the fence of the repeated request")
        .map_err(promise("the owner has another lease than before"))?;
    trial.calm()?;
    sleep(2 * trial.terms.brief).await;
    trial.busy_once(other).await?;
    expect_eq(trial.granted(holder, TTL).await?, fence, "as the fence")
        .map_err(promise("the owner has another lease than before"))?;
    trial.release_all([holder]).await
}

pub(super) async fn a_renewal_restarts_the_ttl<S: LockStore>(trial: &Trial<'_, S>) -> Outcome {
    let [holder, other] = owners();
    trial.hurry(trial.terms.brief);
    let fence = trial.granted(holder, trial.terms.brief).await?;
    expect_eq(
        trial.renew(holder).await?,
        Renewal::Renewed,
        "for the holder",
    )?;
    trial.calm()?;
    sleep(2 * trial.terms.brief).await;
    trial.busy_once(other).await?;
    expect_eq(trial.granted(holder, TTL).await?, fence, "as the fence")
        .map_err(promise("the owner has another lease than before"))?;
    trial.release_all([holder]).await
}

pub(super) async fn a_batch_of_renewals_has_one_answer_per_request<S: LockStore>(
    trial: &Trial<'_, S>,
) -> Outcome {
    let none = trial
        .store
        .renew(RenewBatch::new(&[]).limit(trial.terms.limit))
        .await;
    expect(none.is_empty(), "no answer to no request", none)?;
    let stranger = owner();
    let mut keys = Vec::new();
    for number in 0..12 {
        let (key, owner) = (trial.elsewhere(number), owner());
        if number % 4 != 1 {
            key.granted(owner, TTL / 2).await?;
        }
        keys.push((key, owner));
    }
    // Free, held by another owner, and held by the requesting owner.
    let asker = |number, owner| if number % 4 == 3 { stranger } else { owner };
    let requests: Vec<_> = (0..)
        .zip(&keys)
        .map(|(number, (key, owner))| key.renewal(asker(number, *owner), TTL))
        .collect();
    let expected: Vec<_> = (0..requests.len())
        .map(|number| match number % 2 {
            0 => Ok(Renewal::Renewed),
            _ => Ok(Renewal::NotOwner),
        })
        .collect();
    let answers = trial
        .store
        .renew(RenewBatch::new(&requests).limit(trial.terms.limit))
        .await;
    expect_eq(answers, expected, "in this order")?;
    for (number, (key, owner)) in (0..).zip(&keys) {
        // If the store reports the TTL.
        if let AcquireOutcome::Busy(holder) = key.ask_once(stranger).await?
            && let Some(ttl) = holder.ttl
        {
            let is_renewed = ttl > TTL / 2;
            expect_eq(
                is_renewed,
                number % 4 != 3,
                "for whether the lease was prolonged",
            )?;
        }
        key.release_all([stranger, *owner]).await?;
    }
    Ok(())
}

pub(super) async fn only_the_owner_renews_and_releases<S: LockStore>(
    trial: &Trial<'_, S>,
) -> Outcome {
    let [holder, other] = owners();
    expect_eq(
        trial.renew(other).await?,
        Renewal::NotOwner,
        "of a free key",
    )?;
    expect_eq(
        trial.release(other).await?,
        Released::WasGone,
        "of a free key",
    )?;
    let fence = trial.granted(holder, TTL).await?;
    expect_eq(
        trial.renew(other).await?,
        Renewal::NotOwner,
        "for a key of another owner",
    )
    .map_err(promise("another owner's request was carried out"))?;
    expect_eq(
        trial.release(other).await?,
        Released::WasGone,
        "for a key of another owner",
    )
    .map_err(promise("another owner's request was carried out"))?;
    expect_eq(
        trial.granted(holder, TTL).await?,
        fence,
        "as the holder's fence",
    )
    .map_err(promise("the owner has another lease than before"))?;
    expect_eq(
        trial.release(holder).await?,
        Released::WasHeld,
        "of the holder",
    )?;
    expect_eq(
        trial.release(holder).await?,
        Released::WasGone,
        "the second time",
    )
}

pub(super) async fn a_lease_expires_after_its_ttl<S: LockStore>(trial: &Trial<'_, S>) -> Outcome {
    let [holder, other, last] = owners();
    let elsewhere = trial.elsewhere(2);
    trial.hurry(trial.terms.brief);
    let fence = trial.granted(holder, trial.terms.brief).await?;
    elsewhere.granted(last, trial.terms.brief).await?;
    trial.calm()?;
    let next = trial.until("a lease that has expired", async || {
        Ok(fence_of(trial.ask_once(other).await?))
    });
    let next = next.await?;
    expect(
        next > fence,
        "a greater fence than that of the expired lease",
        next,
    )
    .map_err(promise("the fence did not grow"))?;
    let renewed = trial.renew(holder).await?;
    expect_eq(renewed, Renewal::NotOwner, "for an expired lease")
        .map_err(promise("a lease that had ended came back"))?;
    let released = trial.release(holder).await?;
    expect_eq(released, Released::WasGone, "for an expired lease")
        .map_err(promise("a lease that had ended came back"))?;
    expect_eq(
        trial.release(other).await?,
        Released::WasHeld,
        "of its successor",
    )
    .map_err(promise("another owner's request was carried out"))?;

    // This lease began a little later, and no request of another owner reveals that it has expired.
    sleep(trial.terms.brief).await;
    let of = "for an expired lease without a successor";
    expect_eq(elsewhere.renew(last).await?, Renewal::NotOwner, of)
        .map_err(promise("a lease that had ended came back"))?;
    expect_eq(elsewhere.release(last).await?, Released::WasGone, of)
        .map_err(promise("a lease that had ended came back"))
}

pub(super) async fn a_lease_lasts_for_its_ttl<S: LockStore>(trial: &Trial<'_, S>) -> Outcome {
    let [holder, other] = owners();
    // The store counts from the time of the request.
    let asked = Instant::now();
    trial.hurry(trial.terms.brief);
    trial.granted(holder, trial.terms.brief).await?;
    trial.calm()?;
    let lasted = trial.until("a lease that has expired", async || {
        let answer = trial.ask_once(other).await?;
        Ok(fence_of(answer).map(|_| asked.elapsed()))
    });
    let lasted = lasted.await?;
    let drift = trial.store.properties().drift.of(trial.terms.brief);
    // The clock of a server may round off a millisecond.
    let least = trial
        .terms
        .brief
        .saturating_sub(drift + Duration::from_millis(1));
    expect(
        lasted >= least,
        &format!("a lease of {:?}", trial.terms.brief),
        lasted,
    )
    .map_err(promise("a lease ended before its time"))?;
    trial.release_all([other]).await
}

pub(super) async fn fences_grow<S: LockStore>(trial: &Trial<'_, S>) -> Outcome {
    let mut fences = Vec::new();
    for round in 0..12 {
        let [owner, next] = owners();
        if round == 6 {
            // Let the store forget the key.
            trial.hurry(trial.terms.brief);
            fences.push(trial.granted(owner, trial.terms.brief).await?);
            trial.calm()?;
            let ran_out = trial.until("a lease that has expired", async || {
                Ok(fence_of(trial.ask_once(next).await?))
            });
            fences.push(ran_out.await?);
        } else {
            fences.push(trial.granted(owner, TTL).await?);
            trial.release(owner).await?;
            fences.push(fence_of(trial.ask_once(next).await?)?);
        }
        trial.release(next).await?;
    }
    let grow = fences.is_sorted_by(|one, two| one < two);
    expect(grow, "fences that grow with every grant", fences)
        .map_err(promise("the fence did not grow"))
}

pub(super) async fn a_fence_makes_a_token<S: LockStore>(trial: &Trial<'_, S>) -> Outcome {
    for queue in [Queue::ForLease, Queue::No] {
        let owner = owner();
        let fence = fence_of(trial.ask(owner, TTL, queue).await?)?;
        let is_token = FencingToken::from_fence(fence).is_some();
        expect(is_token, "a fence of 1 to 2^51 - 1", fence)?;
        trial.release(owner).await?;
    }
    Ok(())
}

pub(super) async fn a_request_without_waiting_takes_no_place<S: LockStore>(
    trial: &Trial<'_, S>,
) -> Outcome {
    let [holder, passer_by, next] = owners();
    trial.granted(holder, TTL).await?;
    let seen = trial.busy_once(passer_by).await?;
    expect_eq(
        seen.position,
        None,
        "as the place of an owner that does not wait",
    )?;
    trial.release(holder).await?;
    fence_of(trial.ask_once(next).await?)?;
    trial.release_all([next]).await
}

pub(super) async fn advertised_modes_and_ttls_are_granted<S: LockStore>(
    trial: &Trial<'_, S>,
) -> Outcome {
    let properties = trial.store.properties().without_hooks();
    let is_range = properties.shortest_ttl <= properties.longest_ttl;
    expect(is_range, "a shortest TTL below the longest", properties)?;
    let other = owner();
    let modes = [LockMode::Exclusive, LockMode::Shared, LockMode::Permits(2)];
    for mode in modes
        .into_iter()
        .filter(|mode| properties.modes.contains(*mode))
    {
        let owner = owner();
        let request = AcquireRequest::new(&trial.key, owner, properties.longest_ttl);
        let asked = Instant::now();
        let answer = trial.store.acquire(request.mode(mode)).await;
        let is_granted = matches!(answer, Ok(AcquireOutcome::Granted { .. }));
        expect(is_granted, &format!("a grant in the mode {mode:?}"), answer)?;
        // If the store reports the TTL.
        if let Some(rest) = trial.busy_once(other).await?.ttl {
            expect_rest(rest, properties.longest_ttl, asked)?;
        }
        let release = ReleaseRequest::new(&trial.key, owner).mode(mode);
        trial
            .store
            .release(release)
            .await
            .map_err(|error| Broken::new("a release", error.to_string()))?;
        trial.release_all([other]).await?;
    }
    let owner = owner();
    let request = AcquireRequest::new(&trial.key, owner, properties.shortest_ttl);
    if let Err(error) = trial.store.acquire(request).await
        // So short a lease may expire before all nodes of a quorum have answered.
        && error.is_final()
    {
        return Err(Broken::new(
            "a grant for the shortest TTL",
            error.to_string(),
        ));
    }
    trial.release_all([owner]).await
}

pub(super) async fn an_immediate_release_frees_the_key<S: LockStore>(
    trial: &Trial<'_, S>,
) -> Outcome {
    let [holder, next] = owners();
    trial.ask(holder, TTL, Queue::No).await?;
    let hooks = trial.store.properties().hooks;
    if hooks.is_some_and(|hooks| hooks.release_at_once(ReleaseRequest::new(&trial.key, holder))) {
        fence_of(trial.ask_once(next).await?)?;
    }
    trial.release_all([holder, next]).await
}
