//! A connection to a store that fails as the test decides, request by request.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::Duration,
};

use dlock::{
    ClientId, LockKey, LockStore, OwnerId,
    store::{
        AcquireOutcome, AcquireRequest, HintSink, Queue, Raised, Released, RenewRequest, Renewal,
        StoreError, StoreErrorKind,
    },
};
use dlock_testkit::eventually;
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
    requests: mpsc::UnboundedSender<Request>,
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

struct Request {
    /// Its place among those that were sent.
    number: usize,
    key: LockKey,
    owner: OwnerId,
    command: Command,
    fate: Option<Fate>,
    reply: oneshot::Sender<Answer>,
}

enum Command {
    Acquire {
        ttl: Duration,
        queue: Queue,
        label: String,
        function: String,
        proposal: Option<u64>,
    },
    Renew {
        ttl: Duration,
        label: String,
        function: String,
    },
    Release,
    Raise {
        from: u64,
        to: u64,
    },
}

#[derive(Debug)]
enum Answer {
    Acquired(AcquireOutcome),
    Renewed(Renewal),
    Released(Released),
    Raised(Raised),
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
        let sent = self.sent();
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
        key: &LockKey,
        owner: OwnerId,
        command: Command,
    ) -> Result<Answer, StoreError> {
        let (reply, answer) = oneshot::channel();
        let broken = || StoreError::new(StoreErrorKind::Disconnected, "the connection broke");
        let kind = match command {
            Command::Acquire { .. } => Kind::Acquire,
            Command::Renew { .. } => Kind::Renew,
            Command::Release => Kind::Release,
            Command::Raise { .. } => Kind::Raise,
        };
        let (number, fate) = self.faults.lock().unwrap().note(kind, owner);
        let request = Request {
            number,
            key: key.clone(),
            owner,
            command,
            fate,
            reply,
        };
        self.requests.send(request).map_err(|_| broken())?;
        answer.await.map_err(|_| broken())
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
    mut inbox: mpsc::UnboundedReceiver<Request>,
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
            _ => {}
        }
        let answer = carry_out(&*store, &request).await;
        {
            let mut faults = faults.lock().unwrap();
            let noted = &mut faults.sent[request.number];
            noted.carried_out = true;
            match (&answer, &request.command) {
                (Answer::Acquired(AcquireOutcome::Granted { fence }), _) => {
                    noted.fence = Some(*fence);
                }
                (
                    Answer::Acquired(_),
                    Command::Acquire {
                        queue: Queue::No, ..
                    },
                ) => {
                    noted.left_nothing = true;
                }
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

async fn carry_out(store: &impl LockStore, request: &Request) -> Answer {
    let (key, owner) = (&request.key, request.owner);
    match &request.command {
        Command::Acquire {
            ttl,
            queue,
            label,
            function,
            proposal,
        } => {
            let request = AcquireRequest {
                key,
                owner,
                ttl: *ttl,
                queue: *queue,
                label,
                function,
                proposal: *proposal,
            };
            Answer::Acquired(store.acquire(request).await.unwrap())
        }
        Command::Renew {
            ttl,
            label,
            function,
        } => {
            let request = RenewRequest {
                key,
                owner,
                ttl: *ttl,
                label,
                function,
            };
            Answer::Renewed(store.renew(request).await.unwrap())
        }
        Command::Release => Answer::Released(store.release(key, owner).await.unwrap()),
        Command::Raise { from, to } => {
            Answer::Raised(store.raise(key, owner, *from, *to).await.unwrap())
        }
    }
}

impl<S: LockStore> LockStore for Wire<S> {
    async fn acquire(&self, request: AcquireRequest<'_>) -> Result<AcquireOutcome, StoreError> {
        let command = Command::Acquire {
            ttl: request.ttl,
            queue: request.queue,
            label: request.label.to_owned(),
            function: request.function.to_owned(),
            proposal: request.proposal,
        };
        match self.send(request.key, request.owner, command).await? {
            Answer::Acquired(answer) => Ok(answer),
            other => unreachable!("{other:?} answers another request"),
        }
    }

    async fn renew(&self, request: RenewRequest<'_>) -> Result<Renewal, StoreError> {
        let command = Command::Renew {
            ttl: request.ttl,
            label: request.label.to_owned(),
            function: request.function.to_owned(),
        };
        match self.send(request.key, request.owner, command).await? {
            Answer::Renewed(answer) => Ok(answer),
            other => unreachable!("{other:?} answers another request"),
        }
    }

    async fn release(&self, key: &LockKey, owner: OwnerId) -> Result<Released, StoreError> {
        match self.send(key, owner, Command::Release).await? {
            Answer::Released(answer) => Ok(answer),
            other => unreachable!("{other:?} answers another request"),
        }
    }

    async fn raise(
        &self,
        key: &LockKey,
        owner: OwnerId,
        from: u64,
        to: u64,
    ) -> Result<Raised, StoreError> {
        let command = Command::Raise { from, to };
        match self.send(key, owner, command).await? {
            Answer::Raised(answer) => Ok(answer),
            other => unreachable!("{other:?} answers another request"),
        }
    }

    fn attach(&self, client: ClientId, hints: HintSink) {
        self.store.attach(client, hints);
    }

    fn hands_on(&self) -> bool {
        self.store.hands_on()
    }
}
