//! The request that ends a claim.

use dlock_runtime::store::{ReleaseRequest, Released, StoreError};

use crate::{ops, proto::TxnRequest, queue::Queue, requests::Core};

impl Core {
    pub(crate) async fn release(
        &self,
        request: ReleaseRequest<'_>,
    ) -> Result<Released, StoreError> {
        self.follow.leave(request.key, request.owner);
        if self.claims.is_unknown(request.key, request.owner) {
            return Ok(Released::WasGone);
        }
        let names = self.names(request.key.as_str(), request.owner);
        let conn = self.session.conn().await?;
        let mut claim = self.claims.enter(request.key, request.owner).await;
        // An acquire request that was under way may have begun to follow the key.
        self.follow.leave(request.key, request.owner);
        let place = claim.place.clone();
        let is_settled = claim.unsettled.is_empty();
        let (compare, is_known) = match &place {
            Some(place) if is_settled => (
                ops::is_created_at(&names.own, place.create),
                place.held.is_some(),
            ),
            None if is_settled => return Ok(Released::WasGone),
            // The name has the owner in it, and the claim of this owner is to end in any case.
            _ => (ops::exists(&names.own), false),
        };
        let mut success = vec![ops::delete(&names.own)];
        if !is_known {
            // Its value is read before it is deleted.
            success.insert(0, ops::get_all(&names.all));
        }
        let answer = conn
            .txn(TxnRequest {
                compare: vec![compare],
                success,
                failure: Vec::new(),
            })
            .await?;
        let was_held = answer.succeeded
            && (is_known || Queue::read(ops::keys_of(&answer, 0)?).holds(&names.own));
        while let Some(lease) = claim.unsettled.last().copied() {
            // A request that names it may still arrive.
            conn.revoke(lease.id).await?;
            claim.settled(lease);
        }
        match place {
            Some(place) if is_settled && answer.succeeded => {
                self.leases.give(place.lease, place.since);
            }
            Some(place) if !is_settled => conn.revoke(place.lease.id).await?,
            _ => {}
        }
        claim.place = None;
        claim.publish();
        Ok(if was_held {
            Released::WasHeld
        } else {
            Released::WasGone
        })
    }
}
