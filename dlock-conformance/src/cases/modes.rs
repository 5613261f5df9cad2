//! Shared locks and permits, of stores whose properties list them.

use dlock_runtime::{
    LockMode,
    store::{ALIVE, AcquireOutcome, LockStore, OwnerId, Queue, Released, Renewal},
};
use tokio::time::{Instant, sleep};

use crate::{
    Outcome,
    trial::{Broken, TTL, Trial, expect, expect_eq, fence_of, holder_of, owner, owners, promise},
};

const EXCLUSIVE: LockMode = LockMode::Exclusive;
const SHARED: LockMode = LockMode::Shared;
const TWO: LockMode = LockMode::Permits(2);

impl<S: LockStore> Trial<'_, S> {
    fn supports(&self, mode: LockMode) -> bool {
        self.store.properties().modes.contains(mode)
    }

    /// Returns the fence of a grant in this mode.
    async fn joins(&self, owner: OwnerId, mode: LockMode) -> Result<u64, Broken> {
        fence_of(self.ask_in(mode, owner, TTL, Queue::ForLease).await?)
    }

    /// Expects that the owner does not hold the key. From now on it waits.
    async fn waits(&self, owner: OwnerId, mode: LockMode) -> Outcome {
        holder_of(self.ask_in(mode, owner, TTL, Queue::ForLease).await?).map(drop)
    }

    /// The same for an owner that could hold the key together with its holders, but comes behind another waiter.
    async fn waits_behind(&self, owner: OwnerId, mode: LockMode) -> Outcome {
        let waits = self.waits(owner, mode).await;
        waits.map_err(Broken::kept_promises)
    }

    /// Expects that no other owner gets in, in this mode.
    async fn is_closed_to(&self, mode: LockMode) -> Outcome {
        holder_of(self.ask_in(mode, owner(), TTL, Queue::No).await?).map(drop)
    }

    /// Expects that the owner holds the key, whether by a request or by a grant.
    async fn holds(&self, owner: OwnerId, mode: LockMode) -> Outcome {
        let renewal = self.renewal(owner, TTL).mode(mode);
        let answer = self.store.renew_one(renewal).await;
        expect_eq(answer, Ok(Renewal::Renewed), "for a holder")
    }

    async fn all_leave(&self, owners: &[OwnerId], mode: LockMode) -> Outcome {
        for owner in owners {
            self.release_in(mode, *owner).await?;
        }
        Ok(())
    }
}

pub(super) async fn shared_holders_hold_together<S: LockStore>(trial: &Trial<'_, S>) -> Outcome {
    if !trial.supports(SHARED) {
        return Ok(());
    }
    let [before, one, other, after] = owners();
    let first = trial.granted(before, TTL).await?;
    trial.is_closed_to(SHARED).await?;
    trial.release(before).await?;
    let epoch = trial.joins(one, SHARED).await?;
    expect(epoch > first, "a fence greater than the one before", epoch)
        .map_err(promise("the fence did not grow"))?;
    let joined = trial.joins(other, SHARED).await?;
    if trial.store.properties().grants {
        expect_eq(joined, epoch, "as the fence of all who hold together")
            .map_err(promise("two fences together"))?;
        let seen = trial.busy_once(after).await?;
        expect_eq(seen.others, 1, "as the number of other holders")?;
    }
    trial.is_closed_to(EXCLUSIVE).await?;
    let again = trial.joins(one, SHARED).await?;
    expect_eq(again, epoch, "as the fence of a repeated request")
        .map_err(promise("the owner has another lease than before"))?;
    trial.all_leave(&[one, other], SHARED).await?;
    let last = trial.granted(after, TTL).await?;
    expect(
        last > epoch.max(joined),
        "a fence greater than theirs",
        last,
    )
    .map_err(promise("the fence did not grow"))?;
    trial.release_all([after]).await
}

pub(super) async fn permits_are_counted<S: LockStore>(trial: &Trial<'_, S>) -> Outcome {
    if !trial.supports(TWO) {
        return Ok(());
    }
    let [one, other, third] = owners();
    trial.joins(one, TWO).await?;
    trial.is_closed_to(LockMode::Permits(1)).await?;
    trial.joins(other, TWO).await?;
    trial.is_closed_to(TWO).await?;
    trial.is_closed_to(EXCLUSIVE).await?;
    trial.joins(third, LockMode::Permits(3)).await?;
    trial.all_leave(&[one, other], TWO).await?;
    trial.joins(one, TWO).await?;
    trial.is_closed_to(TWO).await?;
    trial.all_leave(&[one, third], TWO).await
}

pub(super) async fn a_release_of_one_holder_keeps_the_others<S: LockStore>(
    trial: &Trial<'_, S>,
) -> Outcome {
    if !trial.supports(SHARED) {
        return Ok(());
    }
    let [one, other, stranger] = owners();
    trial.joins(one, SHARED).await?;
    trial.joins(other, SHARED).await?;
    let gone = trial.release_in(SHARED, stranger).await?;
    expect_eq(gone, Released::WasGone, "of a stranger")
        .map_err(promise("another owner's request was carried out"))?;
    for (owner, expected) in [(one, Released::WasHeld), (one, Released::WasGone)] {
        expect_eq(trial.release_in(SHARED, owner).await?, expected, "of one")?;
        trial.holds(other, SHARED).await?;
        trial.is_closed_to(EXCLUSIVE).await?;
    }
    let renewal = trial.renewal(one, TTL).mode(SHARED);
    let answer = trial.store.renew_one(renewal).await;
    expect_eq(answer, Ok(Renewal::NotOwner), "for one that has left")
        .map_err(promise("a lease that had ended came back"))?;
    trial.all_leave(&[other], SHARED).await
}

pub(super) async fn each_holder_expires_by_itself<S: LockStore>(trial: &Trial<'_, S>) -> Outcome {
    if !trial.supports(TWO) {
        return Ok(());
    }
    let [stays, dies, next] = owners();
    trial.joins(stays, TWO).await?;
    let begun = Instant::now();
    fence_of(
        trial
            .ask_in(TWO, dies, trial.terms.brief, Queue::No)
            .await?,
    )?;
    if let AcquireOutcome::Busy(seen) = trial.ask_in(TWO, next, TTL, Queue::ForLease).await? {
        // A store may leave out a lease that has ended.
        let has_ended = begun.elapsed() >= trial.terms.brief;
        let is_first_end = seen
            .ttl
            .is_none_or(|ttl| ttl <= trial.terms.brief || has_ended);
        expect(is_first_end, "the TTL of the first lease to end", &seen)?;
    }
    let granted = trial.until("a permit of the dead", async || {
        let answer = trial.ask_in(TWO, next, TTL, Queue::ForLease).await?;
        Ok(match answer {
            AcquireOutcome::Granted { .. } => Ok(()),
            other => Err(other),
        })
    });
    granted.await?;
    trial.holds(stays, TWO).await?;
    // A late renewal must not bring back a third.
    let late = trial
        .store
        .renew_one(trial.renewal(dies, TTL).mode(TWO))
        .await;
    expect_eq(late, Ok(Renewal::NotOwner), "for the dead")
        .map_err(promise("a lease that had ended came back"))?;
    let gone = trial.release_in(TWO, dies).await?;
    expect_eq(gone, Released::WasGone, "of the dead")?;
    trial.is_closed_to(TWO).await?;
    trial.all_leave(&[stays, next], TWO).await
}

pub(super) async fn the_key_lasts_as_long_as_its_last_holder<S: LockStore>(
    trial: &Trial<'_, S>,
) -> Outcome {
    if !trial.supports(SHARED) {
        return Ok(());
    }
    let [stays, dies] = owners();
    trial.joins(stays, SHARED).await?;
    fence_of(
        trial
            .ask_in(SHARED, dies, trial.terms.brief, Queue::No)
            .await?,
    )?;
    sleep(2 * trial.terms.brief).await;
    // First of all: a request for the key may remove what has expired.
    let renewal = trial.renewal(dies, TTL).mode(SHARED);
    let answer = trial.store.renew_one(renewal).await;
    expect_eq(answer, Ok(Renewal::NotOwner), "for an expired lease")
        .map_err(promise("a lease that had ended came back"))?;
    trial.holds(stays, SHARED).await?;
    trial.is_closed_to(EXCLUSIVE).await?;
    trial.all_leave(&[stays], SHARED).await
}

pub(super) async fn one_queue_serves_all_modes<S: LockStore>(trial: &Trial<'_, S>) -> Outcome {
    if !trial.supports(SHARED) {
        return Ok(());
    }
    let [reader, writer, late] = owners();
    let epoch = trial.joins(reader, SHARED).await?;
    trial.hurry(ALIVE);
    trial.waits(writer, EXCLUSIVE).await?;
    trial.waits_behind(late, SHARED).await?;
    let stranger = trial.is_closed_to(SHARED).await;
    stranger.map_err(Broken::kept_promises)?;
    trial.release_in(SHARED, reader).await?;
    let fence = trial.granted(writer, TTL).await?;
    expect(fence > epoch, "a fence greater than the readers'", fence)
        .map_err(promise("the fence did not grow"))?;
    trial.waits(late, SHARED).await?;
    trial.release(writer).await?;
    trial.holds(late, SHARED).await?;
    let next = trial.joins(late, SHARED).await?;
    expect(next > fence, "a fence greater than the writer's", next)
        .map_err(promise("the fence did not grow"))?;
    trial.all_leave(&[late], SHARED).await?;

    // A lease that has expired: the first waiter holds the key, although another one has come for it.
    trial.hurry(trial.terms.brief);
    fence_of(
        trial
            .ask_in(EXCLUSIVE, reader, trial.terms.brief, Queue::No)
            .await?,
    )?;
    trial.waits(writer, EXCLUSIVE).await?;
    trial.calm()?;
    trial.hurry(ALIVE);
    sleep(trial.terms.brief + trial.terms.brief / 4).await;
    // A lease may end somewhat later than its TTL.
    let held = trial.until("the first waiter as the holder", async || {
        trial.waits(late, SHARED).await?;
        let renewal = trial.renewal(writer, TTL).mode(EXCLUSIVE);
        let answer = trial.store.renew_one(renewal).await;
        Ok(match answer {
            Ok(Renewal::Renewed) => Ok(()),
            other => Err(other),
        })
    });
    held.await?;
    trial.calm()?;
    trial.release(writer).await?;
    trial.all_leave(&[late], SHARED).await
}

pub(super) async fn a_release_grants_all_that_may_hold_together<S: LockStore>(
    trial: &Trial<'_, S>,
) -> Outcome {
    if !trial.supports(TWO) {
        return Ok(());
    }
    let [holder, one, other, third, writer, last] = owners();
    trial.hurry(ALIVE);
    trial.granted(holder, TTL).await?;
    trial.waits(one, TWO).await?;
    trial.waits(other, SHARED).await?;
    trial.waits(third, TWO).await?;
    trial.waits(writer, EXCLUSIVE).await?;
    trial.waits(last, SHARED).await?;
    trial.release(holder).await?;
    trial.holds(one, TWO).await?;
    trial.holds(other, SHARED).await?;
    trial.calm()?;
    trial.hurry(ALIVE);
    trial.waits(third, TWO).await?;
    trial.waits(writer, EXCLUSIVE).await?;
    trial.waits_behind(last, SHARED).await?;
    trial.release_in(SHARED, other).await?;
    trial.holds(third, TWO).await?;
    trial.all_leave(&[one, third], TWO).await?;
    trial.granted(writer, TTL).await?;
    trial.release(writer).await?;
    trial.joins(last, SHARED).await?;
    trial.all_leave(&[last], SHARED).await
}

pub(super) async fn a_waiter_that_leaves_lets_in_those_behind_it<S: LockStore>(
    trial: &Trial<'_, S>,
) -> Outcome {
    if !trial.supports(SHARED) {
        return Ok(());
    }
    let [reader, writer, late] = owners();
    trial.joins(reader, SHARED).await?;
    trial.hurry(ALIVE);
    trial.waits(writer, EXCLUSIVE).await?;
    trial.waits_behind(late, SHARED).await?;
    trial.release(writer).await?;
    trial.holds(late, SHARED).await?;
    trial.all_leave(&[reader, late], SHARED).await
}

/// A hint may be lost, for example before a subscription is established. One of many is enough.
pub(super) async fn a_grant_beside_other_holders_has_a_number<S: LockStore>(
    trial: &Trial<'_, S>,
) -> Outcome {
    if !trial.supports(TWO) {
        return Ok(());
    }
    let (client, heard) = trial.listen()?;
    let begun = Instant::now();
    let stays = owner();
    let epoch = trial.joins(stays, TWO).await?;
    for attempt in 1.. {
        let (holder, waiter) = (owner(), OwnerId::new(client, attempt));
        trial.joins(holder, TWO).await?;
        trial.hurry(ALIVE);
        let answer = trial.ask_in(TWO, waiter, TTL, Queue::ForLease).await?;
        let known = holder_of(answer)?.last_fence;
        trial.release_in(TWO, holder).await?;
        trial.holds(waiter, TWO).await?;
        let newer = trial.ask_in(TWO, owner(), TTL, Queue::No).await?;
        let newer = holder_of(newer)?.last_fence;
        heard.wait_for(waiter).await;
        trial.release_in(TWO, waiter).await?;
        if let Some((_, _, fence)) = heard.hint_for(waiter) {
            let number = heard.number_for(waiter).unwrap_or_default();
            // Without a fence, the hint only makes the waiter send a request.
            if fence > 0 {
                expect_eq(fence, epoch, "as the fence of all who hold together")
                    .map_err(promise("two fences together"))?;
                let dates = known < number && number <= newer;
                expect(
                    dates,
                    "a number that dates the grant",
                    (known, number, newer),
                )?;
            }
            break;
        }
        if begun.elapsed() >= trial.terms.limit / 2 {
            return Err(Broken::new("a hint for a waiter that joins others", "none"));
        }
    }
    trial.all_leave(&[stays], TWO).await
}
