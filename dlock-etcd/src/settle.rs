//! The lease of a claim that holds: the transactions that name a lease, and what is known after them.

use dlock_runtime::{LockKey, store::StoreError};
use tokio::time::Instant;

use crate::{
    claims::Claim,
    conn::{Conn, Failure},
    keys::{Stage, Value},
    leases::{Lease, Taken},
    ops,
    proto::{Answer, TxnRequest, TxnResponse},
    queue::{Epoch, Queue},
    requests::{Core, Names, ROUNDS, Wish, word},
};

impl Core {
    /// Gives a claim that holds a lease of the wished TTL, and writes its epoch and its label. `None`, and no place, if the
    /// key is gone.
    pub(crate) async fn settle(
        &self,
        conn: &Conn,
        claim: &mut Claim,
        names: &Names,
        (key, mut queue): (&LockKey, Queue),
        wish: Wish<'_>,
    ) -> Result<Option<u64>, StoreError> {
        for _ in 0..ROUNDS {
            let Some(before) = claim.place.clone() else {
                return Ok(None);
            };
            let own = queue
                .get(&names.own)
                .filter(|own| own.create == before.create);
            let epoch = own.and_then(|_| queue.epoch(&names.own));
            let (Some(own), Some(epoch)) = (own, epoch) else {
                claim.place = None;
                return Ok(None);
            };
            let is_alone = matches!(epoch, Epoch::Own(fence) if fence == own.own_fence());
            let value = Value {
                base: before.base,
                mode: before.mode,
                epoch: (!is_alone).then(|| epoch.fence()),
                label: word(wish.label).or_else(|| before.label.clone()),
                function: word(wish.function).or_else(|| before.function.clone()),
                stage: match &own.value {
                    Some(value) => value.stage.holding(),
                    None => Stage::holds_now(),
                },
            };
            let mut compare = vec![ops::is_modified_at(&names.own, own.modified)];
            compare.extend(epoch.is_unchanged());
            let asked = Instant::now();
            let taken = self.leases.take(conn, wish.seconds).await?;
            let lease = taken.lease;
            let txn = TxnRequest {
                compare,
                success: vec![ops::put(&names.own, value.to_bytes(), lease.id)],
                failure: vec![ops::get_all(&names.all)],
            };
            // Without an answer it is not known which of the two leases the key has.
            claim.place = None;
            claim.doubt(before.lease);
            let ran = run(conn, claim, &taken, asked, txn).await;
            if !ran.as_ref().is_err_and(|error| !error.has_no_effect()) {
                claim.settled(before.lease);
                claim.place = Some(before.clone());
            }
            let Some((exists, answer)) = ran? else {
                continue;
            };
            if answer.succeeded {
                let revision = answer.header().revision;
                self.follow.with(key, |followed| followed.wrote(revision));
                // Another request that names it may be under way.
                if claim.unsettled.iter().all(|it| it.id != before.lease.id) {
                    self.leases.give(before.lease, before.since);
                }
                let is_placed = claim.placed(lease, exists, asked, before.create, &value);
                return Ok(is_placed.then(|| {
                    let place = claim.place.as_mut().expect("it was placed");
                    place.held = Some(epoch.fence());
                    epoch.fence()
                }));
            }
            self.give_back(lease, exists, asked);
            queue = Queue::read(ops::keys_of(&answer, 0)?);
        }
        Ok(None)
    }

    /// Keeps a lease that was not used for the next claim.
    pub(crate) fn give_back(&self, lease: Lease, exists: bool, asked: Instant) {
        if exists {
            self.leases.give(lease, asked);
        }
    }
}

/// Sends a transaction that names a lease, and keeps that lease alive beside it if it was made earlier. Returns whether the
/// lease exists, and the answer; `None` if the lease does not exist and the transaction had no effect.
pub(crate) async fn run(
    conn: &Conn,
    claim: &mut Claim,
    taken: &Taken,
    asked: Instant,
    txn: TxnRequest,
) -> Result<Option<(bool, TxnResponse)>, StoreError> {
    let lease = taken.lease;
    claim.doubt(lease);
    claim.lasts(asked, lease.seconds);
    let answered = if taken.is_fresh {
        conn.txn(txn).await.map(|answer| (true, answer))
    } else {
        let confirmed = conn.confirm(&[lease.id], txn).await;
        confirmed.map(|(exist, answer)| (exist == [true], answer))
    };
    match answered {
        Ok(answered) => {
            claim.settled(lease);
            Ok(Some(answered))
        }
        Err(Failure {
            is_missing_lease: true,
            ..
        }) => {
            claim.settled(lease);
            Ok(None)
        }
        Err(failure) => {
            if failure.error.has_no_effect() {
                claim.settled(lease);
            }
            Err(failure.error)
        }
    }
}
