//! The requests of a store: each is a few operations on the children of a key's directory.
//!
//! # Rules
//!
//! - **Safety.** A claim holds by its place in the queue, see `queue.rs`. It holds for ever once its child was created and the
//!   children before it that kept it from holding are deleted. A server that has not heard of a deletion yet answers
//!   *busy*. An exclusive child that is alone in the transaction of its creation is in front.
//!   (`a_child_that_is_not_alone_holds_by_its_place_in_the_queue`)
//! - **Safety.** A lease is confirmed when the child is seen to be there after a write of its session. With [`crate::proof`],
//!   the write shows until when the session lasts. A lease that would last longer is not confirmed. The write is that
//!   of the lease into its child, or an earlier one, see `confirm.rs`.
//! - **Safety.** A process deletes its child when the lease has ended, and ends the lease with the session.
//! - **Safety.** A claim goes on with the child with which it was granted its key. If that is gone, an acquire fails once instead of
//!   creating another child, and a renewal finds no owner: others may have held the key in between.
//!   (`a_child_that_was_granted_is_not_replaced`)
//! - **Safety.** A child whose creation or deletion got no answer is held after a write to it alone: a server that has lost step with the
//!   others may be the only one that has it. (`a_child_that_was_found_is_not_held_without_a_write`)
//! - All that hold together have one fence, that of the first of them. A claim that joins others writes it, in a transaction
//!   that fails if the child from which it was taken is gone. If that has no answer, it is looked for: others may have taken the
//!   fence from there. (`readers_that_come_and_go_have_one_token`, `a_token_that_was_written_without_an_answer_is_kept`)
//! - **Safety.** A child is held only in the session that created it: the proof says nothing about earlier ones, which may
//!   still last at the servers. (`a_child_of_an_earlier_session_is_never_held`)
//! - A request runs until it has an answer, also if its caller is gone: it is a task of the store. The next request of the same
//!   claim waits for it, also while there is no session. (`requests_that_wait_for_a_session_keep_their_order`)
//! - A creation without an answer was not carried out if the child is missing after a transaction of a majority, see
//!   [`catch_up`]. (`a_creation_is_not_given_up_by_the_answers_of_a_leader_that_was_replaced`)
//! - A child without a timer has a search: a request whose answer was lost is looked for until its child is gone.
//!   (`a_release_that_fails_leaves_no_child`)

use std::sync::Arc;

use dlock_runtime::{
    LockKey,
    store::{
        ALIVE, AcquireOutcome, Holder, OwnerId, Released, Renewal, StoreError, StoreErrorKind,
    },
};
use tokio::{
    runtime::Handle,
    time::{Instant, sleep},
};
use zookeeper_client::Error;

use crate::{
    confirm::{Confirmed, accept, confirm},
    creation::{create, delete, place, tell_that_it_waits},
    data::Value,
    errors::Failure,
    holder, names,
    queue::Queue,
    repeats::Repeats,
    session::{self, Session},
    shared::{Core, Request, catch_up, list},
    slots::Locked,
};

impl Core {
    pub(crate) async fn acquire(
        self: &Arc<Self>,
        handle: &Handle,
        request: Request,
    ) -> Result<AcquireOutcome, StoreError> {
        let mut slot = self.slots.lock(&request.key, request.owner).await;
        let answer = match self.session_of(&mut slot).await {
            Ok(session) => match self.known(&mut slot, &request) {
                Some(holder) => Ok(AcquireOutcome::busy(holder)),
                None => self.attempt(handle, &session, &mut slot, &request).await,
            },
            Err(error) => Err(error.into()),
        };
        if matches!(answer, Ok(AcquireOutcome::Granted { .. })) {
            slot.note_grant();
        }
        if let Some(child) = &mut slot.child {
            self.end_in_time(&request, child);
        }
        let is_unknown = slot.unknown.is_some();
        self.slots.unlock(&request.key, request.owner, slot);
        if is_unknown {
            let core = self.clone();
            handle.spawn(async move { core.end_unknown(&request.key, request.owner).await });
        }
        answer.map_err(Failure::into_error)
    }

    /// Waits for the session with the slot of a claim, so that no later request of the claim overtakes this one.
    async fn session_of(&self, slot: &mut Locked) -> Result<Session, StoreError> {
        let session = session::current(&self.status).await?;
        slot.look_at(&session);
        Ok(session)
    }

    /// The answer to a waiter for which a watch is set, without a request. Its place is kept by this process.
    fn known(&self, slot: &mut Locked, request: &Request) -> Option<Holder> {
        let child = slot.child.as_mut()?;
        if !request.waits || child.watching.is_none() || !child.session.is_connected() {
            return None;
        }
        if child.ends <= Instant::now() {
            return None;
        }
        let holder = self.answers.get(&request.key, request.owner)?;
        child.ends = request.begun.monotonic + ALIVE;
        Some(holder)
    }

    async fn attempt(
        self: &Arc<Self>,
        handle: &Handle,
        session: &Session,
        slot: &mut Locked,
        request: &Request,
    ) -> Result<AcquireOutcome, Failure> {
        let directory = names::directory(&self.config.root, &request.key);
        slot.end_late().await?;
        let had_child = slot.child.is_some();
        let mut repeats = Repeats::default();
        loop {
            if slot.unknown.is_some() {
                self.find(session, slot, &directory, request.owner).await?;
            }
            if slot.has_lost_its_grant() {
                // The caller may still believe that grant. Another child has a later place and a greater fence.
                slot.granted = None;
                let message = "the node of the lease is gone: an operator has deleted it, or its session has ended";
                return Err(StoreError::new(StoreErrorKind::Disconnected, message).into());
            }
            let deletions = self.answers.deletions();
            let mut created = None;
            if slot.child.is_none() {
                if !request.waits {
                    let queue = list(session, &directory).await?;
                    if !queue.admits(request.mode) {
                        let seen = holder::find(session, &directory, &queue, None, request.mode);
                        match seen.await? {
                            Some(holder) => return Ok(AcquireOutcome::busy(holder)),
                            None => continue,
                        }
                    }
                }
                let queue = create(session, slot, &self.config.root, &directory, request);
                created = Some(queue.await?);
            }
            let Some(child) = &mut slot.child else {
                continue;
            };
            let is_new = created.is_some();
            let queue = match created {
                Some(queue) => queue?,
                None => list(session, &directory).await?,
            };
            if queue.place(&child.name).is_none() {
                // An operator has deleted it. One that is new is looked for again, as another one beside it would wait for it.
                if !is_new {
                    slot.child = None;
                }
                repeats.again().await?;
                continue;
            }
            if queue.holds(&child.name) {
                if is_new && accept(session, child, request) {
                    return Ok(AcquireOutcome::granted(child.fence));
                }
                match confirm(session, child, &queue, request).await? {
                    Confirmed::As(fence) => return Ok(AcquireOutcome::granted(fence)),
                    Confirmed::Gone => slot.child = None,
                    Confirmed::Changed => {}
                }
                repeats.again().await?;
                continue;
            }
            let own = (&*child.name, child.fence);
            let seen = holder::find(session, &directory, &queue, Some(own), request.mode);
            let Some(mut holder) = seen.await? else {
                continue;
            };
            if request.waits {
                child.ends = request.begun.monotonic + ALIVE;
                tell_that_it_waits(session, child, request);
                // The watch forgets the answer when the queue changes.
                self.answers
                    .note(&request.key, request.owner, &holder, deletions);
                self.watch(handle, request, child);
            } else {
                if !had_child {
                    slot.delete().await?;
                }
                holder.position = None;
            }
            return Ok(AcquireOutcome::busy(holder));
        }
    }

    /// Finds the child of a request that got no answer. Those of earlier sessions are deleted: they hold nothing here, and
    /// the last one would wait for them.
    async fn find(
        &self,
        session: &Session,
        slot: &mut Locked,
        directory: &str,
        owner: OwnerId,
    ) -> Result<(), Failure> {
        catch_up(session, &self.config.root).await?;
        let queue = list(session, directory).await?;
        slot.child = None;
        let mut found = None;
        for entry in queue.entries_of(owner) {
            let path = format!("{directory}/{}", entry.name);
            let (data, stat) = match session.client.get_data(&path).await {
                Ok(read) => read,
                Err(Error::NoNode) => continue,
                Err(error) => return Err(error.into()),
            };
            let is_own = stat.ephemeral_owner == session.client.session_id().0;
            if is_own && found.is_none() {
                found = Some((entry.name.clone(), data, stat.czxid));
            } else {
                delete(session, &path).await?;
            }
        }
        if let Some((name, data, czxid)) = found {
            let value = Value::read(&data).ok_or_else(|| {
                let message = format!(
                    "`{directory}/{name}` was written by another program; delete that node"
                );
                StoreError::new(StoreErrorKind::BadAnswer, message).with_advice()
            })?;
            place(session, slot, directory, name, &value, czxid).await?;
            if let Some(child) = &mut slot.child {
                child.needs_write = true;
            }
        }
        slot.unknown = None;
        Ok(())
    }

    /// Deletes the child of a request that got no answer, unless another request has found it before.
    async fn end_unknown(&self, key: &LockKey, owner: OwnerId) {
        loop {
            sleep(ALIVE).await;
            let mut slot = self.slots.lock(key, owner).await;
            if let Ok(session) = self.session_of(&mut slot).await
                && slot.unknown.is_some()
            {
                let directory = names::directory(&self.config.root, key);
                let found = self.find(&session, &mut slot, &directory, owner).await;
                if found.is_ok() && slot.delete().await.is_err() {
                    slot.unknown = Some(session);
                }
            }
            let is_over = slot.unknown.is_none();
            self.slots.unlock(key, owner, slot);
            if is_over {
                return;
            }
        }
    }

    pub(crate) async fn renew(&self, request: Request) -> Result<Renewal, StoreError> {
        let mut slot = self.slots.lock(&request.key, request.owner).await;
        let answer = match self.session_of(&mut slot).await {
            Ok(session) => renew_in(&session, &mut slot, &request).await,
            Err(error) => Err(error.into()),
        };
        if let Some(child) = &mut slot.child {
            self.end_in_time(&request, child);
        }
        self.slots.unlock(&request.key, request.owner, slot);
        answer.map_err(Failure::into_error)
    }

    pub(crate) async fn release(
        &self,
        key: &LockKey,
        owner: OwnerId,
    ) -> Result<Released, StoreError> {
        let mut slot = self.slots.lock(key, owner).await;
        let answer = match self.session_of(&mut slot).await {
            Ok(session) => {
                let was_unknown = slot.unknown.is_some();
                let answer = self.release_in(&session, &mut slot, key, owner).await;
                if was_unknown && answer.is_err() {
                    // No timer ends a child that was found here, so the search for it goes on.
                    slot.unknown = Some(session);
                }
                answer
            }
            Err(error) => Err(error.into()),
        };
        self.slots.unlock(key, owner, slot);
        answer.map_err(Failure::into_error)
    }

    async fn release_in(
        &self,
        session: &Session,
        slot: &mut Locked,
        key: &LockKey,
        owner: OwnerId,
    ) -> Result<Released, Failure> {
        slot.end_late().await?;
        if slot.unknown.is_some() {
            let directory = names::directory(&self.config.root, key);
            self.find(session, slot, &directory, owner).await?;
        }
        let held = match &slot.child {
            Some(child) if child.held.is_some() => true,
            Some(child) => list(session, &child.directory).await?.holds(&child.name),
            None => false,
        };
        let timer = slot.child.as_ref().and_then(|child| {
            let at = child.timer?;
            Some((at, child.ending(key, owner)))
        });
        let was_there = slot.delete().await?;
        if let Some((at, ending)) = timer {
            self.timers.remove(at, &ending);
        }
        Ok(if held && was_there {
            Released::WasHeld
        } else {
            Released::WasGone
        })
    }
}

async fn renew_in(
    session: &Session,
    slot: &mut Locked,
    request: &Request,
) -> Result<Renewal, Failure> {
    slot.end_late().await?;
    let mut repeats = Repeats::default();
    loop {
        if slot.has_lost_its_grant() {
            return Ok(Renewal::NotOwner);
        }
        let Some(child) = &mut slot.child else {
            return Ok(Renewal::NotOwner);
        };
        let mut queue = Queue::default();
        if child.held.is_none() {
            queue = list(session, &child.directory).await?;
            if !queue.holds(&child.name) {
                return Ok(Renewal::NotOwner);
            }
        }
        match confirm(session, child, &queue, request).await? {
            Confirmed::As(_) => {
                slot.note_grant();
                return Ok(Renewal::Renewed);
            }
            Confirmed::Gone => slot.child = None,
            Confirmed::Changed => {}
        }
        repeats.again().await?;
    }
}
