//! The way from a process to a server: a store that loses, delays, repeats and refuses requests.
//!
//! Requests over one connection arrive in their order, whether or not a caller still waits for an answer. After a
//! break there is a new connection, and a request that was sent over the old one may arrive much later.

mod arrival;
mod message;

use std::{
    future::pending,
    pin::pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use dlock::{
    StoreError, StoreErrorKind,
    store::{
        AcquireOutcome, AcquireRequest, ClientId, Detaching, HintSink, LockModes, LockStore,
        Proposal, Queue, QuorumNode, RaiseRequest, Raised, ReleaseRequest, Released, RenewBatch,
        Renewal, StoreHooks, StoreProperties,
    },
};
use futures_util::future::{Either, select};
use tokio::{
    sync::{Notify, mpsc, oneshot},
    time::{Instant, sleep_until},
};

use self::{
    arrival::arrive,
    message::{Answer, Command, Fate, Message, Renew, Reply},
};
use crate::{
    flaw::Flaw,
    host::Host,
    plan::LONGEST_WAY,
    server::{Question, Waits},
    world::World,
};

/// One process' way to one server.
#[derive(Clone)]
pub(crate) struct Link(Arc<Inner>);

struct Inner {
    world: Arc<World>,
    host: Arc<Host>,
    /// Which of all servers.
    node: usize,
    line: Mutex<Line>,
}

/// The present connection.
struct Line {
    requests: mpsc::UnboundedSender<Message>,
    broken: Arc<Broken>,
}

/// Whether a connection is broken. Waiters are woken in the order of arrival, as everything here has to be: a run
/// must be repeatable.
#[derive(Default)]
struct Broken {
    is_so: AtomicBool,
    ring: Notify,
}

impl Broken {
    fn breaks(&self) {
        self.is_so.store(true, Ordering::Relaxed);
        self.ring.notify_waiters();
    }

    async fn happens(&self) {
        let ring = self.ring.notified();
        if !self.is_so.load(Ordering::Relaxed) {
            ring.await;
        }
    }
}

impl Link {
    pub(crate) fn new(world: Arc<World>, host: Arc<Host>, node: usize) -> Self {
        let line = Mutex::new(connect(&world, &host, node));
        Self(Arc::new(Inner {
            world,
            host,
            node,
            line,
        }))
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        self.0.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection breaks, and there is a new one.
    pub(crate) fn reconnect(&self) {
        let Inner {
            world, host, node, ..
        } = &*self.0;
        let old = std::mem::replace(&mut *self.line(), connect(world, host, *node));
        old.broken.breaks();
        let sink = {
            let state = world.state();
            let client = host.client();
            client.and_then(|client| state.servers[*node].sinks.get(&client).cloned())
        };
        if let Some((_, sink)) = sink {
            // Hints may have been missed.
            let _: bool = sink.look_again();
        }
    }

    fn fate(&self) -> (Fate, Duration) {
        let Inner {
            world, host, node, ..
        } = &*self.0;
        let (dice, distance) = (&world.dice, world.plan.distance);
        let mut way = distance + dice.time(distance + Duration::from_micros(200));
        let mut back = distance + dice.time(distance + Duration::from_micros(200));
        if host.is_dead() {
            return (Fate::Lost { told: false }, way);
        }
        let away = world.state().servers[*node].away_until > Instant::now();
        if away || host.is_cut(*node) {
            if dice.chance(500) {
                let error = StoreError::new(StoreErrorKind::Unreachable, "it is not there");
                return (Fate::Refused { error, done: false }, way);
            }
            return (Fate::Lost { told: false }, way);
        }
        let weather = world.state().weather;
        if dice.chance(weather.delays) {
            way += dice.time(LONGEST_WAY / 2);
        }
        if dice.chance(weather.delays_answers) {
            back += dice.time(LONGEST_WAY / 2);
        }
        let told = dice.chance(500);
        let fate = if dice.chance(weather.loses) {
            Fate::Lost { told }
        } else if dice.chance(weather.loses_answers) {
            Fate::AnswerLost { told }
        } else if dice.chance(weather.refuses) {
            self.refusal()
        } else if dice.chance(weather.doubles) {
            Fate::Doubled(back)
        } else if world.plan.flaw == Flaw::DeniesWhatItDid && dice.chance(20) {
            let error = StoreError::new(StoreErrorKind::Loading, "on purpose").unsent();
            Fate::Refused { error, done: true }
        } else {
            Fate::Answered(back)
        };
        (fate, way)
    }

    fn refusal(&self) -> Fate {
        use StoreErrorKind::{
            BadAnswer, Denied, Disconnected, Loading, NoCredentials, OutOfMemory, ReadOnly,
            Refused, TimedOut, TooFewReplicas, Unauthenticated, Unreachable, Unsupported,
            WrongType,
        };
        let dice = &self.0.world.dice;
        // A fault that ends a call at once is rarer than one that passes.
        let (kind, may_be_done) = match dice.below(40) {
            0..8 => (Unreachable, false),
            8..12 => (ReadOnly, false),
            12..16 => (Loading, false),
            16..18 => (NoCredentials, false),
            18..22 => (OutOfMemory, true),
            22..26 => (Refused, true),
            26..30 => (TooFewReplicas, true),
            30..33 => (Disconnected, true),
            33..36 => (TimedOut, true),
            36 => (Denied, true),
            37 => (BadAnswer, true),
            38 => (Unsupported, true),
            _ => (dice.pick(&[WrongType, Unauthenticated]), false),
        };
        let error = StoreError::new(kind, "on purpose");
        let unsent = may_be_done && dice.chance(300);
        let done = may_be_done && !unsent && dice.chance(500);
        Fate::Refused {
            error: if unsent { error.unsent() } else { error },
            done,
        }
    }

    async fn ask(&self, command: Command) -> Result<Answer, StoreError> {
        let (fate, way) = self.fate();
        let world = &self.0.world;
        world.log(format_args!(
            "p{}>s{} {} [{}, {way:?}]",
            self.0.host.number,
            self.0.node,
            self.describe(&command),
            fate.name(),
        ));
        let now = Instant::now();
        let at = self.0.host.frozen_until().unwrap_or(now).max(now) + way;
        let (reply, answer) = oneshot::channel();
        let broken = {
            let line = self.line();
            let message = Message {
                command,
                at,
                fate,
                reply: Some(reply),
            };
            // The carrier lives as long as the line.
            drop(line.requests.send(message));
            line.broken.clone()
        };
        let answer = match select(answer, pin!(broken.happens())).await {
            Either::Left((answer, _)) => answer.ok(),
            Either::Right(_) => None,
        };
        match answer {
            Some(Reply::Answer(answer)) => answer,
            Some(Reply::Silence) => pending().await,
            None => Err(disconnected()),
        }
    }

    fn describe(&self, command: &Command) -> String {
        let world = &self.0.world;
        match command {
            Command::Acquire(it) => format!(
                "acquire {} {} ttl {:?} {} {:?} {:?}",
                it.key,
                world.name(it.owner),
                it.ttl,
                it.mode,
                it.waits,
                it.proposal
            ),
            Command::Renew(several) => {
                let each = several.iter();
                let each =
                    each.map(|it| format!("{} {} ttl {:?}", it.key, world.name(it.owner), it.ttl));
                format!("renew {}", each.collect::<Vec<_>>().join(", "))
            }
            Command::Release(key, owner) => format!("release {key} {}", world.name(*owner)),
            Command::Raise(key, owner, fences) => {
                format!("raise {key} {} {fences:?}", world.name(*owner))
            }
        }
    }
}

fn disconnected() -> StoreError {
    StoreError::new(StoreErrorKind::Disconnected, "the connection broke")
}

/// A new connection, with a task that carries its messages.
fn connect(world: &Arc<World>, host: &Arc<Host>, node: usize) -> Line {
    let (requests, mut sent) = mpsc::unbounded_channel::<Message>();
    let broken = Arc::default();
    let (world, host) = (world.clone(), host.clone());
    tokio::spawn(async move {
        // How long its messages are late at the most, once the line is broken.
        let mut latest = None;
        while let Some(message) = sent.recv().await {
            sleep_until(message.at).await;
            if sent.is_closed() {
                // The line is broken. A message without a task is lost, or late.
                if !world.plan.old_connections || world.dice.chance(300) {
                    world.count(|counts| counts.request("lost with its connection"));
                    continue;
                }
                let now = Instant::now();
                let latest = *latest.get_or_insert(now + LONGEST_WAY / 4);
                sleep_until(latest.min(now + world.dice.time(LONGEST_WAY / 4))).await;
            }
            arrive(&world, &host, node, message);
        }
    });
    Line { requests, broken }
}

impl Link {
    async fn question(
        &self,
        request: AcquireRequest<'_>,
        waits: Waits,
        proposal: Option<u64>,
    ) -> Result<AcquireOutcome, StoreError> {
        let question = Question {
            key: request.key.as_str().to_owned(),
            owner: request.owner,
            ttl: request.ttl,
            mode: request.mode,
            waits,
            label: request.label.to_owned(),
            proposal,
        };
        match self.ask(Command::Acquire(question)).await? {
            Answer::Acquired(answer) => Ok(answer),
            other => unreachable!("{other:?} is no answer to a question"),
        }
    }
}

impl LockStore for Link {
    async fn acquire(&self, request: AcquireRequest<'_>) -> Result<AcquireOutcome, StoreError> {
        let waits = match request.queue {
            Queue::ForLease => Waits::ForLease,
            _ => Waits::No,
        };
        self.question(request, waits, None).await
    }

    /// All in one request.
    async fn renew(&self, batch: RenewBatch<'_>) -> Vec<Result<Renewal, StoreError>> {
        let requests = batch.requests;
        let several = requests.iter().map(Renew::of).collect();
        let asked = self.ask(Command::Renew(several));
        let limit = batch.limit.unwrap_or(Duration::MAX);
        let answer = match batch.limit {
            Some(limit) => tokio::time::timeout(limit, asked).await,
            None => Ok(asked.await),
        };
        match answer {
            Ok(Ok(Answer::Renewed(renewed))) => renewed.into_iter().map(Ok).collect(),
            Ok(Ok(other)) => unreachable!("{other:?} is no answer to a renewal"),
            Ok(Err(error)) => vec![Err(error); requests.len()],
            Err(_) => vec![Err(StoreError::timed_out(limit)); requests.len()],
        }
    }

    async fn release(&self, request: ReleaseRequest<'_>) -> Result<Released, StoreError> {
        let ReleaseRequest { key, owner, .. } = request;
        let release = Command::Release(key.as_str().to_owned(), owner);
        match self.ask(release).await? {
            Answer::Released(answer) => Ok(answer),
            other => unreachable!("{other:?} is no answer to a release"),
        }
    }

    fn properties(&self) -> StoreProperties<'_> {
        let properties = StoreProperties::new().grants(true).modes(LockModes::ALL);
        properties.hooks(self)
    }
}

impl QuorumNode for Link {
    async fn propose(&self, proposal: Proposal<'_>) -> Result<AcquireOutcome, StoreError> {
        let waits = if proposal.notice {
            Waits::ForNotice
        } else {
            Waits::No
        };
        self.question(proposal.request, waits, Some(proposal.fence))
            .await
    }

    async fn raise(&self, request: RaiseRequest<'_>) -> Result<Raised, StoreError> {
        let RaiseRequest {
            key,
            owner,
            from,
            to,
            ..
        } = request;
        let raise = Command::Raise(key.as_str().to_owned(), owner, [from, to]);
        match self.ask(raise).await? {
            Answer::Raised(answer) => Ok(answer),
            other => unreachable!("{other:?} is no answer to a raise"),
        }
    }
}

impl StoreHooks for Link {
    fn attach(&self, client: ClientId, hints: HintSink) {
        let Inner {
            world, host, node, ..
        } = &*self.0;
        host.is_known_as(client);
        let mut state = world.state();
        state.servers[*node]
            .sinks
            .insert(client, (host.clone(), hints));
    }

    fn detach(&self, _client: ClientId) -> Detaching<'_> {
        Box::pin(std::future::ready(()))
    }

    fn release_at_once(&self, _request: ReleaseRequest<'_>) -> bool {
        false
    }
}
