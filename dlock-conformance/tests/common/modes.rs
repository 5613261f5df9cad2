//! Stores with a fault in what concerns shared locks and permits.

use std::sync::{Arc, Mutex};

use dlock_runtime::{
    LockKey, LockMode, StoreError,
    store::{
        AcquireOutcome, AcquireRequest, ClientId, Detaching, Hint, HintReceiver, HintSink,
        LockStore, OwnerId, Proposal, Queue, QuorumNode, RaiseRequest, Raised, ReleaseRequest,
        Released, RenewBatch, RenewRequest, Renewal, StoreHooks, StoreProperties,
        memory::MemoryStore, renew_each,
    },
};

/// A fault in what concerns modes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ModeFault {
    None,
    /// All leases are exclusive.
    AllExclusive,
    /// Permits are not counted.
    AnyNumber,
    /// A release takes the leases of the others along.
    ReleasesAll,
    /// A late renewal brings a lease back.
    RenewsTheDead,
    /// Every grant gives its own TTL to all holders.
    LastTtlCounts,
    /// An exclusive request has no place in the queue.
    WritersHaveNoPlace,
    /// A release grants one waiter only.
    GrantsOne,
    /// An exclusive waiter that leaves keeps its place.
    WritersStay,
    /// The number of a grant is its fence.
    NoNumbers,
    /// A shared request overtakes an exclusive one that waits for a notice.
    SharersPassNotices,
}

/// A store in memory with one [`ModeFault`].
pub(crate) struct WrongModes {
    store: MemoryStore,
    fault: ModeFault,
    /// Every request with a mode, in the order of its first arrival.
    seen: Mutex<Vec<(LockKey, OwnerId, LockMode)>>,
}

impl WrongModes {
    pub(crate) fn new(fault: ModeFault) -> Self {
        Self {
            store: MemoryStore::new(),
            fault,
            seen: Mutex::default(),
        }
    }

    /// Returns the other owners that have asked for the key.
    fn others(&self, key: &LockKey, owner: OwnerId) -> Vec<(OwnerId, LockMode)> {
        let seen = self.seen.lock().unwrap();
        let others = seen
            .iter()
            .filter(|(of, other, _)| of == key && *other != owner);
        others.map(|(_, other, mode)| (*other, *mode)).collect()
    }

    fn mode(&self, mode: LockMode) -> LockMode {
        match (self.fault, mode) {
            (ModeFault::AllExclusive, _) => LockMode::Exclusive,
            (ModeFault::AnyNumber, LockMode::Permits(_)) => LockMode::Shared,
            _ => mode,
        }
    }
}

impl LockStore for WrongModes {
    async fn acquire(&self, request: AcquireRequest<'_>) -> Result<AcquireOutcome, StoreError> {
        let mut request = request.mode(self.mode(request.mode));
        if self.fault == ModeFault::WritersHaveNoPlace && request.mode == LockMode::Exclusive {
            request = request.queue(Queue::No);
        }
        let asked = (request.key.clone(), request.owner, request.mode);
        {
            let mut seen = self.seen.lock().unwrap();
            if !seen.contains(&asked) {
                seen.push(asked);
            }
        }
        let answer = self.store.acquire(request).await?;
        let is_granted = matches!(answer, AcquireOutcome::Granted { .. });
        if is_granted && self.fault == ModeFault::LastTtlCounts {
            for (other, mode) in self.others(request.key, request.owner) {
                let renewal = RenewRequest::new(request.key, other, request.ttl);
                self.store.renew_one(renewal.mode(mode)).await?;
            }
        }
        Ok(answer)
    }

    async fn renew(&self, batch: RenewBatch<'_>) -> Vec<Result<Renewal, StoreError>> {
        renew_each(batch, async |request| {
            let request = request.mode(self.mode(request.mode));
            let answer = self.store.renew_one(request).await?;
            if answer == Renewal::NotOwner && self.fault == ModeFault::RenewsTheDead {
                // As often as there are places, the lease is back.
                let again = AcquireRequest::new(request.key, request.owner, request.ttl);
                self.store.acquire(again.mode(LockMode::Shared)).await?;
                return Ok(Renewal::Renewed);
            }
            Ok(answer)
        })
        .await
    }

    async fn release(&self, request: ReleaseRequest<'_>) -> Result<Released, StoreError> {
        let request = request.mode(self.mode(request.mode));
        let (key, owner) = (request.key, request.owner);
        let renewal = RenewRequest::new(key, owner, std::time::Duration::from_secs(30));
        let renewed = self.store.renew_one(renewal.mode(request.mode)).await?;
        let is_held = renewed == Renewal::Renewed;
        if self.fault == ModeFault::WritersStay && request.mode.is_exclusive() && !is_held {
            return Ok(Released::WasGone);
        }
        let waited = self.waiters(key, owner).await;
        let answer = self.store.release(request).await?;
        if is_held && self.fault == ModeFault::ReleasesAll {
            for (other, mode) in self.others(key, owner) {
                self.store
                    .release(ReleaseRequest::new(key, other).mode(mode))
                    .await?;
            }
        }
        if is_held && self.fault == ModeFault::GrantsOne {
            for (other, mode) in waited.into_iter().skip(1) {
                let renewal = RenewRequest::new(key, other, std::time::Duration::from_secs(30));
                if self.store.renew_one(renewal.mode(mode)).await? == Renewal::Renewed {
                    self.store
                        .release(ReleaseRequest::new(key, other).mode(mode))
                        .await?;
                }
            }
        }
        self.seen
            .lock()
            .unwrap()
            .retain(|(of, it, _)| of != key || *it != owner);
        Ok(answer)
    }

    fn properties(&self) -> StoreProperties<'_> {
        self.store.properties().hooks(self)
    }
}

impl WrongModes {
    /// Returns the owners that have asked for the key and do not hold it.
    async fn waiters(&self, key: &LockKey, owner: OwnerId) -> Vec<(OwnerId, LockMode)> {
        let mut waiters = Vec::new();
        if self.fault != ModeFault::GrantsOne {
            return waiters;
        }
        for (other, mode) in self.others(key, owner) {
            let renewal = RenewRequest::new(key, other, std::time::Duration::from_secs(30));
            let renewed = self.store.renew_one(renewal.mode(mode)).await;
            if renewed == Ok(Renewal::NotOwner) {
                waiters.push((other, mode));
            }
        }
        waiters
    }
}

impl QuorumNode for WrongModes {
    async fn propose(&self, proposal: Proposal<'_>) -> Result<AcquireOutcome, StoreError> {
        let AcquireRequest {
            key, owner, mode, ..
        } = proposal.request;
        if self.fault == ModeFault::SharersPassNotices && mode == LockMode::Shared {
            for (other, mode) in self.others(key, owner) {
                if mode.is_exclusive() {
                    self.store.release(ReleaseRequest::new(key, other)).await?;
                }
            }
        }
        self.seen.lock().unwrap().push((key.clone(), owner, mode));
        self.store.propose(proposal).await
    }

    async fn raise(&self, request: RaiseRequest<'_>) -> Result<Raised, StoreError> {
        self.store.raise(request).await
    }
}

impl StoreHooks for WrongModes {
    fn attach(&self, client: ClientId, hints: HintSink) {
        let hints = match self.fault {
            ModeFault::NoNumbers => HintSink::new(Arc::new(Unnumbered(hints))),
            _ => hints,
        };
        self.store.attach(client, hints);
    }

    fn detach(&self, client: ClientId) -> Detaching<'_> {
        self.store.detach(client)
    }

    fn release_at_once(&self, request: ReleaseRequest<'_>) -> bool {
        self.store.release_at_once(request)
    }
}

/// A sink whose hints date a grant by its fence.
struct Unnumbered(HintSink);

impl HintReceiver for Unnumbered {
    fn hint(&self, hint: &Hint<'_>) -> bool {
        self.0.hint(&Hint::new(hint.key, hint.owner, hint.fence))
    }

    fn look_again(&self) -> bool {
        self.0.look_again()
    }
}
