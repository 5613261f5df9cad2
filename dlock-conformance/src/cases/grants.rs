//! Releases that grant, and their hints.

use dlock_runtime::store::{
    ALIVE, AcquireOutcome, GRANT_TTL, LockStore, OwnerId, Queue, Released, Renewal,
};
use tokio::time::Instant;

use crate::{
    Outcome,
    trial::{Broken, LABEL, TTL, Trial, expect, expect_eq, owner, owners, promise},
};

pub(super) async fn the_properties_announce_grants<S: LockStore>(trial: &Trial<'_, S>) -> Outcome {
    let grants = trial.store.properties().grants;
    expect_eq(grants, true, "as `StoreProperties::grants`")
}

pub(super) async fn a_release_grants_in_order_of_arrival<S: LockStore>(
    trial: &Trial<'_, S>,
) -> Outcome {
    let owners: [_; 4] = owners();
    let mut last = trial.granted(owners[0], TTL).await?;
    trial.hurry(ALIVE);
    for waiter in &owners[1..] {
        trial.busy(*waiter).await?;
    }
    for (holder, next) in owners.iter().zip(&owners[1..]) {
        expect_eq(
            trial.release(*holder).await?,
            Released::WasHeld,
            "of the holder",
        )?;
        // The release has made the waiter the holder: a request in between changes nothing.
        let seen = trial.busy_once(owner()).await?;
        let is_brief = seen.ttl.is_some_and(|ttl| ttl <= GRANT_TTL);
        expect(
            is_brief,
            "a grant of GRANT_TTL before it is confirmed",
            &seen,
        )?;
        let fence = trial.granted(*next, TTL).await?;
        expect_eq(
            fence,
            seen.fence,
            "as the fence, granted before the request",
        )?;
        expect(fence > last, "a greater fence", fence)
            .map_err(promise("the fence did not grow"))?;
        last = fence;
    }
    trial.release_all([owners[3]]).await
}

pub(super) async fn a_newcomer_cannot_overtake_a_waiter<S: LockStore>(
    trial: &Trial<'_, S>,
) -> Outcome {
    let [holder, waiter, newcomer] = owners();
    // Shorter than the life of a waiter, so that the waiter is still alive when the lease expires.
    trial.hurry(trial.terms.brief / 4);
    let first = trial.granted(holder, trial.terms.brief / 4).await?;
    trial.busy(waiter).await?;
    trial.calm()?;
    // The waiter stays alive for this time.
    trial.hurry(ALIVE);
    // The holder has crashed: only the newcomer's request can grant the key.
    let granted = trial.until("another holder", async || {
        let seen = trial.busy_once(newcomer).await?;
        Ok(if seen.fence > first {
            Ok(seen.fence)
        } else {
            Err(seen)
        })
    });
    let granted = granted.await?;
    expect_eq(
        trial.granted(waiter, TTL).await?,
        granted,
        "as the waiter's fence",
    )?;
    trial.release_all([waiter]).await
}

pub(super) async fn a_renewal_sets_the_label<S: LockStore>(trial: &Trial<'_, S>) -> Outcome {
    let [holder, next, asker] = owners();
    trial.granted(holder, TTL).await?;
    trial.hurry(ALIVE);
    trial.busy(next).await?;
    trial.release(holder).await?;
    let seen = trial.busy(asker).await?;
    expect_eq(seen.label, None, "as the label of a lease that was granted")?;
    for (label, shown) in [("", None), (LABEL, Some(LABEL)), ("", Some(LABEL))] {
        let answer = trial
            .store
            .renew_one(trial.renewal(next, TTL).label(label))
            .await;
        expect_eq(
            answer,
            Ok(Renewal::Renewed),
            "for the waiter that was granted the key",
        )?;
        let seen = trial.busy(asker).await?;
        let of = format!("as the label after a renewal with {label:?}");
        expect_eq(seen.label.as_deref(), shown, &of)?;
        expect(
            seen.ttl > Some(GRANT_TTL),
            "the TTL of the renewal",
            seen.ttl,
        )?;
    }
    let strangers = trial.renewal(holder, TTL).label("x");
    let answer = trial.store.renew_one(strangers).await;
    expect_eq(answer, Ok(Renewal::NotOwner), "for the last holder")
        .map_err(promise("another owner's request was carried out"))?;
    let seen = trial.busy(asker).await?;
    expect_eq(seen.label.as_deref(), Some(LABEL), "as the label")?;
    trial.release_all([asker, next]).await
}

/// A hint may be lost, for example before a subscription is established. One of many is enough.
pub(super) async fn a_granted_waiter_gets_a_hint<S: LockStore>(trial: &Trial<'_, S>) -> Outcome {
    let ((client, heard), (_, unheard)) = (trial.listen()?, trial.listen()?);
    let begun = Instant::now();
    for attempt in 1.. {
        let (holder, waiter) = (owner(), OwnerId::new(client, attempt));
        trial.granted(holder, TTL).await?;
        trial.hurry(ALIVE);
        trial.busy(waiter).await?;
        trial.release(holder).await?;
        let fence = match trial.ask(waiter, TTL, Queue::ForLease).await? {
            AcquireOutcome::Granted { fence, .. } => fence,
            other => return expect(false, "a waiter that was made the holder", other),
        };
        heard.wait_for(waiter).await;
        trial.release(waiter).await?;
        if let Some(hint) = heard.hint_for(waiter) {
            // Without a fence, the hint only makes the waiter send a request.
            let told = if hint.2 == 0 { 0 } else { fence };
            let expected = (trial.key.to_string(), waiter, told);
            expect_eq(hint, expected, "as key, owner and fence of the hint")?;
            break;
        }
        if begun.elapsed() >= trial.terms.limit / 2 {
            return Err(Broken::new(
                "a hint for a waiter that was granted the key",
                "none",
            ));
        }
    }
    let unheard = unheard.all();
    expect(unheard.is_empty(), "no hint for another manager", unheard)
}
