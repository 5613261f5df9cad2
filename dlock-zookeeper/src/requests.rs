//! The requests of a store: each is a few operations on the children of a key's directory.
//!
//! # Rules
//!
//! - **Safety.** A claim holds by its place in the queue, see `queue.rs`. It holds for ever once its child was created and the
//!   children before it that kept it from holding are deleted. A server that has not heard of a deletion yet answers
//!   *busy*.
//! - **Safety.** A grant and a renewal write to the child. Their answer shows that the child is there, and, with
//!   [`crate::proof`], until when its session lasts. A lease that would last longer is not confirmed.
//! - **Safety.** A process deletes its child when the lease has ended, and ends the lease with the session.
//! - All that hold together have one fence, that of the first of them. A claim that joins others writes it, in a transaction
//!   that fails if the child from which it was taken is gone. (`readers_that_come_and_go_have_one_token`)
//! - A request runs on the thread of the store until it has an answer, also if its caller is gone. The next request of
//!   the same claim waits for it.

use std::sync::Arc;

use dlock_runtime::{
    FencingToken, LockKey,
    store::{
        ALIVE, AcquireOutcome, GRANT_TTL, Holder, OwnerId, Released, Renewal, StoreError,
        StoreErrorKind,
    },
};
use tokio::{
    runtime::Handle,
    time::{Instant, sleep},
};
use zookeeper_client::{CreateMode, Error, MultiWriteError, MultiWriteResult};

use crate::{
    base,
    claims::{Claim, Core, list},
    confirm::{Confirmed, confirm},
    data::Value,
    errors::Failure,
    fence::Base,
    holder, names,
    queue::Queue,
    session::{self, Session},
    slots::{Child, Locked},
};

impl Core {
    pub(crate) async fn acquire(
        self: &Arc<Self>,
        handle: &Handle,
        claim: Claim,
    ) -> Result<AcquireOutcome, StoreError> {
        let session = session::current(&self.link).await?;
        let mut slot = self.slots.lock(&claim.key, claim.owner).await;
        slot.look_at(&session);
        let answer = match self.known(&mut slot, &claim) {
            Some(holder) => Ok(AcquireOutcome::busy(holder)),
            None => self.attempt(handle, &session, &mut slot, &claim).await,
        };
        let is_unknown = slot.unknown.is_some();
        self.slots.unlock(&claim.key, claim.owner, slot);
        if is_unknown {
            let core = self.clone();
            handle.spawn(async move { core.end_unknown(&claim.key, claim.owner).await });
        }
        answer.map_err(Failure::into_error)
    }

    /// The answer to a waiter for which a watch is set, without a request. Its place is kept by this process.
    fn known(&self, slot: &mut Locked, claim: &Claim) -> Option<Holder> {
        let child = slot.child.as_mut()?;
        if !claim.waits || child.watching.is_none() || !child.session.is_connected() {
            return None;
        }
        if child.ends <= Instant::now() {
            return None;
        }
        let holder = self.answers.get(&claim.key, claim.owner)?;
        child.ends = claim.begun.monotonic + ALIVE;
        Some(holder)
    }

    async fn attempt(
        self: &Arc<Self>,
        handle: &Handle,
        session: &Session,
        slot: &mut Locked,
        claim: &Claim,
    ) -> Result<AcquireOutcome, Failure> {
        let directory = names::directory(&self.config.root, &claim.key);
        slot.end_late().await?;
        let had_child = slot.child.is_some();
        loop {
            if slot.unknown.is_some() {
                self.find(session, slot, &directory, claim.owner).await?;
            }
            if slot.child.is_none() {
                if !claim.waits {
                    let queue = list(session, &directory).await?;
                    if !queue.admits(claim.mode) {
                        let seen = holder::of(session, &directory, &queue, None, claim.mode);
                        match seen.await? {
                            Some(holder) => return Ok(AcquireOutcome::busy(holder)),
                            None => continue,
                        }
                    }
                }
                create(session, slot, &self.config.root, &directory, claim).await?;
            }
            let Some(child) = &mut slot.child else {
                continue;
            };
            self.end_in_time(handle, claim, child);
            let deletions = self.answers.deletions();
            let queue = list(session, &directory).await?;
            if queue.place(&child.name).is_none() {
                // An operator has deleted it.
                slot.child = None;
                continue;
            }
            if queue.holds(&child.name) {
                match confirm(session, child, &queue, claim).await? {
                    Confirmed::As(fence) => return Ok(AcquireOutcome::granted(fence)),
                    Confirmed::Gone => slot.child = None,
                    Confirmed::Changed => {}
                }
                continue;
            }
            let own = (&*child.name, child.fence);
            let seen = holder::of(session, &directory, &queue, Some(own), claim.mode);
            let Some(mut holder) = seen.await? else {
                continue;
            };
            if claim.waits {
                child.ends = claim.begun.monotonic + ALIVE;
                self.watch(handle, claim, child);
                self.answers
                    .note(&claim.key, claim.owner, &holder, deletions);
            } else {
                if !had_child {
                    slot.delete().await?;
                }
                holder.position = None;
            }
            return Ok(AcquireOutcome::busy(holder));
        }
    }

    /// Finds the child of a request that got no answer.
    async fn find(
        &self,
        session: &Session,
        slot: &mut Locked,
        directory: &str,
        owner: OwnerId,
    ) -> Result<(), Failure> {
        // The server may be another one than that of the request, and behind it.
        session.client.sync(&self.config.root).await?;
        let queue = list(session, directory).await?;
        if let Some(found) = queue.of(owner) {
            let path = format!("{directory}/{}", found.name);
            match session.client.get_data(&path).await {
                Ok((data, stat)) => {
                    let value = Value::read(&data).ok_or_else(|| {
                        let message =
                            format!("`{path}` was written by another program; delete that node");
                        StoreError::new(StoreErrorKind::BadAnswer, message).with_advice()
                    })?;
                    let name = found.name.clone();
                    place(session, slot, directory, name, value.base, stat.czxid).await?;
                }
                Err(Error::NoNode) => {}
                Err(error) => return Err(error.into()),
            }
        }
        slot.unknown = None;
        Ok(())
    }

    /// Deletes the child of a request that got no answer, unless another request has found it before.
    async fn end_unknown(&self, key: &LockKey, owner: OwnerId) {
        loop {
            sleep(ALIVE).await;
            let Ok(session) = session::current(&self.link).await else {
                continue;
            };
            let directory = names::directory(&self.config.root, key);
            let mut slot = self.slots.lock(key, owner).await;
            slot.look_at(&session);
            if slot.unknown.is_some() {
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

    pub(crate) async fn renew(&self, claim: Claim) -> Result<Renewal, StoreError> {
        let session = session::current(&self.link).await?;
        let mut slot = self.slots.lock(&claim.key, claim.owner).await;
        slot.look_at(&session);
        let answer = renew_in(&session, &mut slot, &claim).await;
        self.slots.unlock(&claim.key, claim.owner, slot);
        answer.map_err(Failure::into_error)
    }

    pub(crate) async fn release(
        &self,
        key: &LockKey,
        owner: OwnerId,
    ) -> Result<Released, StoreError> {
        let session = session::current(&self.link).await?;
        let mut slot = self.slots.lock(key, owner).await;
        slot.look_at(&session);
        let answer = self.release_in(&session, &mut slot, key, owner).await;
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
        let was_there = slot.delete().await?;
        Ok(if held && was_there {
            Released::WasHeld
        } else {
            Released::WasGone
        })
    }
}

/// Creates the child of a claim, the last one of its key, while its base of fences is there.
async fn create(
    session: &Session,
    slot: &mut Locked,
    root: &str,
    directory: &str,
    claim: &Claim,
) -> Result<(), Failure> {
    let path = format!("{directory}/{}", names::prefix(claim.owner, claim.mode));
    let options = CreateMode::EphemeralSequential.with_acls(session.acls);
    loop {
        let base = base::current(session, root).await?;
        // The label is that of a holder.
        let value = Value {
            base,
            ttl: GRANT_TTL,
            held: None,
            label: None,
            function: None,
        };
        let mut writer = session.client.new_multi_writer();
        writer.add_check_version(&base::path(root, base.value), -1)?;
        writer.add_create(&path, &value.to_bytes(), &options)?;
        // Until the answer says otherwise, also if this future is dropped.
        slot.unknown = Some(session.clone());
        let (path, stat) = match writer.commit().await {
            Ok(results) => created(results)?,
            Err(MultiWriteError::OperationFailed { index, source }) => {
                slot.unknown = None;
                match (index, source) {
                    // Another process has replaced it.
                    (0, Error::NoNode) => session.base.forget(),
                    (1, Error::NoNode) => make_directory(session, directory).await?,
                    (_, error) => return Err(error.into()),
                }
                continue;
            }
            Err(MultiWriteError::RequestFailed { source }) => return Err(source.into()),
        };
        let czxid = if stat.is_invalid() {
            // Old servers do not say in the answer when the node was created.
            let stat = session.client.check_stat(&path).await?;
            stat.map_or(-1, |stat| stat.czxid)
        } else {
            stat.czxid
        };
        let name = path.rsplit('/').next().unwrap_or_default().to_owned();
        let placed = place(session, slot, directory, name, base, czxid);
        let is_placed = placed.await?;
        slot.unknown = None;
        if is_placed {
            return Ok(());
        }
        base::replace_used_up(session, root, base).await?;
    }
}

/// Returns the path and the state of the node that the second operation has created.
fn created(results: Vec<MultiWriteResult>) -> Result<(String, zookeeper_client::Stat), Failure> {
    match results.into_iter().nth(1) {
        Some(MultiWriteResult::Create { path, stat }) => Ok((path, stat)),
        other => {
            let message = format!("ZooKeeper answered a creation with {other:?}");
            Err(StoreError::new(StoreErrorKind::BadAnswer, message).into())
        }
    }
}

async fn make_directory(session: &Session, directory: &str) -> Result<(), Failure> {
    let directories = CreateMode::Container.with_acls(session.acls);
    match session.client.create(directory, b"", &directories).await {
        Ok(_) | Err(Error::NodeExists) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Notes a child of this process. `false` if it has no fence, as too much has happened since its base: then it is deleted.
async fn place(
    session: &Session,
    slot: &mut Locked,
    directory: &str,
    name: String,
    base: Base,
    czxid: i64,
) -> Result<bool, Failure> {
    let Some(fence) = base.fence(czxid) else {
        return match session
            .client
            .delete(&format!("{directory}/{name}"), None)
            .await
        {
            Ok(()) | Err(Error::NoNode) => Ok(false),
            Err(error) => Err(error.into()),
        };
    };
    let is_used_up = names::Entry::read(&name).is_none_or(|it| it.place < 0);
    if is_used_up || FencingToken::from_fence(fence).is_none() {
        let message = format!(
            "the numbers of ZooKeeper are used up: `{name}` with the fence {fence}; use another directory"
        );
        return Err(StoreError::new(StoreErrorKind::BadAnswer, message)
            .with_advice()
            .into());
    }
    slot.child = Some(Child {
        session: session.clone(),
        directory: directory.to_owned(),
        name,
        base,
        fence,
        held: None,
        watching: None,
        is_timed: false,
        ends: Instant::now() + ALIVE,
        label: None,
        function: None,
    });
    Ok(true)
}

async fn renew_in(session: &Session, slot: &mut Locked, claim: &Claim) -> Result<Renewal, Failure> {
    slot.end_late().await?;
    loop {
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
        match confirm(session, child, &queue, claim).await? {
            Confirmed::As(_) => return Ok(Renewal::Renewed),
            Confirmed::Gone => slot.child = None,
            Confirmed::Changed => {}
        }
    }
}
