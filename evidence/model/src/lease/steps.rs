//! The possible actions in a state, and their results.

use stateright::{Model, Property};

use super::{
    Lease, Rule, monitor,
    server::{NOTHING, copy, start_with},
    state::{
        Action, Client, Faults, Grant, Holding, LOOK_AGAIN, Left, Lock, MOST, Owner, Phase,
        Refresh, Reply, Request, Server, State, What, Written,
    },
};
use crate::list::List;

/// A tick has time for so many fences.
const FENCES_PER_TICK: u8 = 8;
/// The TTL of a request that does not carry the claim's own.
const SHORT_TTL: u8 = 1;

impl Model for Lease {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let client = Client {
            round: 0,
            phase: Phase::Idle,
            refreshes: List::new(),
            wire: List::new(),
            reply: None,
        };
        let bounds = &self.bounds;
        vec![State {
            server: Server {
                lock: None,
                last: 0,
                queue: List::new(),
                clock: 0,
                grants: 0,
                greatest: 0,
            },
            clients: [client; MOST],
            hints: List::new(),
            late: List::new(),
            resource: Written {
                fence: 0,
                order: 0,
                has_refused: false,
            },
            copy: None,
            orphaned: 0,
            arrivals: List::new(),
            left: Left {
                late: bounds.late,
                crashes: bounds.crashes,
                slow: bounds.slow,
                asleep: bounds.asleep,
                forgets: bounds.forgets.map_or(0, |(times, _)| times),
                rolls_back: bounds.rolls_back.map_or(0, |(times, _)| times),
            },
            faults: Faults::default(),
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for at in 0..self.bounds.clients {
            self.actions_of(state, at, actions);
        }
        for at in 0..state.late.len() {
            actions.push(Action::ServeLate(at));
        }
        if self.time_may_pass(state) {
            actions.push(Action::Tick);
            for at in (0..self.bounds.clients).filter(|at| has_time(&state.clients[*at])) {
                if state.left.slow > 0 {
                    actions.push(Action::TickSlowly(at));
                }
                if state.left.asleep > 0 {
                    actions.push(Action::TickAsleep(at));
                }
            }
            if state.left.forgets > 0 {
                actions.push(Action::Forget);
            }
            if state.copy.is_some() {
                actions.push(Action::RollBack);
            }
        }
        // A replica that knew of nothing would be a server that forgets.
        let has_lock = state.server.lock.is_some();
        if state.left.rolls_back > 0 && state.copy.is_none() && has_lock {
            actions.push(Action::Copy);
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = *state;
        match action {
            Action::Ask(at) => {
                let client = &mut next.clients[at];
                client.phase = Phase::Asking { age: 0 };
                send(client, self.owner(state, at), What::Acquire, true);
            }
            Action::Serve(at) => {
                let request = next.clients[at].wire.remove(0)?;
                let reply = self.carry_out(&mut next, request);
                if request.is_awaited {
                    next.clients[at].reply = reply;
                }
            }
            Action::Hear(at) => {
                let client = &mut next.clients[at];
                let reply = client.reply.take()?;
                self.heard(client, reply);
            }
            Action::TimeOut(at) => self.timed_out(&mut next.clients[at]),
            Action::Hint(at, hint) => {
                let grant = next.hints.get(hint)?;
                let client = &mut next.clients[at];
                let left = self.believed(client, grant).filter(|left| *left > 0)?;
                client.phase = Phase::Holding(Holding {
                    hinted: true,
                    ..holding(grant, left)
                });
            }
            Action::Renew(at) | Action::RenewShort(at) => {
                let is_short = matches!(action, Action::RenewShort(_));
                let ttl = if is_short {
                    SHORT_TTL
                } else {
                    self.bounds.times.ttl
                };
                let client = &mut next.clients[at];
                if let Phase::Holding(holding) = &mut client.phase {
                    holding.renewing = Some(0);
                }
                send(client, self.owner(state, at), What::Renew { ttl }, true);
            }
            Action::Leave(at) => self.leave(&mut next, at),
            Action::Write(at) => {
                let Phase::Holding(holding) = state.clients[at].phase else {
                    return None;
                };
                self.write(&mut next, holding.grant);
            }
            Action::Crash(at) => {
                next.left.crashes -= 1;
                let client = &mut next.clients[at];
                give_up_answers(client);
                client.phase = Phase::Dead;
                client.refreshes = List::new();
            }
            Action::Linger(at) => {
                next.left.late -= 1;
                let request = next.clients[at].wire.remove(0)?;
                next.late.push(unheard(request));
            }
            Action::Repeat(at) => {
                next.left.late -= 1;
                let request = next.clients[at].wire.get(0)?;
                next.late.push(unheard(request));
            }
            Action::ServeLate(at) => {
                let request = next.late.remove(at)?;
                self.carry_out(&mut next, request);
            }
            Action::Forget => {
                next.left.forgets -= 1;
                self.tick(&mut next, None);
                start_with(&mut next, NOTHING);
            }
            Action::Copy => {
                next.left.rolls_back -= 1;
                next.copy = Some(copy(state));
            }
            Action::RollBack => {
                // It takes a moment, in which nothing is granted.
                self.tick(&mut next, None);
                let copy = next.copy.take()?;
                start_with(&mut next, copy);
            }
            Action::Tick => self.tick(&mut next, None),
            Action::TickSlowly(at) => {
                next.left.slow -= 1;
                self.tick(&mut next, Some(at));
            }
            Action::TickAsleep(at) => {
                next.left.asleep -= 1;
                let unnoticed = !self.keeps(Rule::SleepCounts);
                self.tick(&mut next, unnoticed.then_some(at));
            }
        }
        monitor::stepped(state, &mut next);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        super::properties::all()
    }

    fn within_boundary(&self, state: &State) -> bool {
        state.server.grants <= self.bounds.grants
    }
}

impl Lease {
    fn actions_of(&self, state: &State, at: usize, actions: &mut Vec<Action>) {
        let client = &state.clients[at];
        let can_send = !client.wire.is_full();
        if !client.wire.is_empty() {
            actions.push(Action::Serve(at));
            if state.left.late > 0 && !state.late.is_full() {
                actions.extend([Action::Linger(at), Action::Repeat(at)]);
            }
        }
        if client.reply.is_some() {
            actions.push(Action::Hear(at));
        }
        match client.phase {
            Phase::Done | Phase::Dead => return,
            Phase::Idle if can_send => actions.push(Action::Ask(at)),
            Phase::Idle => {}
            Phase::Asking { .. } => {
                actions.push(Action::TimeOut(at));
                if can_send {
                    actions.push(Action::Leave(at));
                }
            }
            Phase::Waiting { .. } => {
                if can_send {
                    actions.extend([Action::Ask(at), Action::Leave(at)]);
                }
                let hints = state.hints.iter().enumerate();
                let own = hints.filter(|(_, hint)| hint.owner == self.owner(state, at));
                actions.extend(own.map(|(hint, _)| Action::Hint(at, hint)));
            }
            Phase::Holding(holding) => {
                if can_send {
                    actions.push(Action::Leave(at));
                }
                if holding.renewing.is_some() {
                    actions.push(Action::TimeOut(at));
                } else if can_send && holding.left > 0 {
                    actions.push(Action::Renew(at));
                    if !self.keeps(Rule::OneTtl) {
                        actions.push(Action::RenewShort(at));
                    }
                }
                if self.bounds.writes && state.resource.order != holding.grant.order {
                    actions.push(Action::Write(at));
                }
            }
        }
        if state.left.crashes > 0 {
            actions.push(Action::Crash(at));
        }
    }

    fn time_may_pass(&self, state: &State) -> bool {
        let is_due =
            |client: &Client| matches!(client.phase, Phase::Waiting { idle } if idle >= LOOK_AGAIN);
        let must_look = self.bounds.is_prompt && self.keeps(Rule::LooksAgain);
        let is_over = self
            .ticks()
            .is_some_and(|ticks| state.server.clock >= ticks * FENCES_PER_TICK);
        let is_awaited = must_look && state.clients.iter().any(is_due);
        !is_over && !is_awaited
    }

    /// By what id the server knows the process's present attempt.
    pub(super) fn owner(&self, state: &State, at: usize) -> Owner {
        let round = if self.keeps(Rule::IdForOneAttempt) {
            state.clients[at].round
        } else {
            0
        };
        Owner {
            client: u8::try_from(at).expect("there are few"),
            round,
        }
    }

    fn trusted(&self, ttl: u8, age: u8) -> u8 {
        let drift = if self.keeps(Rule::DriftIsTakenOff) {
            self.bounds.times.drift
        } else {
            0
        };
        let age = if self.keeps(Rule::CountsFromTheSending) {
            age
        } else {
            0
        };
        ttl.saturating_sub(drift + age)
    }

    fn heard(&self, client: &mut Client, reply: Reply) {
        match (client.phase, reply) {
            (Phase::Asking { age }, Reply::Granted(grant)) => {
                let left = self.trusted(self.bounds.times.ttl, age);
                client.phase = if left > 0 {
                    Phase::Holding(holding(grant, left))
                } else {
                    Phase::Waiting { idle: 0 }
                };
            }
            (Phase::Asking { age }, Reply::Busy { last }) => {
                if client.refreshes.is_full() {
                    client.refreshes.remove(0);
                }
                if age < self.believed_ttl() {
                    client.refreshes.push(Refresh { age, last });
                }
                client.phase = Phase::Waiting { idle: 0 };
            }
            (Phase::Holding(mut holding), Reply::Renewed(is_renewed)) => {
                let age = holding.renewing.take().unwrap_or(self.bounds.times.ttl);
                if !is_renewed {
                    holding.left = 0;
                } else if holding.left > 0 || !self.keeps(Rule::LostIsFinal) {
                    holding.left = holding.left.max(self.trusted(self.bounds.times.ttl, age));
                }
                client.phase = Phase::Holding(holding);
            }
            _ => {}
        }
    }

    fn timed_out(&self, client: &mut Client) {
        give_up_answers(client);
        match &mut client.phase {
            Phase::Asking { .. } => client.phase = Phase::Waiting { idle: 0 },
            Phase::Holding(holding) => {
                let age = holding.renewing.take().unwrap_or(self.bounds.times.ttl);
                if !self.keeps(Rule::NoAnswerMovesNothing) {
                    holding.left = holding.left.max(self.trusted(self.bounds.times.ttl, age));
                }
            }
            _ => {}
        }
    }

    fn believed_ttl(&self) -> u8 {
        if self.keeps(Rule::HintCountsForAGrant) {
            self.bounds.times.grant
        } else {
            self.bounds.times.ttl
        }
    }

    /// For how long a hint makes the process believe in its lease.
    fn believed(&self, client: &Client, grant: Grant) -> Option<u8> {
        let ttl = self.believed_ttl();
        if !self.keeps(Rule::HintCountsFromAQuestion) {
            return Some(self.trusted(ttl, 0));
        }
        let any = !self.keeps(Rule::HintCountsFromASmallerFence);
        let mut latest_first = client.refreshes.iter().rev();
        let question = latest_first.find(|it| any || it.last < grant.fence)?;
        Some(self.trusted(ttl, question.age))
    }

    fn leave(&self, next: &mut State, at: usize) {
        let owner = self.owner(next, at);
        let client = &mut next.clients[at];
        let is_unknown = matches!(client.phase, Phase::Asking { .. });
        give_up_answers(client);
        if !is_unknown || self.keeps(Rule::UnknownIsReleased) {
            send(client, owner, What::Release, false);
        }
        client.refreshes = List::new();
        if self.keeps(Rule::IdForOneAttempt) {
            // They concern no process any more.
            next.hints.retain(|hint| hint.owner != owner);
        }
        client.round += 1;
        client.phase = if client.round < self.bounds.rounds {
            Phase::Idle
        } else {
            Phase::Done
        };
    }

    fn write(&self, next: &mut State, grant: Grant) {
        let resource = &mut next.resource;
        if grant.fence < resource.fence && self.keeps(Rule::ResourceRefuses) {
            next.faults.new_write_refused |= grant.order > resource.order;
            resource.has_refused = true;
            return;
        }
        next.faults.old_write_taken |= grant.order < resource.order;
        resource.fence = grant.fence;
        resource.order = grant.order;
    }

    fn tick(&self, next: &mut State, unnoticed: Option<usize>) {
        let server = &mut next.server;
        if self.ticks().is_some() {
            server.clock += FENCES_PER_TICK;
        }
        server.lock = after_a_tick(server.lock);
        if let Some(copy) = &mut next.copy {
            copy.lock = after_a_tick(copy.lock);
        }
        server.queue.iter_mut().for_each(|place| place.alive -= 1);
        server.queue.retain(|place| place.alive > 0);
        for (at, client) in next.clients.iter_mut().enumerate() {
            if unnoticed != Some(at) {
                self.tick_of(client);
            }
        }
        let is_orphaned = next
            .server
            .lock
            .is_some_and(|lock| is_orphan(next, lock.grant.owner));
        if is_orphaned {
            next.orphaned += 1;
        } else if next.server.lock.is_some() {
            next.orphaned = 0;
        }
        monitor::time_passed(next);
    }

    fn tick_of(&self, client: &mut Client) {
        let ttl = self.bounds.times.ttl;
        match &mut client.phase {
            Phase::Asking { age } => *age = (*age + 1).min(ttl),
            // Of no interest but where waiters have to be prompt.
            Phase::Waiting { idle } if self.bounds.is_prompt => {
                *idle = (*idle + 1).min(LOOK_AGAIN + 1);
            }
            Phase::Holding(holding) if holding.left > 0 || !self.keeps(Rule::LostIsFinal) => {
                holding.left = holding.left.saturating_sub(1);
                if let Some(age) = &mut holding.renewing {
                    *age = (*age + 1).min(ttl);
                }
                if holding.left == 0 && self.keeps(Rule::LostIsFinal) {
                    holding.renewing = None;
                    give_up_answers(client);
                }
            }
            _ => {}
        }
        client.refreshes.iter_mut().for_each(|it| it.age += 1);
        // No hint is believed with what is older.
        client.refreshes.retain(|it| it.age < self.believed_ttl());
    }
}

/// The rest of it.
fn after_a_tick(lock: Option<Lock>) -> Option<Lock> {
    let left = lock.map(|lock| Lock {
        left: lock.left - 1,
        ..lock
    });
    left.filter(|lock| lock.left > 0)
}

/// Whether its process has ended, without a request under way.
fn is_orphan(state: &State, owner: Owner) -> bool {
    let client = &state.clients[usize::from(owner.client)];
    let is_under_way = state.late.iter().any(|it| it.owner == owner);
    client.phase == Phase::Dead && client.wire.is_empty() && !is_under_way
}

/// Whether it counts the time of anything.
fn has_time(client: &Client) -> bool {
    matches!(client.phase, Phase::Holding(_) | Phase::Asking { .. }) || !client.refreshes.is_empty()
}

fn holding(grant: Grant, left: u8) -> Holding {
    Holding {
        grant,
        left,
        renewing: None,
        hinted: false,
    }
}

fn send(client: &mut Client, owner: Owner, what: What, is_awaited: bool) {
    client.wire.push(Request {
        owner,
        what,
        is_awaited,
    });
}

fn unheard(request: Request) -> Request {
    Request {
        is_awaited: false,
        ..request
    }
}

fn give_up_answers(client: &mut Client) {
    client.reply = None;
    for request in client.wire.iter_mut() {
        *request = unheard(*request);
    }
}
