//! The requests of a store: each is a few operations on the children of a key's directory.
//!
//! # Rules
//!
//! - **Safety.** The first child holds the key. A child is first for ever once all children that were created before
//!   it are deleted. A server that has not heard of a deletion yet answers *busy*.
//! - **Safety.** A grant and a renewal write to the child. Their answer shows that the child is there, and, with
//!   [`crate::proof`], until when its session lasts. A lease that would last longer is not confirmed.
//! - **Safety.** A process deletes its child when the lease has ended, and ends the lease with the session.
//! - A request runs on the thread of the store until it has an answer, also if its caller is gone. The next request of
//!   the same claim waits for it.
//! - A waiter watches the child before its own, and no other one. It is woken when its own child is the first.

use std::{sync::Arc, time::Duration};

use dlock_runtime::{
    FencingToken, LockKey,
    store::{
        ALIVE, AcquireOutcome, GRANT_TTL, OwnerId, Released, Renewal, StoreError, StoreErrorKind,
    },
};
use tokio::{
    runtime::Handle,
    sync::watch,
    time::{Instant, sleep},
};
use zookeeper_client::{CreateMode, Error, Stat};

use crate::{
    config::Config,
    data::{data, holder},
    errors, names,
    session::{self, Link, Session},
    slots::{Child, Locked, Slots},
    waiting::Sinks,
};

/// All that requests need.
pub(crate) struct Core {
    pub(crate) config: Arc<Config>,
    pub(crate) link: watch::Receiver<Link>,
    pub(crate) slots: Slots,
    pub(crate) sinks: Arc<Sinks>,
}

/// The part of a request that outlives its caller.
#[derive(Clone)]
pub(crate) struct Claim {
    pub(crate) key: LockKey,
    pub(crate) owner: OwnerId,
    pub(crate) ttl: Duration,
    pub(crate) waits: bool,
    pub(crate) names: (String, String),
    /// The lease counts from a moment before the request was sent.
    pub(crate) begun: Instant,
}

impl Core {
    pub(crate) async fn acquire(
        self: &Arc<Self>,
        handle: &Handle,
        claim: Claim,
    ) -> Result<AcquireOutcome, StoreError> {
        let session = session::current(&self.link).await?;
        let mut slot = self.slots.lock(&claim.key, claim.owner).await;
        slot.look_at(&session);
        let answer = self.acquire_in(handle, &session, &mut slot, &claim).await;
        let is_unknown = slot.unknown.is_some();
        self.slots.unlock(&claim.key, claim.owner, slot);
        if is_unknown {
            let core = self.clone();
            handle.spawn(async move { core.end_unknown(&claim.key, claim.owner).await });
        }
        answer.map_err(Failure::into_error)
    }

    async fn acquire_in(
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
                    let children = list(session, &directory).await?;
                    if let Some(first) = children.first() {
                        match holder(session, &directory, first).await? {
                            Some(holder) => return Ok(AcquireOutcome::busy(holder)),
                            None => continue,
                        }
                    }
                }
                create(session, slot, &directory, claim).await?;
            }
            let Some(child) = &mut slot.child else {
                continue;
            };
            self.end_in_time(handle, claim, child);
            let children = list(session, &directory).await?;
            let place = children.iter().position(|it| it.name == child.name);
            match place {
                // An operator has deleted it.
                None => slot.child = None,
                Some(0) => {
                    let written = Instant::now();
                    if !write(child, claim).await? {
                        slot.child = None;
                        continue;
                    }
                    child.holds = true;
                    child.ends = claim.begun + claim.ttl;
                    certain(session, written, claim)?;
                    return Ok(AcquireOutcome::granted(child.fence));
                }
                Some(place) => {
                    let Some(holder) = holder(session, &directory, &children[0]).await? else {
                        continue;
                    };
                    if !claim.waits {
                        if !had_child {
                            slot.delete().await?;
                        }
                        return Ok(AcquireOutcome::busy(holder));
                    }
                    child.ends = claim.begun + ALIVE;
                    if !child.is_watching {
                        child.is_watching = true;
                        let (core, key, owner) = (self.clone(), claim.key.clone(), claim.owner);
                        let (session, name) = (session.clone(), child.name.clone());
                        handle.spawn(async move {
                            core.watch(&session, &directory, &name, &key, owner).await;
                        });
                    }
                    let before = u64::try_from(place - 1).unwrap_or(0);
                    return Ok(AcquireOutcome::busy(holder.position(before)));
                }
            }
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
        let children = list(session, directory).await?;
        if let Some(found) = children.into_iter().find(|it| it.is_of(owner)) {
            let path = format!("{directory}/{}", found.name);
            if let Some(stat) = session.client.check_stat(&path).await? {
                slot.child = Some(child(session, directory, found.name, &stat)?);
            }
        }
        slot.unknown = None;
        Ok(())
    }

    /// Deletes the child of a request that got no answer, unless another request has found it before.
    pub(crate) async fn end_unknown(&self, key: &LockKey, owner: OwnerId) {
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
        let held = match &mut slot.child {
            Some(child) => is_first(child).await?,
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

/// Why a request has no answer.
enum Failure {
    Client(Error),
    Store(StoreError),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Client(error)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl Failure {
    fn into_error(self) -> StoreError {
        match self {
            Self::Client(error) => errors::of(&error),
            Self::Store(error) => error,
        }
    }
}

pub(crate) async fn list(session: &Session, directory: &str) -> Result<Vec<names::Child>, Error> {
    match session.client.list_children(directory).await {
        Ok(children) => Ok(names::in_order(&children)),
        Err(Error::NoNode) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Creates the child of a claim, the last one of its key.
async fn create(
    session: &Session,
    slot: &mut Locked,
    directory: &str,
    claim: &Claim,
) -> Result<(), Failure> {
    let prefix = names::prefix(claim.owner);
    let path = format!("{directory}/{prefix}");
    let options = CreateMode::EphemeralSequential.with_acls(session.acls);
    let waits = data(GRANT_TTL, ("", ""));
    let (stat, sequence) = loop {
        // Until the answer says otherwise, also if this future is dropped.
        slot.unknown = Some(session.clone());
        match session
            .client
            .create(&path, waits.as_bytes(), &options)
            .await
        {
            Ok(created) => break created,
            Err(Error::NoNode) => {
                slot.unknown = None;
                let directories = CreateMode::Container.with_acls(session.acls);
                match session.client.create(directory, b"", &directories).await {
                    Ok(_) | Err(Error::NodeExists) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            Err(error) => return Err(error.into()),
        }
    };
    slot.unknown = None;
    slot.child = Some(child(
        session,
        directory,
        format!("{prefix}{sequence}"),
        &stat,
    )?);
    Ok(())
}

fn child(
    session: &Session,
    directory: &str,
    name: String,
    stat: &Stat,
) -> Result<Child, StoreError> {
    let place = names::Child::read(&name).map_or(-1, |it| it.place);
    let fence = u64::try_from(stat.czxid).unwrap_or(0);
    if place < 0 || FencingToken::from_fence(fence).is_none() {
        let message = format!(
            "the numbers of ZooKeeper are used up: `{name}` with czxid {}",
            stat.czxid
        );
        return Err(StoreError::new(StoreErrorKind::BadAnswer, message));
    }
    Ok(Child {
        session: session.clone(),
        directory: directory.to_owned(),
        name,
        fence,
        holds: false,
        is_watching: false,
        is_timed: false,
        ends: Instant::now() + ALIVE,
        names: (String::new(), String::new()),
    })
}

/// Returns `true` if the owner of a child holds the key.
async fn is_first(child: &mut Child) -> Result<bool, Error> {
    if !child.holds {
        let children = list(&child.session, &child.directory).await?;
        child.holds = children
            .first()
            .is_some_and(|first| first.name == child.name);
    }
    Ok(child.holds)
}

async fn renew_in(session: &Session, slot: &mut Locked, claim: &Claim) -> Result<Renewal, Failure> {
    slot.end_late().await?;
    let Some(child) = &mut slot.child else {
        return Ok(Renewal::NotOwner);
    };
    if !is_first(child).await? {
        return Ok(Renewal::NotOwner);
    }
    let written = Instant::now();
    if !write(child, claim).await? {
        slot.child = None;
        return Ok(Renewal::NotOwner);
    }
    child.ends = claim.begun + claim.ttl;
    certain(session, written, claim)?;
    Ok(Renewal::Renewed)
}

/// Writes the lease into its child; `false` if the child is gone.
async fn write(child: &mut Child, claim: &Claim) -> Result<bool, Error> {
    if !claim.names.0.is_empty() {
        child.names.clone_from(&claim.names);
    }
    let text = data(claim.ttl, (&child.names.0, &child.names.1));
    match child
        .session
        .client
        .set_data(&child.path(), text.as_bytes(), None)
        .await
    {
        Ok(_) => Ok(true),
        Err(Error::NoNode | Error::SessionExpired) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Refuses to confirm a lease that the session may not last for.
fn certain(session: &Session, written: Instant, claim: &Claim) -> Result<(), StoreError> {
    let until = session.proof.lasts_until(written);
    if until.is_some_and(|until| until >= claim.begun + claim.ttl) {
        return Ok(());
    }
    let message = "the session was without an answer for too long, or has just got another server";
    Err(StoreError::new(StoreErrorKind::TimedOut, message))
}
