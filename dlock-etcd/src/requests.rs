//! The requests of a store: acquire. `wait.rs`, `settle.rs`, `renew.rs` and `release.rs` have the rest.
//!
//! # Rules
//!
//! - **Safety.** A grant is answered only when the claim's key has a lease of the requested TTL that was made or kept alive
//!   after the request began, or just before: `leases.rs` has the limit.
//! - **Safety.** A change of a claim's key compares the revision of its last change, and a deletion that of its creation. A
//!   request that arrives late finds the key gone or changed, and has no effect: `release.rs` sees to it that no key of an
//!   owner that asks again outlasts its deletion. (`a_key_that_has_another_lease_gets_one_of_its_own_before_it_is_renewed`)
//! - **Safety.** The request that creates a key names a lease. If it got no answer, the release ends that lease, so the
//!   request can create nothing later. (`a_request_that_arrives_after_the_release_has_no_effect`)
//! - A waiter's key has the lease of all waiters of its process, see `places.rs`. A grant is answered only with a lease of
//!   the claim's own.

use std::{sync::Arc, time::Duration};

use dlock_runtime::{
    clock::{Clock, Moment, SystemClock},
    store::{
        AcquireOutcome, AcquireRequest, OwnerId, Queue as Queueing, StoreError, StoreErrorKind,
    },
};

use crate::{
    base,
    claims::{Claim, Place},
    conn::Conn,
    core::{Core, ROUNDS, Wish, word},
    errors, holder,
    keys::{Stage, Value},
    names::Names,
    ops,
    places::WAITING,
    proto::{Answer, KeyValue, TxnRequest},
    queue::{self, Entry, Epoch, Queue},
    raise,
    release::{End, recall},
    settle::run,
};

impl Core {
    pub(crate) async fn acquire(
        &self,
        request: AcquireRequest<'_>,
    ) -> Result<AcquireOutcome, StoreError> {
        let asked = SystemClock.now();
        let seconds = seconds(request.ttl);
        let names = self.names(request.key.as_str(), request.owner);
        let wish = Wish {
            seconds,
            label: request.label,
            function: request.function,
        };
        // A waiter is not silent while the connection is away.
        self.follow
            .with(request.key, |it| it.ask_again(request.owner, asked));
        // A release without a caller comes first.
        let mut departing = self.departing.subscribe();
        departing.wait_for(|count| *count == 0).await.ok();
        let conn = self.session.nearest().await?;
        let mut claim = self.claims.enter(request.key, request.owner).await;
        // A claim that was forgotten may still get its place, which has the name of the owner.
        let waits = self
            .follow
            .with(request.key, |it| it.lease_of(request.owner));
        recall(&mut claim, waits.flatten());
        let was_empty = claim.is_empty();
        let acquired = self.attempt(&conn, &mut claim, &names, (wish, request), asked);
        let acquired = acquired.await;
        claim.publish();
        if matches!(acquired, Ok(AcquireOutcome::Granted { .. })) || claim.is_empty() {
            self.follow.leave(request.key, request.owner);
        }
        match &acquired {
            // The last step had no effect, but one before it had.
            Err(error) if was_empty && !claim.is_empty() && error.has_no_effect() => {
                return Err(errors::with_effect(error));
            }
            _ => {}
        }
        acquired
    }

    async fn attempt(
        &self,
        conn: &Arc<Conn>,
        claim: &mut Claim,
        names: &Names,
        (wish, request): (Wish<'_>, AcquireRequest<'_>),
        asked: Moment,
    ) -> Result<AcquireOutcome, StoreError> {
        if claim.is_ending {
            // A deletion of its place may still arrive.
            let id = (request.key, request.owner);
            self.end(conn, claim, names, id, End::Displaced).await?;
        }
        for _ in 0..ROUNDS {
            if claim.place.is_none() && !claim.unsettled.is_empty() {
                self.adopt(conn, claim, names, request.owner).await?;
            }
            if claim.place.is_none() && claim.named_by.is_some() {
                // Its key is not there, but may be created. From now on the claim may have another name.
                let id = (request.key, request.owner);
                self.end(conn, claim, names, id, End::Displaced).await?;
            }
            if request.queue == Queueing::ForLease {
                let waits = self.still_waits(conn, claim, names, request, asked);
                if let Some(outcome) = waits.await? {
                    return Ok(outcome);
                }
            }
            let outcome = if claim.place.is_some() {
                self.again(conn, claim, names, (wish, request), asked)
                    .await?
            } else {
                self.first(conn, claim, names, wish, request).await?
            };
            if let Some(outcome) = outcome {
                return Ok(outcome);
            }
        }
        let text = "the claims on the key changed with every attempt; it is repeated";
        Err(StoreError::new(StoreErrorKind::Refused, text).without_effect())
    }

    /// Finds out what a request without an answer has done.
    pub(crate) async fn adopt(
        &self,
        conn: &Conn,
        claim: &mut Claim,
        names: &Names,
        owner: OwnerId,
    ) -> Result<(), StoreError> {
        let own = names.own(claim.named_by);
        let answer = conn.read(&ops::read(vec![ops::get(&own)])).await?;
        // A restored snapshot may have brought back the key of an earlier claim with this name.
        let is_own =
            |kv: &&KeyValue| claim.named_by.is_none() || Entry::read(kv).owner == Some(owner);
        if let Some(kv) = ops::keys_of(&answer, 0)?.first().filter(is_own) {
            claim.place = Some(self.adopted(kv)?);
        }
        Ok(())
    }

    /// The request of a claim whose key is there. `None` if it has to be looked at again.
    async fn again(
        &self,
        conn: &Arc<Conn>,
        claim: &mut Claim,
        names: &Names,
        (wish, request): (Wish<'_>, AcquireRequest<'_>),
        asked: Moment,
    ) -> Result<Option<AcquireOutcome>, StoreError> {
        let Some((queue, revision, seen)) = self.look(conn, claim, names).await? else {
            return Ok(None);
        };
        let place = claim.place.as_ref();
        let lease = place.map(|place| place.lease);
        let held = place
            .filter(|place| place.lease.seconds == wish.seconds)
            .and_then(|place| place.held);
        if let Some(fence) = held {
            return Ok(Some(AcquireOutcome::granted(fence)));
        }
        let own = names.own(claim.named_by);
        let id = (request.key, request.owner);
        if queue.holds(&own) {
            let fence = self.settle(conn, claim, names, (id, queue), wish).await?;
            return Ok(fence.map(AcquireOutcome::granted));
        }
        if request.queue != Queueing::ForLease {
            let holder = holder::find(conn, &queue, Some(&own), request.mode).await;
            return Ok(Some(AcquireOutcome::busy(holder)));
        }
        match lease {
            Some(lease) if lease.is_shared => {
                let known = (queue, revision);
                self.follow.wait(id, lease.id, known, seen, asked);
            }
            // It is not known for how long a lease that another program has put there lasts.
            _ => drop(self.end(conn, claim, names, id, End::Displaced).await?),
        }
        Ok(None)
    }

    /// Keeps the lease of a claim's key alive and reads the queue. Returns the queue, its revision, and the moment before the
    /// request. `None`, and no place, if the key is gone.
    pub(crate) async fn look(
        &self,
        conn: &Conn,
        claim: &mut Claim,
        names: &Names,
    ) -> Result<Option<(Queue, i64, Moment)>, StoreError> {
        let request = ops::read(vec![ops::get_all(&names.all)]);
        let name = names.own(claim.named_by);
        for _ in 0..ROUNDS {
            let Some(place) = claim.place.as_ref() else {
                return Ok(None);
            };
            let (lease, asked) = (place.lease, SystemClock.now());
            let create = place.create;
            claim.lasts(asked.monotonic, lease.seconds.max(WAITING));
            let (exist, answer) = conn.confirm_read(&[lease.id], &request).await?;
            let (kvs, revision) = ops::read_of(&answer, 0)?;
            let queue = Queue::read(kvs);
            let own = queue.get(&name);
            let own = own.filter(|own| own.create == create);
            match (own, claim.place.as_mut()) {
                (Some(own), Some(place)) if own.lease != lease.id => {
                    // An earlier request without an answer has given it another lease.
                    place.moved_to(self.places.lease(own.lease));
                }
                (Some(_), Some(place)) if exist == [true] => {
                    place.since = asked;
                    self.places.kept(lease.id, asked);
                    return Ok(Some((queue, revision, asked)));
                }
                _ => claim.place = None,
            }
        }
        Ok(None)
    }

    /// The request of a claim without a key. `None` if it has to be looked at again.
    async fn first(
        &self,
        conn: &Arc<Conn>,
        claim: &mut Claim,
        names: &Names,
        wish: Wish<'_>,
        request: AcquireRequest<'_>,
    ) -> Result<Option<AcquireOutcome>, StoreError> {
        // The claims that are known, and when they were all there were.
        let (mut queue, mut known) = (Queue::default(), 0);
        for _ in 0..ROUNDS {
            let base = raise::current(conn).await?;
            let epoch = queue.epoch(&names.by_owner);
            let seen = SystemClock.now();
            let taken = self.leases.take(conn, wish.seconds, seen).await?;
            let lease = taken.lease;
            // A request for a place that got no answer may still create a key with the name of the owner.
            let is_named = claim.is_empty();
            claim.named_by = is_named.then_some(lease.id);
            let own = names.own(claim.named_by);
            let value = Value {
                base: base.value,
                mode: request.mode,
                epoch: epoch.as_ref().map(Epoch::fence),
                label: word(wish.label),
                function: word(wish.function),
                stage: Stage::holds_now(),
                owner: is_named.then_some(request.owner),
            };
            // The key of the claim itself is one of `all`.
            let mut compare = vec![
                base.is_unchanged(&self.config.namespace),
                ops::none_after(&names.all, known),
            ];
            // A restored snapshot may have brought back a key that this lease names, among those that were read.
            compare.extend((known > 0).then(|| ops::is_created_at(&own, 0)));
            compare.extend(epoch.as_ref().and_then(Epoch::is_unchanged));
            let txn = TxnRequest {
                compare,
                success: vec![ops::put(&own, value.to_bytes(), lease.id)],
                failure: vec![
                    base::read_op(&self.config.namespace),
                    ops::get_all(&names.all),
                ],
            };
            let ran = run(conn, claim, &taken, txn).await;
            if taken.is_fresh && ran.as_ref().is_err_and(StoreError::has_no_effect) {
                self.leases.give(lease, taken.since);
            }
            let Some((exists, answer)) = ran? else {
                continue;
            };
            if answer.succeeded {
                let create = answer.header().revision;
                self.follow.with(request.key, |it| it.wrote(create));
                let fence = value
                    .epoch
                    .unwrap_or_else(|| queue::fence(value.base, create));
                return Ok(claim.placed(&taken, exists, create, &value).then(|| {
                    let place = claim.place.as_mut().expect("it was placed");
                    place.held = Some(fence);
                    AcquireOutcome::granted(fence)
                }));
            }
            // No key has been created, and a claim that waits has another name.
            claim.named_by = None;
            let kvs = ops::keys_of(&answer, 1)?;
            // Used again, it would keep the key alive that it names.
            let names_another = is_named && kvs.iter().any(|kv| kv.key == own);
            self.give_back(&taken, exists && !names_another);
            raise::note(conn, base::of_answer(&answer, 0)?);
            if let Some(own) = kvs.iter().find(|kv| kv.key == names.by_owner) {
                claim.place = Some(self.adopted(own)?);
                return Ok(None);
            }
            queue = Queue::read(kvs);
            known = answer.header().revision;
            if queue.admits(request.mode) {
                continue;
            }
            if request.queue == Queueing::ForLease {
                let (ask, found) = ((wish, request), (queue, known, seen));
                return self.enqueue(claim, names, ask, found).await;
            }
            let holder = holder::find(conn, &queue, None, request.mode).await;
            return Ok(Some(AcquireOutcome::busy(holder)));
        }
        Ok(None)
    }

    /// The place of a key whose creation got no answer.
    fn adopted(&self, kv: &KeyValue) -> Result<Place, StoreError> {
        let value = Value::read(&kv.value).ok_or_else(|| {
            let name = String::from_utf8_lossy(&kv.key);
            errors::bad_answer(&format!(
                "`{name}` was written by another program; delete that key"
            ))
        })?;
        Ok(Place {
            create: kv.create_revision,
            base: value.base,
            mode: value.mode,
            lease: self.places.lease(kv.lease),
            held: None,
            label: value.label,
            function: value.function,
            since: SystemClock.now(),
        })
    }
}

/// A part of a second is not cut off.
pub(crate) fn seconds(ttl: Duration) -> i64 {
    let seconds = ttl.as_secs() + u64::from(ttl.subsec_nanos() > 0);
    i64::try_from(seconds).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
