//! A connection to a store that fails as the test decides, request by request.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};

use dlock::{
    LockKey,
    store::{
        AcquireOutcome, AcquireRequest, ClientId, Detaching, HintSink, LockStore, OwnerId,
        Proposal, Queue, QuorumNode, RaiseRequest, Raised, ReleaseRequest, Released, RenewBatch,
        RenewRequest, Renewal, StoreError, StoreErrorKind, StoreHooks, StoreProperties, renew_each,
    },
};
use dlock_waiting::eventually;
use futures_util::{FutureExt, future::BoxFuture};
use tokio::sync::{mpsc, oneshot, watch};

use super::LIMIT;

/// The requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Acquire,
    Renew,
    Release,
    Raise,
}

/// What becomes of a request.
#[derive(Clone, Debug)]
pub(crate) enum Fate {
    /// The connection breaks before the store has seen it.
    Lost,
    /// The store carries it out, and the connection breaks before the answer.
    ReplyLost,
    /// The store never sees it, and nobody is told.
    Swallowed,
    /// The store carries it out, and nobody is told.
    ReplySwallowed,
    /// The store carries it out; the answer comes when the gate opens.
    ReplyHeld(watch::Receiver<bool>),
    /// It is carried out when the gate opens, and all that is sent after it comes later.
    Stalled(watch::Receiver<bool>),
    /// The store refuses it for this reason.
    Refused(StoreErrorKind),
}

impl Fate {
    /// A request or its answer does not arrive, in every way.
    pub(crate) const LOSSES: [Self; 4] = [
        Self::Lost,
        Self::ReplyLost,
        Self::Swallowed,
        Self::ReplySwallowed,
    ];
}

/// One request that was sent.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) kind: Kind,
    pub(crate) owner: OwnerId,
    /// The fence, if it was carried out and has granted the key.
    pub(crate) fence: Option<u64>,
    pub(crate) carried_out: bool,
    /// Whether it was a question that was carried out and has left nothing: the key was busy, and
    /// no place in its queue asked for.
    pub(crate) left_nothing: bool,
}

/// A store behind one connection, which carries out requests in the order in which they were sent,
/// also those whose senders have gone.
pub(crate) struct Wire<S> {
    store: Arc<S>,
    requests: mpsc::UnboundedSender<Request<S>>,
    faults: Arc<Mutex<Faults>>,
}

impl<S> Clone for Wire<S> {
    fn clone(&self) -> Self {
        Self {
            store: self.store.clone(),
            requests: self.requests.clone(),
            faults: self.faults.clone(),
        }
    }
}

#[derive(Default)]
struct Faults {
    planned: VecDeque<(Kind, Fate)>,
    always: Vec<(Kind, Fate)>,
    sent: Vec<Sent>,
}

struct Request<S> {
    /// Its place among those that were sent.
    number: usize,
    /// Whether it asks for a place in the queue, or for more than that.
    asks: bool,
    work: Work<S>,
    fate: Option<Fate>,
    reply: oneshot::Sender<Answer>,
}

/// What the other end of the connection does for a request.
type Work<S> = Box<dyn FnOnce(Arc<S>) -> BoxFuture<'static, Answer> + Send>;

#[derive(Debug)]
enum Answer {
    Acquired(AcquireOutcome),
    Renewed(Renewal),
    Released(Released),
    Raised(Raised),
    Refused(StoreErrorKind),
}

impl<S: LockStore> Wire<S> {
    pub(crate) fn new(store: S) -> Self {
        let store = Arc::new(store);
        let faults = Arc::default();
        let (requests, inbox) = mpsc::unbounded_channel();
        tokio::spawn(carry(store.clone(), Arc::clone(&faults), inbox));
        Self {
            store,
            requests,
            faults,
        }
    }

    /// What becomes of the next request of this kind for which nothing is planned yet.
    pub(crate) fn next(&self, kind: Kind, fate: Fate) {
        self.faults.lock().unwrap().planned.push_back((kind, fate));
    }

    /// What becomes of all requests of this kind for which nothing else is planned.
    pub(crate) fn always(&self, kind: Kind, fate: Fate) {
        self.faults.lock().unwrap().always.push((kind, fate));
    }

    /// Nothing fails any more.
    pub(crate) fn heal(&self) {
        let mut faults = self.faults.lock().unwrap();
        faults.planned.clear();
        faults.always.clear();
    }

    /// All requests so far.
    pub(crate) fn sent(&self) -> Vec<Sent> {
        self.faults.lock().unwrap().sent.clone()
    }

    pub(crate) fn count(&self, kind: Kind) -> usize {
        self.sent().iter().filter(|sent| sent.kind == kind).count()
    }

    /// Waits until `count` requests of this kind have been sent.
    pub(crate) async fn until_sent(&self, kind: Kind, count: usize) {
        eventually(LIMIT, "the request is sent", async || {
            self.count(kind) >= count
        })
        .await;
    }

    /// Whoever has asked has given back afterwards.
    pub(crate) fn assert_nothing_is_owed(&self) {
        let mut sent = self.sent();
        // A renewal is sent by another thread, which may come after the release. It brings no lease back.
        sent.retain(|sent| sent.kind != Kind::Renew);
        for asked in sent.iter().filter(|sent| sent.kind == Kind::Acquire) {
            let last = sent.iter().rfind(|sent| sent.owner == asked.owner).unwrap();
            let settled = last.kind == Kind::Release && last.carried_out;
            assert!(
                settled || last.left_nothing,
                "the last word of an owner was {last:?}"
            );
        }
    }

    async fn send(
        &self,
        kind: Kind,
        owner: OwnerId,
        asks: bool,
        work: impl FnOnce(Arc<S>) -> BoxFuture<'static, Answer> + Send + 'static,
    ) -> Result<Answer, StoreError> {
        let (reply, answer) = oneshot::channel();
        let broken = || StoreError::new(StoreErrorKind::Disconnected, "the connection broke");
        let (number, fate) = self.faults.lock().unwrap().note(kind, owner);
        let request = Request {
            number,
            asks,
            work: Box::new(work),
            fate,
            reply,
        };
        self.requests.send(request).map_err(|_| broken())?;
        match answer.await.map_err(|_| broken())? {
            Answer::Refused(kind) => Err(StoreError::new(kind, "the store refuses it")),
            answer => Ok(answer),
        }
    }
}

impl Faults {
    fn note(&mut self, kind: Kind, owner: OwnerId) -> (usize, Option<Fate>) {
        self.sent.push(Sent {
            kind,
            owner,
            fence: None,
            carried_out: false,
            left_nothing: false,
        });
        let planned = self.planned.iter().position(|(it, _)| *it == kind);
        let always = self.always.iter().find(|(it, _)| *it == kind);
        let fate = match planned {
            Some(index) => self.planned.remove(index).map(|(_, fate)| fate),
            None => always.map(|(_, fate)| fate.clone()),
        };
        (self.sent.len() - 1, fate)
    }
}

/// The other end of the connection.
async fn carry<S: LockStore>(
    store: Arc<S>,
    faults: Arc<Mutex<Faults>>,
    mut inbox: mpsc::UnboundedReceiver<Request<S>>,
) {
    let mut never_answered = Vec::new();
    while let Some(request) = inbox.recv().await {
        match &request.fate {
            Some(Fate::Lost) => continue,
            Some(Fate::Swallowed) => {
                never_answered.push(request.reply);
                continue;
            }
            Some(Fate::Stalled(gate)) => open(gate.clone()).await,
            Some(Fate::Refused(kind)) => {
                request.reply.send(Answer::Refused(*kind)).ok();
                continue;
            }
            _ => {}
        }
        let answer = (request.work)(store.clone()).await;
        {
            let mut faults = faults.lock().unwrap();
            let noted = &mut faults.sent[request.number];
            noted.carried_out = true;
            match &answer {
                Answer::Acquired(AcquireOutcome::Granted { fence, .. }) => {
                    noted.fence = Some(*fence);
                }
                Answer::Acquired(_) if !request.asks => noted.left_nothing = true,
                _ => {}
            }
        }
        match request.fate {
            Some(Fate::ReplyLost) => {}
            Some(Fate::ReplySwallowed) => never_answered.push(request.reply),
            Some(Fate::ReplyHeld(gate)) => {
                tokio::spawn(async move {
                    open(gate).await;
                    request.reply.send(answer).ok();
                });
            }
            _ => {
                request.reply.send(answer).ok();
            }
        }
    }
}

/// Waits for a gate that the test opens, or drops.
async fn open(mut gate: watch::Receiver<bool>) {
    gate.wait_for(|open| *open).await.ok();
}

impl<S: LockStore> Wire<S> {
    async fn renew_one(&self, request: RenewRequest<'_>) -> Result<Renewal, StoreError> {
        let (key, RenewRequest { owner, ttl, .. }) = (request.key.clone(), request);
        let mode = request.mode;
        let (label, function) = (request.label.to_owned(), request.function.to_owned());
        let work = move |store: Arc<S>| {
            let renewed = async move {
                let request = RenewRequest::new(&key, owner, ttl).mode(mode);
                let request = request.label(&label).function(&function);
                Answer::Renewed(store.renew_one(request).await.unwrap())
            };
            renewed.boxed()
        };
        match self.send(Kind::Renew, owner, true, work).await? {
            Answer::Renewed(answer) => Ok(answer),
            other => unreachable!("{other:?} answers another request"),
        }
    }
}

impl<S: LockStore> LockStore for Wire<S> {
    async fn acquire(&self, request: AcquireRequest<'_>) -> Result<AcquireOutcome, StoreError> {
        let (key, owner) = (request.key.clone(), request.owner);
        let (ttl, queue, mode) = (request.ttl, request.queue, request.mode);
        let (label, function) = (request.label.to_owned(), request.function.to_owned());
        let work = move |store: Arc<S>| {
            let acquired = async move {
                let request = AcquireRequest::new(&key, owner, ttl).queue(queue);
                let request = request.mode(mode).label(&label).function(&function);
                Answer::Acquired(store.acquire(request).await.unwrap())
            };
            acquired.boxed()
        };
        let asks = queue != Queue::No;
        match self.send(Kind::Acquire, owner, asks, work).await? {
            Answer::Acquired(answer) => Ok(answer),
            other => unreachable!("{other:?} answers another request"),
        }
    }

    async fn renew(&self, batch: RenewBatch<'_>) -> Vec<Result<Renewal, StoreError>> {
        renew_each(batch, |request| self.renew_one(request)).await
    }

    async fn release(&self, request: ReleaseRequest<'_>) -> Result<Released, StoreError> {
        let ReleaseRequest { owner, mode, .. } = request;
        let key = request.key.clone();
        let work = move |store: Arc<S>| {
            let released = async move {
                let request = ReleaseRequest::new(&key, owner).mode(mode);
                Answer::Released(store.release(request).await.unwrap())
            };
            released.boxed()
        };
        match self.send(Kind::Release, owner, true, work).await? {
            Answer::Released(answer) => Ok(answer),
            other => unreachable!("{other:?} answers another request"),
        }
    }

    /// A connection that hangs does not give up, and the clocks at its ends differ.
    fn properties(&self) -> StoreProperties<'_> {
        let StoreProperties { grants, modes, .. } = self.store.properties();
        StoreProperties::new()
            .grants(grants)
            .modes(modes)
            .hooks(self)
    }
}

impl<S: QuorumNode> QuorumNode for Wire<S> {
    async fn propose(&self, proposal: Proposal<'_>) -> Result<AcquireOutcome, StoreError> {
        let (request, fence, notice) = (proposal.request, proposal.fence, proposal.notice);
        let (key, owner, ttl) = (request.key.clone(), request.owner, request.ttl);
        let mode = request.mode;
        let (label, function) = (request.label.to_owned(), request.function.to_owned());
        let work = move |store: Arc<S>| {
            let acquired = async move {
                let request = AcquireRequest::new(&key, owner, ttl).mode(mode);
                let request = request.label(&label).function(&function);
                let proposal = Proposal::new(request, fence).notice(notice);
                Answer::Acquired(store.propose(proposal).await.unwrap())
            };
            acquired.boxed()
        };
        match self.send(Kind::Acquire, owner, notice, work).await? {
            Answer::Acquired(answer) => Ok(answer),
            other => unreachable!("{other:?} answers another request"),
        }
    }

    async fn raise(&self, request: RaiseRequest<'_>) -> Result<Raised, StoreError> {
        let RaiseRequest {
            key,
            owner,
            from,
            to,
            ..
        } = request;
        let key = key.clone();
        let work = move |store: Arc<S>| {
            let raised = async move {
                Answer::Raised(
                    store
                        .raise(RaiseRequest::new(&key, owner, from, to))
                        .await
                        .unwrap(),
                )
            };
            raised.boxed()
        };
        match self.send(Kind::Raise, owner, true, work).await? {
            Answer::Raised(answer) => Ok(answer),
            other => unreachable!("{other:?} answers another request"),
        }
    }
}

impl<S: LockStore> StoreHooks for Wire<S> {
    fn attach(&self, client: ClientId, hints: HintSink) {
        if let Some(hooks) = self.store.properties().hooks {
            hooks.attach(client, hints);
        }
    }

    fn detach(&self, _client: ClientId) -> Detaching<'_> {
        Box::pin(std::future::ready(()))
    }

    fn release_at_once(&self, _request: ReleaseRequest<'_>) -> bool {
        false
    }
}
