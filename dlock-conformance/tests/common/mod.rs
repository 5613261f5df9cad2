//! A store in memory with one fault.

pub(crate) mod modes;

use std::{
    collections::{HashMap, HashSet},
    future::pending,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use dlock_runtime::{
    Holder, LockKey, StoreError, StoreErrorKind,
    store::{
        AcquireOutcome, AcquireRequest, ClientId, Detaching, Hint, HintReceiver, HintSink,
        LockModes, LockStore, OwnerId, Proposal, Queue, QuorumNode, RaiseRequest, Raised,
        ReleaseRequest, Released, RenewBatch, RenewRequest, Renewal, StoreHooks, StoreProperties,
        memory::MemoryStore, renew_each,
    },
};
use tokio::{task::yield_now, time::Instant};

/// The fault of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    Panics,
    Hangs,
    /// A renewal and every release panic.
    ReleasePanics,
    /// A request that does not wait gets a held key, if it is repeated often enough.
    SharesHeldKeys,
    /// All keys are one lock.
    OneLock,
    /// Keys that differ only in case are one lock.
    LowercasesKeys,
    /// No lease lasts longer than ten seconds.
    ClampsTtls,
    /// The first fence is 0.
    FirstFenceIsZero,
    /// A renewal of an expired lease acquires it again, if no other owner has acquired it since.
    RevivesTheDead,
    /// All simultaneous requests are granted.
    GrantsAllAtOnce,
    /// A repeated request gets another fence.
    NewFenceForARepeat,
    /// A repeated request does not change the TTL.
    RepeatKeepsTtl,
    /// A renewal does not change the TTL.
    RenewalKeepsTtl,
    /// The answers to a batch are in another order.
    BatchReversed,
    /// The last answer of a batch is missing.
    BatchShort,
    /// A release needs no owner.
    AnybodyReleases,
    /// A renewal of another owner returns `Renewed`.
    AnybodyRenews,
    /// A renewal of an expired lease returns `Renewed`.
    RenewsTheDead,
    /// Leases end early.
    ShortLeases,
    /// Fences decrease after a lease has expired.
    FencesFall,
    /// An owner that does not wait has a place in the queue.
    AlwaysQueues,
    /// The store does not support the mode that its properties list.
    RefusesModes,
    /// `release_at_once` does nothing and returns `true`.
    FeignsRelease,
    /// A waiter that repeats its request goes to the end of the queue.
    LosesPlaces,
    /// `Busy` does not contain the function.
    NoFunction,
    /// A refused renewal prolongs the lease of the holder.
    StrangersProlong,
    /// A waiter that releases its place keeps it.
    KeepsPlaces,
    /// A waiter is forgotten after a second.
    ForgetsWaiters,
    /// A grant to a waiter never expires.
    GrantsForEver,
    /// `last_fence` of a busy answer is that of the previous answer.
    OldLastFence,
    /// The properties do not declare that a release grants.
    HidesGrants,
    /// A release grants to the newest waiter.
    LastComeFirstServed,
    /// A newcomer gets a free key although others wait.
    LetsOvertake,
    /// A renewal removes the label.
    RenewalUnnames,
    /// A hint contains another fence.
    HintsWrongFence,
    /// No hint is sent.
    NoHints,
    /// Hints go to every manager.
    HintsForAll,
    /// Proposals are ignored.
    IgnoresProposals,
    /// A fence is raised whatever its value was.
    RaisesAnyGrant,
    /// A raise starts the TTL anew.
    RaiseProlongs,
    /// A waiter for a notice is made the holder.
    GrantsToNotice,
    /// A waiter for a notice stays in the queue after it has acquired the key.
    StaysInQueue,
    /// A waiter for a lease waits for a notice.
    LeaseWaitersWaitForNotice,
    /// A notice has a fence.
    NoticeWithFence,
}

/// A store in memory with one [`Fault`].
pub(crate) struct Wrong {
    store: MemoryStore,
    fault: Fault,
    known: Mutex<Known>,
    sinks: Arc<Mutex<Vec<HintSink>>>,
}

/// The observed requests.
#[derive(Default)]
struct Known {
    held: HashMap<LockKey, Held>,
    /// In the order of arrival, with the time of the last request.
    waiters: HashMap<LockKey, Vec<(OwnerId, Instant)>>,
    in_flight: HashMap<LockKey, usize>,
    last_told: HashMap<LockKey, u64>,
    unnamed: HashSet<LockKey>,
    /// The owner of the first fence.
    first: Option<OwnerId>,
    /// Owners whose leases have expired.
    dead: HashSet<OwnerId>,
    /// Keys with waiters for a notice.
    noticed: HashSet<LockKey>,
}

#[derive(Clone, Copy)]
struct Held {
    owner: OwnerId,
    fence: u64,
    until: Instant,
}

impl Held {
    fn is_over(&self) -> bool {
        self.until <= Instant::now()
    }
}

impl Wrong {
    pub(crate) fn new(store: MemoryStore, fault: Fault) -> Self {
        Self {
            store,
            fault,
            known: Mutex::default(),
            sinks: Arc::default(),
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap()
    }

    fn held(&self, key: &LockKey) -> Option<Held> {
        self.known().held.get(key).copied()
    }

    fn waiters(&self, key: &LockKey) -> Vec<(OwnerId, Instant)> {
        let waiters = self.known().waiters.get(key).cloned();
        waiters.unwrap_or_default()
    }

    /// Returns the key under which the store keeps the lock.
    fn key(&self, key: &LockKey) -> LockKey {
        match self.fault {
            Fault::OneLock => LockKey::new("one").unwrap(),
            Fault::LowercasesKeys => LockKey::new(key.as_str().to_lowercase()).unwrap(),
            _ => key.clone(),
        }
    }

    /// Returns the TTL for which the store keeps a lease.
    fn ttl(&self, ttl: Duration) -> Duration {
        match self.fault {
            Fault::ShortLeases if ttl < Duration::from_secs(2) => ttl / 2,
            Fault::ClampsTtls => ttl.min(Duration::from_secs(10)),
            _ => ttl,
        }
    }

    fn waits(&self, key: &LockKey, owner: OwnerId) -> bool {
        self.waiters(key).iter().any(|(it, _)| *it == owner)
    }

    /// Runs before a request for a key. It may replace the answer or change the store.
    async fn before(&self, request: &AcquireRequest<'_>) -> Option<AcquireOutcome> {
        let (key, owner) = (request.key, request.owner);
        let held = self.held(key);
        match self.fault {
            Fault::RepeatKeepsTtl => {
                let mine = held.filter(|it| it.owner == owner && !it.is_over())?;
                return Some(AcquireOutcome::granted(mine.fence));
            }
            Fault::LosesPlaces if self.waits(key, owner) => {
                self.store
                    .release(ReleaseRequest::new(key, owner))
                    .await
                    .unwrap();
            }
            Fault::ForgetsWaiters => {
                let now = Instant::now();
                let old = |since: Instant| now - since > Duration::from_secs(1);
                for (waiter, since) in self.waiters(key) {
                    if waiter != owner && old(since) {
                        self.store
                            .release(ReleaseRequest::new(key, waiter))
                            .await
                            .unwrap();
                    }
                }
            }
            Fault::LetsOvertake
                if request.queue == Queue::No && held.is_some_and(|it| it.is_over()) =>
            {
                for (waiter, _) in self.waiters(key) {
                    self.store
                        .release(ReleaseRequest::new(key, waiter))
                        .await
                        .unwrap();
                }
            }
            _ => {}
        }
        None
    }

    /// Returns the answer as changed by the fault.
    fn after(&self, request: &AcquireRequest<'_>, answer: AcquireOutcome) -> AcquireOutcome {
        let (key, before) = (request.key, self.held(request.key));
        match answer {
            AcquireOutcome::Granted { fence, .. } => {
                let is_repeated = before.is_some_and(|it| it.owner == request.owner);
                match self.fault {
                    Fault::FirstFenceIsZero => {
                        let first = *self.known().first.get_or_insert(request.owner);
                        let is_first = first == request.owner;
                        AcquireOutcome::granted(if is_first { 0 } else { fence })
                    }
                    Fault::NewFenceForARepeat if is_repeated => AcquireOutcome::granted(fence + 1),
                    Fault::FencesFall if request.queue == Queue::No => {
                        AcquireOutcome::granted((1 << 60) - fence)
                    }
                    _ => AcquireOutcome::granted(fence),
                }
            }
            AcquireOutcome::Busy(holder) => self.refused(request, key, holder),
            other => other,
        }
    }

    fn refused(
        &self,
        request: &AcquireRequest<'_>,
        key: &LockKey,
        mut holder: Holder,
    ) -> AcquireOutcome {
        let mut known = self.known();
        match self.fault {
            Fault::SharesHeldKeys if request.queue == Queue::No => {
                return AcquireOutcome::granted(holder.last_fence + 1);
            }
            Fault::GrantsAllAtOnce if known.in_flight.get(key).is_some_and(|it| *it > 1) => {
                return AcquireOutcome::granted(holder.last_fence + 1);
            }
            Fault::NoFunction => holder.function = None,
            Fault::OldLastFence => {
                let told = known.last_told.insert(key.clone(), holder.last_fence);
                holder.last_fence = told.unwrap_or_default();
            }
            Fault::RenewalUnnames if known.unnamed.contains(key) => holder.label = None,
            _ => {}
        }
        AcquireOutcome::busy(holder)
    }

    fn note(&self, request: &AcquireRequest<'_>, answer: &AcquireOutcome, waits: bool) {
        let (key, owner) = (request.key.clone(), request.owner);
        let mut known = self.known();
        match answer {
            AcquireOutcome::Granted { fence, .. } => {
                let until = Instant::now() + request.ttl;
                let fence = *fence;
                let held = Held {
                    owner,
                    fence,
                    until,
                };
                let before = known.held.insert(key.clone(), held);
                if let Some(before) = before.filter(|it| it.owner != owner && it.is_over()) {
                    known.dead.insert(before.owner);
                }
                let waiters = known.waiters.entry(key).or_default();
                waiters.retain(|(it, _)| *it != owner);
            }
            _ if waits => {
                let waiters = known.waiters.entry(key).or_default();
                let now = Instant::now();
                match waiters.iter_mut().find(|(it, _)| *it == owner) {
                    Some((_, since)) => *since = now,
                    None => waiters.push((owner, now)),
                }
            }
            _ => {}
        }
    }

    async fn renew_one(&self, request: RenewRequest<'_>) -> Result<Renewal, StoreError> {
        let (key, owner) = (request.key, request.owner);
        let held = self.held(key);
        match self.fault {
            Fault::Panics | Fault::ReleasePanics => panic!("on purpose"),
            Fault::Hangs => pending().await,
            Fault::RenewalKeepsTtl if held.is_some_and(|it| it.owner == owner) => {
                return Ok(Renewal::Renewed);
            }
            Fault::RenewalUnnames => {
                let mut known = self.known();
                if request.label.is_empty() {
                    known.unnamed.insert(key.clone());
                } else {
                    known.unnamed.remove(key);
                }
            }
            _ => {}
        }
        let request = match self.fault {
            Fault::ClampsTtls => request.ttl(self.ttl(request.ttl)),
            _ => request,
        };
        let answer = self.store.renew_one(request).await?;
        if answer == Renewal::Renewed {
            return Ok(answer);
        }
        match (self.fault, held) {
            (Fault::AnybodyRenews, Some(it)) if it.owner != owner && !it.is_over() => {
                Ok(Renewal::Renewed)
            }
            (Fault::RenewsTheDead, Some(_)) if self.known().dead.contains(&owner) => {
                Ok(Renewal::Renewed)
            }
            (Fault::RevivesTheDead, Some(it)) if it.owner == owner && it.is_over() => {
                let again = AcquireRequest::new(key, owner, request.ttl);
                let again = self.store.acquire(again).await?;
                assert!(matches!(again, AcquireOutcome::Granted { .. }), "{again:?}");
                Ok(Renewal::Renewed)
            }
            (Fault::StrangersProlong, Some(it)) if it.owner != owner => {
                self.store.renew_one(request.owner(it.owner)).await?;
                Ok(answer)
            }
            _ => Ok(answer),
        }
    }

    /// Makes the waiters enter the queue again, the newest first.
    async fn turn_round(&self, key: &LockKey) {
        let waiters = self.waiters(key);
        for (waiter, _) in &waiters {
            self.store
                .release(ReleaseRequest::new(key, *waiter))
                .await
                .unwrap();
        }
        for (waiter, _) in waiters.iter().rev() {
            let again = AcquireRequest::new(key, *waiter, Duration::from_secs(30));
            let again = self.store.acquire(again.queue(Queue::ForLease)).await;
            assert!(matches!(again, Ok(AcquireOutcome::Busy(_))), "{again:?}");
        }
    }
}

impl LockStore for Wrong {
    async fn acquire(&self, request: AcquireRequest<'_>) -> Result<AcquireOutcome, StoreError> {
        let key = self.key(request.key);
        let mut asked = request.key(&key).ttl(self.ttl(request.ttl));
        match self.fault {
            Fault::AlwaysQueues => asked = asked.queue(Queue::ForLease),
            Fault::RefusesModes if asked.ttl == self.properties().longest_ttl => {
                return Err(StoreError::new(StoreErrorKind::Unsupported, "no such mode"));
            }
            _ => {}
        }
        if let Some(answer) = self.before(&asked).await {
            return Ok(answer);
        }
        *self.known().in_flight.entry(asked.key.clone()).or_default() += 1;
        if self.fault == Fault::GrantsAllAtOnce {
            yield_now().await;
        }
        let answer = if self.fault == Fault::LeaseWaitersWaitForNotice {
            let notice = asked.queue == Queue::ForLease;
            self.store
                .propose(Proposal::new(asked, 0).notice(notice))
                .await?
        } else {
            self.store.acquire(asked).await?
        };
        let told = self.after(&asked, answer.clone());
        self.note(&asked, &answer, asked.queue == Queue::ForLease);
        if self.fault == Fault::GrantsAllAtOnce {
            yield_now().await;
        }
        *self.known().in_flight.get_mut(asked.key).unwrap() -= 1;
        Ok(told)
    }

    async fn renew(&self, batch: RenewBatch<'_>) -> Vec<Result<Renewal, StoreError>> {
        let mut answers = renew_each(batch, async |request| {
            let key = self.key(request.key);
            self.renew_one(request.key(&key)).await
        })
        .await;
        match self.fault {
            Fault::BatchReversed => answers.reverse(),
            Fault::BatchShort if answers.len() > 1 => drop(answers.pop()),
            _ => {}
        }
        answers
    }

    async fn release(&self, request: ReleaseRequest<'_>) -> Result<Released, StoreError> {
        assert!(self.fault != Fault::ReleasePanics, "on purpose again");
        let key = self.key(request.key);
        let request = request.key(&key);
        let ReleaseRequest { key, owner, .. } = request;
        let (held, waits) = (self.held(key), self.waits(key, owner));
        let is_holder = held.is_some_and(|it| it.owner == owner && !it.is_over());
        match self.fault {
            Fault::KeepsPlaces | Fault::StaysInQueue if waits && !is_holder => {
                let is_meant = self.fault == Fault::KeepsPlaces;
                // The first fault concerns waiters for a lease, the second waiters for a notice.
                if is_meant != self.known().noticed.contains(key) {
                    return Ok(Released::WasGone);
                }
            }
            Fault::LastComeFirstServed if is_holder => self.turn_round(key).await,
            _ => {}
        }
        let answer = self.store.release(request).await?;
        let next = self.waiters(key).into_iter().find(|(it, _)| *it != owner);
        if let Some(waiters) = self.known().waiters.get_mut(key) {
            waiters.retain(|(it, _)| *it != owner);
        }
        match self.fault {
            Fault::AnybodyReleases if answer == Released::WasGone && !waits => {
                if let Some(held) = held {
                    self.store
                        .release(ReleaseRequest::new(key, held.owner))
                        .await?;
                }
            }
            Fault::GrantsForEver if answer == Released::WasHeld => {
                if let Some((next, _)) = next {
                    let for_ever = Duration::from_secs(3600);
                    let renewal = RenewRequest::new(key, next, for_ever);
                    self.store.renew_one(renewal).await?;
                }
            }
            _ => {}
        }
        if is_holder {
            self.known().held.remove(key);
        }
        Ok(answer)
    }

    fn properties(&self) -> StoreProperties<'_> {
        let properties = self.store.properties().hooks(self);
        // Stores with faults in their modes are tried apart.
        let properties = properties.modes(LockModes::EXCLUSIVE);
        properties.grants(self.fault != Fault::HidesGrants)
    }
}

impl QuorumNode for Wrong {
    async fn propose(&self, proposal: Proposal<'_>) -> Result<AcquireOutcome, StoreError> {
        let key = self.key(proposal.request.key);
        let proposal = proposal.request(proposal.request.key(&key));
        let (request, notice) = (proposal.request, proposal.notice);
        let answer = match self.fault {
            Fault::IgnoresProposals => {
                let ignored = Proposal::new(request, 0).notice(notice);
                self.store.propose(ignored).await?
            }
            Fault::GrantsToNotice if notice => {
                self.store.acquire(request.queue(Queue::ForLease)).await?
            }
            _ => self.store.propose(proposal).await?,
        };
        self.note(&request, &answer, notice);
        if notice && self.fault == Fault::StaysInQueue {
            self.known().noticed.insert(request.key.clone());
        }
        Ok(answer)
    }

    async fn raise(&self, request: RaiseRequest<'_>) -> Result<Raised, StoreError> {
        let key = self.key(request.key);
        let request = request.key(&key);
        let RaiseRequest { key, owner, .. } = request;
        let held = self.held(key).filter(|it| it.owner == owner);
        let request = match (self.fault, held) {
            (Fault::RaisesAnyGrant, Some(held)) => request.from(held.fence),
            _ => request,
        };
        let raised = self.store.raise(request).await?;
        if self.fault == Fault::RaiseProlongs && raised == Raised::Raised {
            let renewal = RenewRequest::new(key, owner, Duration::from_secs(30));
            self.store.renew_one(renewal).await?;
        }
        Ok(raised)
    }
}

impl StoreHooks for Wrong {
    fn attach(&self, client: ClientId, hints: HintSink) {
        self.sinks.lock().unwrap().push(hints.clone());
        let sinks = self.sinks.clone();
        let fault = self.fault;
        if fault != Fault::NoHints {
            let spoiled = Spoiled {
                sink: hints,
                sinks,
                fault,
            };
            self.store.attach(client, HintSink::new(Arc::new(spoiled)));
        }
    }

    fn detach(&self, client: ClientId) -> Detaching<'_> {
        self.store.detach(client)
    }

    fn release_at_once(&self, request: ReleaseRequest<'_>) -> bool {
        let key = self.key(request.key);
        self.fault == Fault::FeignsRelease || self.store.release_at_once(request.key(&key))
    }
}

/// A sink that changes hints.
struct Spoiled {
    sink: HintSink,
    sinks: Arc<Mutex<Vec<HintSink>>>,
    fault: Fault,
}

impl HintReceiver for Spoiled {
    fn hint(&self, hint: &Hint<'_>) -> bool {
        let mut hint = hint.clone();
        match self.fault {
            Fault::HintsWrongFence if hint.fence > 0 => hint.fence += 1,
            Fault::NoticeWithFence if hint.fence == 0 => hint.fence = 7,
            Fault::HintsForAll if hint.fence > 0 => {
                for sink in &*self.sinks.lock().unwrap() {
                    assert!(sink.hint(&hint), "it listens");
                }
                return true;
            }
            _ => {}
        }
        self.sink.hint(&hint)
    }

    fn look_again(&self) -> bool {
        self.sink.look_again()
    }
}
