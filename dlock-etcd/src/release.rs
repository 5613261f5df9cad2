//! The request that ends a claim.

use dlock_runtime::{
    LockKey,
    store::{OwnerId, ReleaseRequest, Released, StoreError},
};

use crate::{
    claims::Claim,
    conn::Conn,
    keys, ops,
    proto::{Answer, TxnRequest},
    queue::Queue,
    requests::{Core, Names},
};

/// The findings of a deletion.
struct Ended {
    /// The revision, if the key of the claim was there.
    deleted_at: Option<i64>,
    /// The queue before, if it was read.
    queue: Option<Queue>,
}

impl Core {
    pub(crate) async fn release(
        &self,
        request: ReleaseRequest<'_>,
    ) -> Result<Released, StoreError> {
        let (key, owner) = (request.key, request.owner);
        // The place is still followed: if this request fails, a beat deletes it.
        self.follow.with(key, |followed| followed.quit(owner));
        if self.claims.is_unknown(key, owner) {
            self.follow.leave(key, owner);
            return Ok(Released::WasGone);
        }
        let names = self.names(key.as_str(), owner);
        let conn = self.session.conn().await?;
        let mut claim = self.claims.enter(key, owner).await;
        let released = self.end(&conn, &mut claim, &names, (key, owner)).await;
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
    ) -> Result<Released, StoreError> {
        let place = claim.place.clone();
        let is_settled = claim.unsettled.is_empty();
        let (compare, is_known) = match &place {
            Some(place) if is_settled => (
                ops::is_created_at(&names.own, place.create),
                place.held.is_some(),
            ),
            None if is_settled => {
                self.follow.leave(key, owner);
                return Ok(Released::WasGone);
            }
            // The name has the owner in it, and the claim of this owner is to end in any case.
            _ => (ops::exists(&names.own), false),
        };
        let shared = claim.unsettled.iter().filter(|lease| lease.is_shared);
        let gates: Vec<_> = shared
            .map(|lease| keys::gate(&self.config.namespace, lease.id))
            .collect();
        let closed = || gates.iter().map(|gate| ops::delete(gate));
        let mut success = vec![ops::delete(&names.own)];
        if !is_known {
            // Its value is read before it is deleted.
            success.insert(0, ops::get_all(&names.all));
        }
        success.extend(closed());
        let txn = TxnRequest {
            compare: vec![compare],
            success,
            failure: closed().collect(),
        };
        let ended = match conn.txn(txn).await {
            Err(failure) if failure.is_full => {
                end_one_by_one(conn, names, &gates, is_known).await?
            }
            answer => {
                let answer = answer?;
                let read = answer.succeeded && !is_known;
                let queue = read.then(|| ops::keys_of(&answer, 0).map(Queue::read));
                Ended {
                    deleted_at: answer.succeeded.then(|| answer.header().revision),
                    queue: queue.transpose()?,
                }
            }
        };
        if let Some(revision) = ended.deleted_at {
            self.follow.with(key, |followed| followed.wrote(revision));
        }
        let holds = |queue: Option<Queue>| queue.is_some_and(|queue| queue.holds(&names.own));
        let was_held = ended.deleted_at.is_some() && (is_known || holds(ended.queue));
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
                self.leases.give(place.lease, place.since);
            }
            Some(place) if !is_settled && !place.lease.is_shared => {
                conn.revoke(place.lease.id).await?;
            }
            _ => {}
        }
        claim.place = None;
        self.follow.leave(key, owner);
        Ok(if was_held {
            Released::WasHeld
        } else {
            Released::WasGone
        })
    }
}

/// The same by requests that a full database of an old version does not refuse. The name has the owner in it, so no key of
/// another claim is deleted.
async fn end_one_by_one(
    conn: &Conn,
    names: &Names,
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
    let (was_there, revision) = conn.delete(&names.own).await?;
    Ok(Ended {
        deleted_at: was_there.then_some(revision),
        queue,
    })
}
