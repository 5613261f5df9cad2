//! The request that ends a claim.
//!
//! # Rules
//!
//! - **Safety.** The request that ends a claim may get no answer, and arrive late. It deletes the key only with the create
//!   revision that it was sent for. If the owner asks again, that end is repeated until it is answered, before anything else
//!   is done: from then on no key of that revision exists.
//!   (`a_deletion_that_arrives_late_does_not_end_a_lease_of_a_waiter_that_came_back`)
//! - A claim that was forgotten is ended as one whose request for a place got no answer, as long as its waiter is followed.
//!   (`the_place_of_a_forgotten_claim_ends_with_its_waiter`)

use dlock_runtime::{
    LockKey,
    store::{OwnerId, ReleaseRequest, Released, StoreError, StoreErrorKind},
};

use crate::{
    claims::{Claim, Place},
    conn::{Conn, Failure},
    core::{Core, ROUNDS},
    followed::Followed,
    keys,
    names::Names,
    ops,
    places::shared,
    proto::{Answer, TxnRequest, TxnResponse},
    queue::Queue,
};

/// The reason for which a claim ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Its owner has released it, and never asks again.
    Released,
    /// Its place is of no use. The owner may ask again.
    Displaced,
}

/// The findings of a deletion.
struct Ended {
    /// The revision, if the key of the claim was there.
    deleted_at: Option<i64>,
    /// The queue before, if it was read.
    queue: Option<Queue>,
    /// The key that was deleted is the one that was known to hold.
    is_known: bool,
}

impl Core {
    pub(crate) async fn release(
        &self,
        request: ReleaseRequest<'_>,
    ) -> Result<Released, StoreError> {
        let (key, owner) = (request.key, request.owner);
        // The place is still followed: if this request fails, a beat deletes it.
        let waits = self.follow.with(key, |followed| {
            followed.quit(owner);
            followed.lease_of(owner)
        });
        let lease = waits.flatten();
        if lease.is_none() && self.claims.is_unknown(key, owner) {
            return Ok(Released::WasGone);
        }
        let names = self.names(key.as_str(), owner);
        let conn = self.session.nearest().await?;
        let mut claim = self.claims.enter(key, owner).await;
        recall(&mut claim, lease);
        let id = (key, owner);
        let released = self.end(&conn, &mut claim, &names, id, End::Released).await;
        if released.is_err() {
            // An acquire request that was under way may have asked for a hint.
            self.follow.with(key, |followed| followed.quit(owner));
        }
        claim.publish();
        released
    }

    /// Deletes the key of a claim, and sees to it that no request that is under way creates it again.
    pub(crate) async fn end(
        &self,
        conn: &Conn,
        claim: &mut Claim,
        names: &Names,
        (key, owner): (&LockKey, OwnerId),
        end: End,
    ) -> Result<Released, StoreError> {
        if claim.is_empty() {
            claim.is_ending = false;
            claim.named_by = None;
            self.follow.leave(key, owner);
            return Ok(Released::WasGone);
        }
        let place = claim.place.clone();
        let own = names.own(claim.named_by);
        let is_settled = claim.unsettled.is_empty();
        let is_known = |place: &Place| {
            let was_told = |followed: &mut Followed| followed.has_seen_held(&own, place.create);
            place.held.is_some() || self.follow.with(key, was_told) == Some(true)
        };
        let was_known = is_settled && place.as_ref().is_some_and(is_known);
        let shared = claim.unsettled.iter().filter(|lease| lease.is_shared);
        let gates: Vec<_> = shared
            .map(|lease| keys::gate(&self.config.namespace, lease.id))
            .collect();
        let was_ending = claim.is_ending;
        claim.is_ending |= end == End::Displaced;
        // A key with the lease's name and another revision is not that of this claim.
        let is_only = is_settled && claim.named_by.is_some();
        let deleted = self.delete(
            conn,
            (&own, names),
            place.as_ref(),
            (was_known, is_only),
            &gates,
        );
        let ended = match deleted.await {
            Err(failure) if failure.is_full && end == End::Released => {
                claim.is_bare = true;
                end_one_by_one(conn, (&own, names), &gates, was_known).await?
            }
            Err(failure) => {
                // Refused, it arrives no more.
                claim.is_ending &= was_ending || !failure.error.has_no_effect();
                return Err(failure.error);
            }
            Ok(ended) => ended,
        };
        if let Some(revision) = ended.deleted_at {
            self.follow.with(key, |followed| followed.wrote(revision));
        }
        let holds = |queue: Option<Queue>| queue.is_some_and(|queue| queue.holds(&own));
        let was_held = ended.deleted_at.is_some() && (ended.is_known || holds(ended.queue));
        while let Some(lease) = claim.unsettled.last().copied() {
            // A request that names it may still arrive.
            if lease.is_shared {
                self.places.close(lease.id);
            } else {
                conn.revoke(lease.id).await?;
            }
            claim.settled(lease);
        }
        match place {
            Some(place) if is_settled && ended.deleted_at.is_some() => {
                // A deletion that arrives late would end the next claim with this name.
                let is_spent = claim.is_bare && claim.named_by == Some(place.lease.id);
                if !is_spent {
                    self.leases.give(place.lease, place.since);
                }
            }
            Some(place) if !is_settled && !place.lease.is_shared => {
                conn.revoke(place.lease.id).await?;
            }
            _ => {}
        }
        claim.place = None;
        claim.named_by = None;
        claim.is_bare = false;
        claim.is_ending = false;
        self.follow.leave(key, owner);
        Ok(if was_held {
            Released::WasHeld
        } else {
            Released::WasGone
        })
    }

    /// Deletes the key of a claim by its create revision, and the gates in the same transaction. With `is_known`, the queue
    /// need not be read for whether the claim held. With `is_only`, no other revision is deleted.
    async fn delete(
        &self,
        conn: &Conn,
        (own, names): (&[u8], &Names),
        place: Option<&Place>,
        (mut is_known, is_only): (bool, bool),
        gates: &[Vec<u8>],
    ) -> Result<Ended, Failure> {
        let mut create = place.map_or(0, |place| place.create);
        let is_gone = |is_known| Ended {
            deleted_at: None,
            queue: None,
            is_known,
        };
        if create == 0 && gates.is_empty() {
            // The key of a request without an answer, if it is there. With nothing to delete, a transaction would only read.
            let answer = conn.read(&ops::read(vec![ops::get(own)])).await?;
            create = created(&answer)?;
            if create == 0 {
                return Ok(is_gone(is_known));
            }
        }
        for _ in 0..ROUNDS {
            let is_read = create != 0 && !is_known;
            // Its value is read before it is deleted.
            let mut success: Vec<_> = is_read
                .then(|| ops::get_all(&names.all))
                .into_iter()
                .collect();
            success.extend((create != 0).then(|| ops::delete(own)));
            success.extend(gates.iter().map(|gate| ops::delete(gate)));
            let txn = TxnRequest {
                compare: vec![ops::is_created_at(own, create)],
                success,
                failure: (!is_only).then(|| ops::get(own)).into_iter().collect(),
            };
            let answer = conn.txn(txn).await?;
            let read = |index| ops::keys_of(&answer, index).map_err(Failure::new);
            if answer.succeeded {
                let queue = is_read.then(|| read(0).map(Queue::read));
                return Ok(Ended {
                    deleted_at: (create != 0).then(|| answer.header().revision),
                    queue: queue.transpose()?,
                    is_known,
                });
            }
            if is_only {
                return Ok(is_gone(is_known));
            }
            // Of a request without an answer; 0 if there is none, and then its gate is still to be deleted.
            create = created(&answer)?;
            is_known = false;
            if create == 0 && gates.is_empty() {
                return Ok(is_gone(is_known));
            }
        }
        let text = "the key of the claim changed with every attempt; it is repeated";
        Err(Failure::new(StoreError::new(StoreErrorKind::Refused, text)))
    }
}

/// The create revision of the key that a request has read; 0 if it is not there.
fn created(answer: &TxnResponse) -> Result<i64, Failure> {
    let found = ops::keys_of(answer, 0).map_err(Failure::new)?;
    Ok(found.first().map_or(0, |found| found.create_revision))
}

/// Notes the lease of a waiter whose claim was forgotten: its key may still be there.
pub(crate) fn recall(claim: &mut Claim, lease: Option<i64>) {
    if claim.is_empty()
        && let Some(id) = lease
    {
        claim.named_by = None;
        claim.doubt(shared(id));
    }
}

/// The same by requests that a full database of an old version does not refuse. They compare nothing. The name is that of no
/// other claim: `names.rs`.
async fn end_one_by_one(
    conn: &Conn,
    (own, names): (&[u8], &Names),
    gates: &[Vec<u8>],
    is_known: bool,
) -> Result<Ended, StoreError> {
    for gate in gates {
        conn.delete(gate).await?;
    }
    let queue = if is_known {
        None
    } else {
        let answer = conn
            .read(&ops::read(vec![ops::get_all(&names.all)]))
            .await?;
        Some(Queue::read(ops::keys_of(&answer, 0)?))
    };
    let (was_there, revision) = conn.delete(own).await?;
    Ok(Ended {
        deleted_at: was_there.then_some(revision),
        queue,
        is_known,
    })
}

#[cfg(test)]
mod tests;
