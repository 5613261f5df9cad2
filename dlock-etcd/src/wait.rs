//! The requests of a waiter: a place at the end of the queue, and the answers to its repeated requests. `places.rs` has the
//! rules.

use dlock_runtime::{
    clock::{Clock, Moment, SystemClock},
    store::{AcquireOutcome, AcquireRequest, StoreError},
};

use crate::{
    base,
    claims::Claim,
    conn::Conn,
    core::{Core, Wish, word},
    followed::View,
    holder,
    keys::{self, Stage, Value},
    leases::Taken,
    names::Names,
    ops,
    places::{WAITING, is_covered, shared},
    proto::TxnRequest,
    queue::Queue,
    raise,
    settle::run,
};

impl Core {
    /// Puts the claim at the end of the queue, which was read after `seen`. `None` if it has to be looked at again.
    ///
    /// The place is requested behind the watch of the key, on the same connection. etcd sends the events of a watch that
    /// begins with a past revision up to 0.1 s late.
    pub(crate) async fn enqueue(
        &self,
        claim: &mut Claim,
        names: &Names,
        (wish, request): (Wish<'_>, AcquireRequest<'_>),
        (queue, revision, seen): (Queue, i64, Moment),
    ) -> Result<Option<AcquireOutcome>, StoreError> {
        let conn = &self.session.conn().await?;
        let base = raise::current(conn).await?;
        let gate = self.places.gate().await?;
        let gate_name = keys::gate(&self.config.namespace, gate.lease);
        let lease = shared(gate.lease);
        let asked = SystemClock.now();
        // Before the request: without an answer, the place is deleted when the waiter has been silent.
        let (id, known) = ((request.key, request.owner), (queue, revision));
        self.follow.wait(id, lease.id, known, seen, asked);
        let value = Value {
            base: base.value,
            mode: request.mode,
            epoch: None,
            // The label is that of a holder.
            label: None,
            function: None,
            stage: Stage::waits_now(word(wish.label)),
            owner: None,
        };
        let taken = Taken {
            lease,
            is_new: false,
            is_fresh: true,
            since: asked,
        };
        let txn = TxnRequest {
            compare: vec![
                base.is_unchanged(&self.config.namespace),
                ops::is_created_at(&names.by_owner, 0),
                ops::is_created_at(&gate_name, gate.create),
            ],
            success: vec![
                ops::put(&names.by_owner, value.to_bytes(), lease.id),
                ops::get_all(&names.all),
            ],
            failure: vec![ops::get(&gate_name), base::read_op(&self.config.namespace)],
        };
        let Some((_, answer)) = run(conn, claim, &taken, txn).await? else {
            self.places.close(lease.id);
            return Ok(None);
        };
        if !answer.succeeded {
            let gates = ops::keys_of(&answer, 0)?;
            if gates.iter().all(|kv| kv.create_revision != gate.create) {
                self.places.close(lease.id);
            }
            // The connection over which the claims are read knows another base, and this one only what it has read itself.
            raise::note(conn, base::of_answer(&answer, 1)?);
            // The next round reads the claims again.
            return Ok(None);
        }
        let (kvs, revision) = ops::read_of(&answer, 1)?;
        claim.placed(&taken, true, revision, &value);
        let queue = Queue::read(kvs);
        if queue.holds(&names.by_owner) {
            let fence = self.settle(conn, claim, names, (id, queue), wish);
            let fence = fence.await?;
            return Ok(fence.map(AcquireOutcome::granted));
        }
        let known = (queue, revision);
        self.follow.wait(id, lease.id, known, asked, asked);
        Ok(None)
    }

    /// Answers the request of a claim that waits, as soon as enough is known of its place and its queue. `None` if etcd has to
    /// be asked.
    pub(crate) async fn still_waits(
        &self,
        conn: &Conn,
        claim: &mut Claim,
        names: &Names,
        request: AcquireRequest<'_>,
        asked: Moment,
    ) -> Result<Option<AcquireOutcome>, StoreError> {
        let (key, owner) = (request.key, request.owner);
        loop {
            let place = claim.place.as_ref();
            let place = place.filter(|it| it.held.is_none() && it.lease.is_shared);
            let Some(place) = place else {
                return Ok(None);
            };
            let lease = place.lease.id;
            // From before the look, so that no change is missed.
            let mut beats = self.places.beats();
            let looked = self.follow.with(key, |followed| {
                followed.ask(owner, lease, asked);
                let view = followed.view(&names.by_owner, place, request.mode, SystemClock.now());
                (view, followed.changes())
            });
            match looked {
                None | Some((View::Changed, _)) => return Ok(None),
                Some((View::Waits { holder, seen }, _))
                    if is_covered(seen, asked) && self.places.covers(lease, asked) =>
                {
                    let now = SystemClock.now();
                    let unknown = self.follow.with(key, |it| it.unknown_rests(now));
                    let unknown = unknown.unwrap_or_default();
                    if unknown.is_empty() {
                        claim.lasts(asked.monotonic, WAITING);
                        return Ok(Some(AcquireOutcome::busy(holder)));
                    }
                    let rests = holder::rests(conn, &unknown).await;
                    self.follow.with(key, |it| it.note_rests(&rests, now));
                }
                Some((View::Waits { .. }, _)) => self.places.next_beat(&mut beats).await?,
                Some((View::IsBehind, mut changes)) => {
                    tokio::select! {
                        _ = changes.changed() => {}
                        _ = beats.changed() => beats.borrow().kept.clone()?,
                    }
                }
            }
        }
    }
}
