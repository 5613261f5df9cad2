//! The lease of a claim that holds: the transactions that name a lease, and what is known after them.
//!
//! # Rules
//!
//! - **Safety.** A key that has a lease gets another one only after that one has its whole TTL. The transaction and a
//!   keep-alive beside it take different ways in etcd, so one of them may be carried out alone: the key would end before an
//!   earlier answer has promised. (`a_key_gets_an_idle_lease_only_after_that_was_kept_alive`)

use dlock_runtime::{
    LockKey,
    clock::{Clock, Moment, SystemClock},
    store::{OwnerId, StoreError, StoreErrorKind},
};

use tokio::time::Instant;

use crate::{
    claims::Claim,
    conn::{Conn, Failure},
    core::{Core, ROUNDS, Wish, word},
    keys::{Stage, Value},
    leases::{Lease, Taken},
    names::Names,
    ops,
    proto::{Answer, TxnRequest, TxnResponse},
    queue::{Epoch, Queue},
};

impl Core {
    /// Gives a claim that holds a lease of the wished TTL, and writes its epoch and its label. `None`, and no place, if the
    /// key is gone.
    pub(crate) async fn settle(
        &self,
        conn: &Conn,
        claim: &mut Claim,
        names: &Names,
        ((key, owner), mut queue): ((&LockKey, OwnerId), Queue),
        wish: Wish<'_>,
    ) -> Result<Option<u64>, StoreError> {
        let name = names.own(claim.named_by);
        for _ in 0..ROUNDS {
            let Some(before) = claim.place.clone() else {
                return Ok(None);
            };
            let own = queue.get(&name).filter(|own| own.create == before.create);
            let epoch = own.and_then(|_| queue.epoch(&name));
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
                owner: claim.named_by.map(|_| owner),
            };
            let mut compare = vec![ops::is_modified_at(&name, own.modified)];
            compare.extend(epoch.is_unchanged());
            let kept = is_kept(&before.lease, wish).then_some((before.lease, before.since));
            let whole = match kept {
                Some(kept) => Some(kept),
                None => self.whole(conn, &name, wish.seconds).await?,
            };
            let Some((lease, since)) = whole else {
                continue;
            };
            let taken = Taken {
                lease,
                is_new: false,
                // It needs no keep-alive beside the transaction.
                is_fresh: true,
                since,
            };
            let txn = TxnRequest {
                compare,
                success: vec![ops::put(&name, value.to_bytes(), lease.id)],
                failure: vec![ops::get_all(&names.all)],
            };
            // Without an answer it is not known which of the two leases the key has.
            claim.place = None;
            claim.doubt(before.lease);
            let ran = run(conn, claim, &taken, txn).await;
            let is_full = |error: &StoreError| error.kind() == StoreErrorKind::OutOfMemory;
            if kept.is_some() && ran.as_ref().is_err_and(is_full) {
                // Whether or not it was carried out, the key keeps its lease.
                claim.settled(lease);
                claim.settled(before.lease);
                claim.place = Some(before.clone());
            } else if !ran.as_ref().is_err_and(|error| !error.has_no_effect()) {
                claim.settled(before.lease);
                claim.place = Some(before.clone());
            }
            if kept.is_none() && ran.as_ref().is_err_and(StoreError::has_no_effect) {
                self.leases.give(lease, since);
            }
            let Some((exists, answer)) = ran? else {
                continue;
            };
            if answer.succeeded {
                let revision = answer.header().revision;
                self.follow.with(key, |followed| followed.wrote(revision));
                // Another request that names it may be under way.
                let is_named = claim.unsettled.iter().any(|it| it.id == before.lease.id);
                let names_it = claim.named_by == Some(before.lease.id);
                if kept.is_none() && !is_named && !names_it {
                    self.leases.give(before.lease, before.since);
                }
                let is_placed = claim.placed(&taken, exists, before.create, &value);
                return Ok(is_placed.then(|| {
                    let place = claim.place.as_mut().expect("it was placed");
                    place.held = Some(epoch.fence());
                    epoch.fence()
                }));
            }
            if kept.is_none() {
                self.give_back(&taken, exists);
            }
            queue = Queue::read(ops::keys_of(&answer, 0)?);
        }
        Ok(None)
    }

    /// Returns a lease that no claim uses, and that lasts for its TTL from the moment that is returned with it. `None` if an
    /// idle one had ended.
    async fn whole(
        &self,
        conn: &Conn,
        name: &[u8],
        seconds: i64,
    ) -> Result<Option<(Lease, Moment)>, StoreError> {
        let asked = SystemClock.now();
        let Taken { lease, is_new, .. } = self.leases.take(conn, seconds, asked).await?;
        if is_new {
            return Ok(Some((lease, asked)));
        }
        let read = ops::read(vec![ops::get(name)]);
        let (exist, _) = conn.confirm_read(&[lease.id], &read).await?;
        Ok((exist == [true]).then_some((lease, asked)))
    }

    /// Keeps a lease that was not used for the next claim.
    pub(crate) fn give_back(&self, taken: &Taken, exists: bool) {
        if exists {
            self.leases.give(taken.lease, taken.since);
        }
    }
}

/// Sends a transaction that names a lease, and keeps that lease alive beside it if need be. Returns whether
/// the lease exists, and the answer; `None` if the lease does not exist and the transaction had no effect.
pub(crate) async fn run(
    conn: &Conn,
    claim: &mut Claim,
    taken: &Taken,
    txn: TxnRequest,
) -> Result<Option<(bool, TxnResponse)>, StoreError> {
    let lease = taken.lease;
    claim.doubt(lease);
    claim.lasts(Instant::now(), lease.seconds);
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

/// Returns `true` if a key can keep its lease when its value is written again.
fn is_kept(lease: &Lease, wish: Wish<'_>) -> bool {
    !lease.is_shared && lease.seconds == wish.seconds
}
