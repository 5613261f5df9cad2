//! The tasks of the model, as their drivers treat them.

mod checks;

pub(super) use self::checks::check_together;

use std::collections::{BTreeMap, BTreeSet};

use super::{
    store::{Granted, Store},
    *,
};

/// Tasks of one process that want one key, as their drivers treat them, and the store that they use.
pub(super) struct World {
    pub(super) state: KeyState<usize>,
    client: ClientId,
    owners: Owners,
    pub(super) now: Moment,
    handover: bool,
    pub(super) grants: bool,
    pub(super) store: Store,
    pub(super) tasks: Vec<Task>,
    requests: usize,
    /// The requests that are in flight or answered, even if their tasks do not wait any longer.
    pub(super) sent: Vec<Request>,
    /// Every wake-up message so far: it may arrive at any time, and more than once.
    pub(super) hints: Vec<Granted>,
    pub(super) renewals: Vec<Renewing>,
    /// The entries that the renewer is about to make: the state may change in between.
    pub(super) noting: Vec<(OwnerId, Moment)>,
    /// When the renewer checks each lease.
    pub(super) due: BTreeMap<OwnerId, Moment>,
    /// The token of the last body, and whether that was alone.
    pub(super) last_token: Option<(FencingToken, bool)>,
    /// The owners of the leases that an operator has ended, and the process was told of that.
    unlocked: Option<BTreeSet<OwnerId>>,
}

pub(super) struct Task {
    pub(super) timing: Timing,
    at: At,
    woken: bool,
}

#[derive(Clone, Debug, PartialEq)]
enum At {
    Asking { request: usize, sent: Moment },
    Parked(Option<Moment>),
    Inside,
    Releasing { owner: OwnerId, request: usize },
    Pausing { owner: OwnerId, until: Moment },
    Gone,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Acquire { queue: bool, mode: LockMode },
    Renew,
    Release,
}

pub(super) struct Request {
    number: usize,
    owner: OwnerId,
    ttl: Duration,
    kind: Kind,
    answer: Option<Answer>,
}

#[derive(Clone)]
enum Answer {
    Acquired(AcquireOutcome),
    Renewed(Renewal),
    Released(Released),
}

pub(super) struct Renewing {
    owner: OwnerId,
    task: usize,
    /// Once its task has run.
    sent: Option<(usize, Moment)>,
}

fn id(task: usize) -> AttemptId {
    AttemptId::numbered(task as u64)
}

impl World {
    pub(super) fn new(handover: bool) -> Self {
        let client = ClientId::new(&SystemRandom);
        Self {
            state: KeyState::default(),
            client,
            owners: Owners::new(client),
            now: Moment {
                monotonic: Instant::now(),
                boot: SECOND,
            },
            handover,
            grants: true,
            store: Store::new(),
            tasks: Vec::new(),
            requests: 0,
            sent: Vec::new(),
            hints: Vec::new(),
            renewals: Vec::new(),
            noting: Vec::new(),
            due: BTreeMap::new(),
            last_token: None,
            unlocked: None,
        }
    }

    /// The same where an operator may end leases: bodies that have begun do not exclude each other any more.
    pub(super) fn with_operator() -> Self {
        Self {
            unlocked: Some(BTreeSet::new()),
            ..Self::new(true)
        }
    }

    /// An operator ends a lease of this process and tells it.
    pub(super) fn unlock(&mut self, which: Index) {
        let now = self.now.boot;
        self.store.expire(now);
        let held = self.store.held.iter().map(|kept| kept.owner);
        let own: Vec<_> = held.filter(|it| it.client() == self.client).collect();
        let Some(unlocked) = self.unlocked.as_mut().filter(|_| !own.is_empty()) else {
            return;
        };
        let owner = *which.get(&own);
        unlocked.insert(owner);
        let granted = self.store.unlock(owner, now);
        self.granted(granted);
        let (fence, number) = (0, 0);
        self.tend(owner, Event::Granted { fence, number });
    }

    pub(super) fn enter(&mut self, timing: Timing) {
        let waiter = self.next_waiter(timing);
        self.state.enter(waiter, context!(self));
        let at = At::Parked(None);
        self.tasks.push(Task {
            timing,
            at,
            woken: true,
        });
    }

    fn next_waiter(&self, timing: Timing) -> LocalWaiter<usize> {
        let task = self.tasks.len();
        // The model's clocks agree, so the drift hides no error.
        let validity = Validity::new(timing.ttl, |_| Duration::ZERO);
        LocalWaiter::new(id(task), task, timing, validity, self.now)
    }

    fn settle(&mut self, task: usize, outcome: Outcome<usize>) -> Effect {
        let woken = outcome.next.iter().chain(&outcome.invited);
        for &other in woken.chain(&outcome.also_lost) {
            self.tasks[other].woken = true;
        }
        if let (Effect::Forget(None), Some(next)) = (&outcome.effect, outcome.next) {
            self.note_untaken(next);
        }
        match outcome.effect {
            Effect::Wake | Effect::Lose => self.tasks[task].woken = true,
            Effect::Forget(_) => {
                assert_ne!(self.tasks[task].at, At::Gone, "forgotten twice");
                self.tasks[task].at = At::Gone;
            }
            _ => {}
        }
        outcome.effect
    }

    fn event(&mut self, task: usize, event: Event) -> Effect {
        let outcome = self.state.on_event(id(task), event, context!(self));
        self.settle(task, outcome)
    }

    fn send(&mut self, task: usize, owner: OwnerId, kind: Kind) -> usize {
        let number = self.requests;
        self.requests += 1;
        let ttl = self.tasks[task].timing.ttl;
        self.sent.push(Request {
            number,
            owner,
            ttl,
            kind,
            answer: None,
        });
        number
    }

    fn answer_of(&self, number: usize) -> Option<Answer> {
        let request = self.sent.iter().find(|request| request.number == number)?;
        request.answer.clone()
    }

    /// Runs the step of a waiting task.
    fn wait(&mut self, task: usize, event: Event) {
        self.tasks[task].woken = false;
        self.tasks[task].at = match self.event(task, event) {
            Effect::Ask { owner, queue, .. } => {
                let mode = self.tasks[task].timing.mode;
                let request = self.send(task, owner, Kind::Acquire { queue, mode });
                let sent = self.now;
                At::Asking { request, sent }
            }
            Effect::WaitUntil(at) | Effect::Queue(at) => At::Parked(Some(at)),
            Effect::Enter { renew_at } => {
                let token = self.state.lease(id(task)).expect("it entered").token;
                self.spend(token, self.tasks[task].timing.mode);
                let lease = self.state.find(id(task));
                let owner = lease.expect("it entered").claim.owner;
                let is_known_gone = self.unlocked.as_ref().is_some_and(|it| it.contains(&owner));
                assert!(
                    !is_known_gone,
                    "broken promise: a body begins with a lease that the process knows to be gone"
                );
                // On the task itself, which cannot leave in between.
                if let Some(renew_at) = renew_at {
                    self.due.insert(renew_at.owner, renew_at.at);
                }
                At::Inside
            }
            Effect::Refuse(_) => return self.leave(task),
            other => panic!("{other:?} is not for a waiting task"),
        }
    }

    /// Only those that share the key have the same token.
    fn spend(&mut self, token: FencingToken, mode: LockMode) {
        let alone = mode.is_exclusive();
        if let Some((last, was_alone)) = self.last_token.filter(|_| self.unlocked.is_none()) {
            let is_same = last == token && !alone && !was_alone;
            assert!(
                last < token || is_same,
                "broken promise: the token did not grow: {token} after {last}"
            );
        }
        self.last_token = Some((token, alone));
    }

    fn leave(&mut self, task: usize) {
        match self.event(task, Event::Left) {
            Effect::Release { owner } => {
                self.due.remove(&owner);
                let request = self.send(task, owner, Kind::Release);
                self.tasks[task].at = At::Releasing { owner, request };
            }
            Effect::Forget(_) => {}
            other => panic!("{other:?} is not for one who leaves"),
        }
    }

    /// Releases the lease of a task that does not take it.
    fn give_back(&mut self, owner: OwnerId, bearer: usize) {
        let timing = Timing {
            min_hold: None,
            ..self.tasks[bearer].timing
        };
        let releaser = self.next_waiter(timing);
        let task = releaser.task;
        let Some(outcome) = self.state.give_back(owner, releaser, context!(self)) else {
            return;
        };
        self.due.remove(&owner);
        let request = self.requests;
        self.tasks.push(Task {
            timing,
            at: At::Releasing { owner, request },
            woken: false,
        });
        assert_eq!(self.settle(task, outcome), Effect::Release { owner });
        assert_eq!(self.send(task, owner, Kind::Release), request);
    }

    /// The renewer looks whether the task takes the lease that it was given.
    fn note_untaken(&mut self, task: usize) {
        if let Some(RenewAt { owner, at }) = self.state.untaken(id(task)) {
            self.noting.push((owner, at));
        }
    }

    /// Runs the step of the renewer.
    pub(super) fn tend(&mut self, owner: OwnerId, event: Event) {
        let Some((task, outcome)) = self.state.on_claim(owner, event, context!(self)) else {
            return;
        };
        match self.settle(task, outcome) {
            Effect::WaitUntil(at) => self.noting.push((owner, at)),
            Effect::Renew { then, .. } => {
                self.noting.push((owner, then));
                self.renewals.push(Renewing {
                    owner,
                    task,
                    sent: None,
                });
            }
            Effect::GiveBack { owner } => self.give_back(owner, task),
            Effect::Wake => self.note_untaken(task),
            _ => {}
        }
    }

    pub(super) fn note(&mut self, index: usize) {
        let (owner, at) = self.noting.remove(index);
        if self.state.is_held_by(owner) {
            let noted = self.due.entry(owner).or_insert(at);
            *noted = noted.earlier(at);
        } else {
            self.due.remove(&owner);
        }
    }

    /// The store carries out a request, however late.
    pub(super) fn carry_out(&mut self, index: usize) {
        let now = self.now.boot;
        let request = &self.sent[index];
        if request.answer.is_some() {
            return;
        }
        let (owner, ttl) = (request.owner, request.ttl);
        let (answer, granted) = match request.kind {
            Kind::Acquire { queue, mode } => {
                let (answer, granted) = self.store.acquire(owner, mode, ttl, queue, now);
                self.holds_again(owner, matches!(answer, AcquireOutcome::Granted { .. }));
                (Answer::Acquired(answer), granted)
            }
            Kind::Renew => {
                let answer = self.store.renew(owner, ttl, now);
                (Answer::Renewed(answer), Vec::new())
            }
            Kind::Release => {
                let (answer, granted) = self.store.release(owner, now);
                (Answer::Released(answer), granted)
            }
        };
        self.sent[index].answer = Some(answer);
        self.granted(granted);
    }

    /// Returns the first request of the same owner that has not been carried out, as they arrive over one
    /// connection.
    pub(super) fn first_like(&self, index: usize) -> usize {
        let owner = self.sent[index].owner;
        let waits = |other: &Request| other.owner == owner && other.answer.is_none();
        self.sent.iter().position(waits).unwrap_or(index)
    }

    /// Carries out the task's own request, or all requests, and continues the task.
    pub(super) fn answer(&mut self, task: usize, all: bool) {
        let (At::Asking { request, .. } | At::Releasing { request, .. }) = self.tasks[task].at
        else {
            return;
        };
        for index in 0..self.sent.len() {
            if all || self.sent[index].number == request {
                self.carry_out(index);
            }
        }
        self.poll(task);
    }

    /// The store has granted an owner another lease.
    fn holds_again(&mut self, owner: OwnerId, is_granted: bool) {
        if let Some(unlocked) = self.unlocked.as_mut().filter(|_| is_granted) {
            unlocked.remove(&owner);
        }
    }

    fn granted(&mut self, granted: Vec<Granted>) {
        for (owner, fence, number) in granted {
            self.holds_again(owner, true);
            if owner == self.store.rival {
                self.rival_holds(fence);
            } else {
                self.hints.push((owner, fence, number));
            }
        }
    }

    fn rival_holds(&mut self, fence: u64) {
        let token = FencingToken::from_fence(fence).unwrap();
        self.spend(token, LockMode::Exclusive);
    }

    /// Another process sends a request, or releases what it holds.
    pub(super) fn rival(&mut self, ttl: Duration) {
        let (rival, now) = (self.store.rival, self.now.boot);
        self.store.expire(now);
        if self.store.held.iter().any(|held| held.owner == rival) {
            let (_, granted) = self.store.release(rival, now);
            return self.granted(granted);
        }
        let exclusive = LockMode::Exclusive;
        let (answer, granted) = self.store.acquire(rival, exclusive, ttl, true, now);
        if let AcquireOutcome::Granted { fence, .. } = answer {
            self.rival_holds(fence);
        }
        self.granted(granted);
    }

    /// Continues a task that can make progress.
    pub(super) fn poll(&mut self, task: usize) {
        match self.tasks[task].at.clone() {
            At::Asking { request, sent } => {
                let answer = self.answer_of(request).filter(|_| !self.tasks[task].woken);
                if let Some(Answer::Acquired(answer)) = answer {
                    self.wait(
                        task,
                        Event::Answered {
                            sent,
                            answer: Ok(answer),
                        },
                    );
                } else if !self.state.is_asking(id(task)) {
                    self.wait(task, Event::Woken);
                }
            }
            At::Parked(until) => {
                let is_due = until.is_some_and(|until| until.is_reached(self.now));
                if self.tasks[task].woken || is_due {
                    self.wait(task, Event::Woken);
                }
            }
            At::Releasing { owner, request } => {
                if let Some(Answer::Released(answer)) = self.answer_of(request) {
                    self.released(task, owner, Some(answer));
                }
            }
            At::Pausing { owner, until } if until.is_reached(self.now) => {
                let request = self.send(task, owner, Kind::Release);
                self.tasks[task].at = At::Releasing { owner, request };
            }
            At::Inside | At::Pausing { .. } | At::Gone => {}
        }
    }

    fn released(&mut self, task: usize, owner: OwnerId, answer: Option<Released>) {
        match self.event(task, Event::Released(answer)) {
            Effect::WaitUntil(until) => self.tasks[task].at = At::Pausing { owner, until },
            Effect::Forget(_) => {}
            other => panic!("{other:?} is not for a releaser"),
        }
    }

    /// The answer for which a task waits does not arrive in time.
    pub(super) fn time_out(&mut self, task: usize) {
        match self.tasks[task].at.clone() {
            At::Asking { sent, .. } => {
                let answer = Err(failed(StoreErrorKind::TimedOut));
                self.wait(task, Event::Answered { sent, answer });
            }
            At::Releasing { owner, .. } => self.released(task, owner, None),
            _ => {}
        }
    }

    /// A renewal is sent, or ends with or without its answer.
    pub(super) fn renew(&mut self, index: usize, comes: bool) {
        let Renewing { owner, task, sent } = self.renewals[index];
        let Some((request, sent)) = sent else {
            if self.state.is_held_by(owner) {
                let request = self.send(task, owner, Kind::Renew);
                self.renewals[index].sent = Some((request, self.now));
            } else {
                self.renewals.swap_remove(index);
            }
            return;
        };
        let answer = match self.answer_of(request) {
            Some(Answer::Renewed(answer)) if comes => Ok(answer),
            _ if comes => return,
            _ => Err(failed(StoreErrorKind::TimedOut)),
        };
        self.renewals.swap_remove(index);
        self.tend(owner, Event::Renewed { sent, answer });
    }

    /// The store is unreachable: the request has not been sent.
    pub(super) fn cut_off(&mut self, task: usize) {
        if let At::Asking { request, sent } = self.tasks[task].at
            && self.answer_of(request).is_none()
        {
            self.sent.retain(|other| other.number != request);
            let answer = Err(failed(StoreErrorKind::Unreachable));
            self.wait(task, Event::Answered { sent, answer });
        }
    }

    pub(super) fn drop_task(&mut self, task: usize) {
        let at = &self.tasks[task].at;
        if matches!(at, At::Asking { .. } | At::Parked(_) | At::Inside) {
            self.leave(task);
        }
    }

    /// The driver does this after a reconnection.
    pub(super) fn look_again(&mut self) {
        for task in self.state.told_by_store() {
            self.event(task, Event::LookAgain);
        }
    }

    pub(super) fn tell_all(&mut self, event: impl Fn() -> Event) {
        for task in self.state.tasks() {
            self.event(task, event());
        }
    }

    /// All tasks leave, and the store answers. Returns `true` if it keeps nothing of them.
    pub(super) fn end(&mut self) -> bool {
        for task in 0..self.tasks.len() {
            self.drop_task(task);
            self.check();
        }
        while self.tasks.iter().any(|task| task.at != At::Gone) {
            for index in 0..self.sent.len() {
                self.carry_out(index);
            }
            self.now = self.now.plus(SECOND);
            for task in 0..self.tasks.len() {
                self.poll(task);
            }
        }
        self.check();
        self.leaves_nothing()
    }

    /// Returns `true` if the store keeps nothing of this process.
    pub(super) fn leaves_nothing(&mut self) -> bool {
        self.store.expire(self.now.boot);
        !self.store.knows(self.client)
    }
}
