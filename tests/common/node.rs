//! A store in memory that behaves as a test says, as one of several.

use std::{
    future::pending,
    sync::{Arc, Mutex},
    time::Duration,
};

use dlock::{
    LockKey, LockMode,
    store::{
        AcquireOutcome, AcquireRequest, ClientId, Detaching, HintSink, LockModes, LockStore,
        OwnerId, Proposal, QuorumNode, RaiseRequest, Raised, ReleaseRequest, Released, RenewBatch,
        Renewal, StoreError, StoreErrorKind, StoreHooks, StoreProperties, memory::MemoryStore,
        renew_each,
    },
};
use tokio::time::sleep;

use super::Kind;

/// How a node treats requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mood {
    /// It answers at once.
    Well,
    /// It cannot be reached.
    Down,
    /// It neither does nor answers anything.
    Hung,
    /// It does what it is asked for at once, and never answers.
    Mute,
    /// It does what it is asked for at once, and answers after this time.
    Late(Duration),
    /// It does and answers what it is asked for after this time, if anybody still waits for it.
    Slow(Duration),
    /// Releases break off, and are carried out when the test says so: over an old connection.
    DefersReleases,
}

/// A server, in memory.
#[derive(Clone)]
pub(crate) struct Node {
    pub(crate) store: MemoryStore,
    state: Arc<Mutex<State>>,
}

struct State {
    mood: Mood,
    /// In the order of their arrival.
    asked: Vec<(Kind, OwnerId)>,
    deferred: Vec<(LockKey, OwnerId, LockMode)>,
}

impl Node {
    pub(crate) fn new() -> Self {
        let state = State {
            mood: Mood::Well,
            asked: Vec::new(),
            deferred: Vec::new(),
        };
        Self {
            store: MemoryStore::new(),
            state: Arc::new(Mutex::new(state)),
        }
    }

    /// The same server over another network.
    pub(crate) fn seen_by_another(&self) -> Self {
        Self {
            store: self.store.clone(),
            ..Self::new()
        }
    }

    /// Releases that were deferred come through at last. How many there were.
    pub(crate) async fn carry_out_deferred(&self) -> usize {
        let deferred = std::mem::take(&mut self.state.lock().unwrap().deferred);
        for (key, owner, mode) in &deferred {
            let request = ReleaseRequest::new(key, *owner).mode(*mode);
            self.store.release(request).await.unwrap();
        }
        deferred.len()
    }

    pub(crate) fn is(&self, mood: Mood) {
        self.state.lock().unwrap().mood = mood;
    }

    /// How many requests of this kind were sent to it.
    pub(crate) fn count(&self, kind: Kind) -> usize {
        let state = self.state.lock().unwrap();
        state.asked.iter().filter(|(it, _)| *it == kind).count()
    }

    /// All requests so far.
    pub(crate) fn asked(&self) -> Vec<(Kind, OwnerId)> {
        self.state.lock().unwrap().asked.clone()
    }

    async fn answer<T>(
        &self,
        kind: Kind,
        owner: OwnerId,
        carried_out: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let mood = {
            let mut state = self.state.lock().unwrap();
            state.asked.push((kind, owner));
            state.mood
        };
        match mood {
            Mood::Well | Mood::DefersReleases => carried_out.await,
            Mood::Down => Err(StoreError::new(
                StoreErrorKind::Unreachable,
                "it is switched off",
            )),
            Mood::Hung => pending().await,
            Mood::Mute => {
                carried_out.await?;
                pending().await
            }
            Mood::Late(time) => {
                let answer = carried_out.await;
                sleep(time).await;
                answer
            }
            Mood::Slow(time) => {
                sleep(time).await;
                carried_out.await
            }
        }
    }
}

impl LockStore for Node {
    async fn acquire(&self, request: AcquireRequest<'_>) -> Result<AcquireOutcome, StoreError> {
        self.answer(Kind::Acquire, request.owner, self.store.acquire(request))
            .await
    }

    async fn renew(&self, batch: RenewBatch<'_>) -> Vec<Result<Renewal, StoreError>> {
        renew_each(batch, |request| {
            self.answer(Kind::Renew, request.owner, self.store.renew_one(request))
        })
        .await
    }

    async fn release(&self, request: ReleaseRequest<'_>) -> Result<Released, StoreError> {
        let ReleaseRequest {
            key, owner, mode, ..
        } = request;
        {
            let mut state = self.state.lock().unwrap();
            if state.mood == Mood::DefersReleases {
                state.asked.push((Kind::Release, owner));
                state.deferred.push((key.clone(), owner, mode));
                return Err(StoreError::new(
                    StoreErrorKind::Disconnected,
                    "it broke off",
                ));
            }
        }
        self.answer(Kind::Release, owner, self.store.release(request))
            .await
    }

    fn properties(&self) -> StoreProperties<'_> {
        StoreProperties::new()
            .grants(true)
            .modes(LockModes::ALL)
            .hooks(self)
    }
}

impl QuorumNode for Node {
    async fn propose(&self, proposal: Proposal<'_>) -> Result<AcquireOutcome, StoreError> {
        let owner = proposal.request.owner;
        self.answer(Kind::Acquire, owner, self.store.propose(proposal))
            .await
    }

    async fn raise(&self, request: RaiseRequest<'_>) -> Result<Raised, StoreError> {
        let RaiseRequest { owner, .. } = request;
        self.answer(Kind::Raise, owner, self.store.raise(request))
            .await
    }
}

impl StoreHooks for Node {
    fn attach(&self, client: ClientId, hints: HintSink) {
        self.store.attach(client, hints);
    }

    fn detach(&self, client: ClientId) -> Detaching<'_> {
        self.store.detach(client)
    }

    fn release_at_once(&self, _request: ReleaseRequest<'_>) -> bool {
        false
    }
}
