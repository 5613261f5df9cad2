//! The store: each request is a few operations on the children of a key's directory.
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

use std::{
    collections::HashMap,
    fmt,
    future::Future,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use dlock_runtime::{
    ConnectError, FencingToken, Holder, LockKey, LockMode,
    store::{
        ALIVE, AcquireOutcome, AcquireRequest, ClientId, Detaching, GRANT_TTL, Hint, HintSink,
        LockStore, OwnerId, Queue, ReleaseRequest, Released, RenewBatch, Renewal, StoreError,
        StoreErrorKind, StoreHooks, StoreOptions, StoreProperties,
    },
};
use futures_util::future::join_all;
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout},
};
use zookeeper_client::{CreateMode, Error, Stat};

use crate::{
    config::Config,
    errors, names,
    session::{self, Link, Session},
    slots::{Child, Locked, Slots},
    worker::Worker,
};

/// Locks in a ZooKeeper ensemble.
///
/// A manager makes one from a URL, see [`ZooKeeper`](crate::ZooKeeper). It has one session, on a thread of its own.
pub struct ZooKeeperStore {
    inner: Arc<Inner>,
    worker: Worker,
}

struct Inner {
    config: Arc<Config>,
    link: watch::Receiver<Link>,
    slots: Slots,
    sinks: Arc<Sinks>,
}

#[derive(Default)]
struct Sinks(Mutex<HashMap<ClientId, HintSink>>);

impl Sinks {
    fn map(&self) -> MutexGuard<'_, HashMap<ClientId, HintSink>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waiters have lost their places with the last session.
    fn look_again(&self) {
        let sinks: Vec<_> = self.map().values().cloned().collect();
        for sink in sinks {
            // A manager that is gone has detached.
            let _ = sink.look_again();
        }
    }
}

/// The part of a request that outlives its caller.
#[derive(Clone)]
struct Claim {
    key: LockKey,
    owner: OwnerId,
    ttl: Duration,
    waits: bool,
    names: (String, String),
    /// The lease counts from a moment before the request was sent.
    begun: Instant,
}

impl ZooKeeperStore {
    /// Creates the store of `url`, and starts to connect in the background.
    ///
    /// # Errors
    ///
    /// [`ConnectError::InvalidUrl`] if the URL or an option is invalid.
    pub fn open(url: &str, options: &StoreOptions) -> Result<Self, ConnectError> {
        let config = Arc::new(Config::parse(url, options)?);
        let worker = Worker::start().map_err(|error| ConnectError::Unavailable {
            url: config.shown.clone(),
            reason: StoreError::new(StoreErrorKind::Unreachable, format!("no thread: {error}")),
        })?;
        let sinks = Arc::new(Sinks::default());
        let told = sinks.clone();
        let link = session::start(&worker, config.clone(), move || told.look_again());
        let inner = Arc::new(Inner {
            config,
            link,
            slots: Slots::default(),
            sinks,
        });
        Ok(Self { inner, worker })
    }

    pub(crate) async fn ready(&self) -> Result<(), ConnectError> {
        let unavailable = |reason| ConnectError::Unavailable {
            url: self.inner.config.shown.clone(),
            reason,
        };
        session::current(&self.inner.link)
            .await
            .map(drop)
            .map_err(unavailable)
    }

    /// Runs a request to its end, also if this future is dropped.
    async fn run<T: Send + 'static>(
        &self,
        request: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        let ended = |_| StoreError::new(StoreErrorKind::Disconnected, "the store was closed");
        self.worker.handle().spawn(request).await.map_err(ended)?
    }
}

impl fmt::Debug for ZooKeeperStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ZooKeeperStore")
            .field(&self.inner.config)
            .finish()
    }
}

impl LockStore for ZooKeeperStore {
    async fn acquire(&self, request: AcquireRequest<'_>) -> Result<AcquireOutcome, StoreError> {
        if request.mode != LockMode::Exclusive {
            let message = "the locks in ZooKeeper are exclusive";
            return Err(StoreError::new(StoreErrorKind::Unsupported, message).without_effect());
        }
        let (inner, handle) = (self.inner.clone(), self.worker.handle().clone());
        let claim = Claim {
            key: request.key.clone(),
            owner: request.owner,
            ttl: request.ttl,
            waits: request.queue == Queue::ForLease,
            names: (request.label.to_owned(), request.function.to_owned()),
            begun: Instant::now(),
        };
        self.run(async move { inner.acquire(&handle, claim).await })
            .await
    }

    async fn renew(&self, batch: RenewBatch<'_>) -> Vec<Result<Renewal, StoreError>> {
        let begun = Instant::now();
        let renewals = batch.requests.iter().map(|request| {
            let claim = Claim {
                key: request.key.clone(),
                owner: request.owner,
                ttl: request.ttl,
                waits: false,
                names: (request.label.to_owned(), request.function.to_owned()),
                begun,
            };
            let inner = self.inner.clone();
            let renewal = self.run(async move { inner.renew(claim).await });
            async move {
                match batch.limit {
                    Some(limit) => match timeout(limit, renewal).await {
                        Ok(answer) => answer,
                        Err(_) => Err(StoreError::timed_out(limit)),
                    },
                    None => renewal.await,
                }
            }
        });
        join_all(renewals).await
    }

    async fn release(&self, request: ReleaseRequest<'_>) -> Result<Released, StoreError> {
        let inner = self.inner.clone();
        let (key, owner) = (request.key.clone(), request.owner);
        self.run(async move { inner.release(&key, owner).await })
            .await
    }

    fn properties(&self) -> StoreProperties<'_> {
        let shortest = dlock_runtime::MIN_TTL;
        StoreProperties::new()
            .grants(true)
            .ttls(shortest, self.inner.config.longest_ttl())
            .hooks(self)
            .extension(self)
    }
}

impl StoreHooks for ZooKeeperStore {
    fn attach(&self, client: ClientId, hints: HintSink) {
        self.inner.sinks.map().insert(client, hints);
    }

    fn detach(&self, client: ClientId) -> Detaching<'_> {
        self.inner.sinks.map().remove(&client);
        Box::pin(std::future::ready(()))
    }

    fn release_at_once(&self, _: ReleaseRequest<'_>) -> bool {
        false
    }
}

impl Inner {
    async fn acquire(
        self: &Arc<Self>,
        handle: &tokio::runtime::Handle,
        claim: Claim,
    ) -> Result<AcquireOutcome, StoreError> {
        let session = session::current(&self.link).await?;
        let mut slot = self.slots.lock(&claim.key, claim.owner).await;
        slot.look_at(&session);
        let answer = self.acquire_in(handle, &session, &mut slot, &claim).await;
        let is_unknown = slot.unknown.is_some();
        self.slots.unlock(&claim.key, claim.owner, slot);
        if is_unknown {
            let inner = self.clone();
            handle.spawn(async move { inner.end_unknown(&claim.key, claim.owner).await });
        }
        answer.map_err(Failure::into_error)
    }

    async fn acquire_in(
        self: &Arc<Self>,
        handle: &tokio::runtime::Handle,
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
                        let (inner, key, owner) = (self.clone(), claim.key.clone(), claim.owner);
                        let (session, name) = (session.clone(), child.name.clone());
                        handle.spawn(async move {
                            inner
                                .watch(&session, &directory_of(&inner, &key), &name, &key, owner)
                                .await;
                        });
                    }
                    let before = u64::try_from(place - 1).unwrap_or(0);
                    return Ok(AcquireOutcome::busy(holder.position(before)));
                }
            }
        }
    }

    /// Starts the timer of a child, once.
    fn end_in_time(
        self: &Arc<Self>,
        handle: &tokio::runtime::Handle,
        claim: &Claim,
        child: &mut Child,
    ) {
        if child.is_timed {
            return;
        }
        child.is_timed = true;
        let (inner, key, owner) = (self.clone(), claim.key.clone(), claim.owner);
        let (name, ends) = (child.name.clone(), child.ends);
        handle.spawn(async move { inner.slots.end_in_time(key, owner, name, ends).await });
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

    async fn renew(&self, claim: Claim) -> Result<Renewal, StoreError> {
        let session = session::current(&self.link).await?;
        let mut slot = self.slots.lock(&claim.key, claim.owner).await;
        slot.look_at(&session);
        let answer = renew_in(&session, &mut slot, &claim).await;
        self.slots.unlock(&claim.key, claim.owner, slot);
        answer.map_err(Failure::into_error)
    }

    async fn release(&self, key: &LockKey, owner: OwnerId) -> Result<Released, StoreError> {
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

    /// Tells a waiter when no child is before its own.
    async fn watch(
        &self,
        session: &Session,
        directory: &str,
        name: &str,
        key: &LockKey,
        owner: OwnerId,
    ) {
        loop {
            let Ok(children) = list(session, directory).await else {
                // Without an answer, the waiter asks.
                break;
            };
            let Some(place) = children.iter().position(|it| it.name == name) else {
                return;
            };
            let Some(before) = place.checked_sub(1) else {
                break;
            };
            let path = format!("{directory}/{}", children[before].name);
            match session.client.get_and_watch_data(&path).await {
                Ok((_, _, watcher)) => drop(watcher.changed().await),
                Err(Error::NoNode) => {}
                Err(_) => break,
            }
        }
        let mut slot = self.slots.lock(key, owner).await;
        if let Some(child) = slot.child.as_mut().filter(|it| it.name == name) {
            child.is_watching = false;
            child.ends = child.ends.max(Instant::now() + GRANT_TTL);
        }
        self.slots.unlock(key, owner, slot);
        let sink = self.sinks.map().get(&owner.client()).cloned();
        if let Some(sink) = sink
            // The waiter asks: its lease needs a write.
            && !sink.hint(&Hint::new(key.as_str(), owner, 0))
        {
            self.sinks.map().remove(&owner.client());
        }
    }
}

fn directory_of(inner: &Inner, key: &LockKey) -> String {
    names::directory(&inner.config.root, key)
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

async fn list(session: &Session, directory: &str) -> Result<Vec<names::Child>, Error> {
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

fn data(ttl: Duration, (label, function): (&str, &str)) -> String {
    format!("{} {label} {function}", ttl.as_millis())
}

/// Reads the owner of the first child; `None` if the child is gone.
async fn holder(
    session: &Session,
    directory: &str,
    first: &names::Child,
) -> Result<Option<Holder>, Error> {
    let path = format!("{directory}/{}", first.name);
    let (data, stat) = match session.client.get_data(&path).await {
        Ok(read) => read,
        Err(Error::NoNode) => return Ok(None),
        Err(error) => return Err(error),
    };
    let text = String::from_utf8_lossy(&data);
    let mut words = text.split(' ');
    let mut word = || words.next().unwrap_or_default();
    let (ttl, label, function) = (word(), word(), word());
    let fence = u64::try_from(stat.czxid).unwrap_or(0);
    let mut holder = Holder::new(fence).fence(fence);
    if let Ok(ttl) = ttl.parse().map(Duration::from_millis) {
        // For people: the clock is that of the server.
        let written = Duration::from_millis(u64::try_from(stat.mtime).unwrap_or(0));
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        holder = holder.ttl(ttl.saturating_sub(now.saturating_sub(written)));
    }
    if !label.is_empty() {
        holder = holder.label(label);
    }
    if !function.is_empty() {
        holder = holder.function(function);
    }
    Ok(Some(holder))
}
