//! The possible actions in a state, and their results.

use stateright::{Model, Property};

use super::{
    Lease, Rule,
    client::{give_up_answers, holding, send, unheard},
    monitor,
    server::{NOTHING, copy, start_with},
    state::{
        Action, Client, Faults, Grant, Holding, LOOK_AGAIN, Left, MOST, Phase, Server, State, What,
        Written,
    },
    time::FENCES_PER_TICK,
};
use crate::list::List;

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
}

/// Whether it counts the time of anything.
fn has_time(client: &Client) -> bool {
    matches!(client.phase, Phase::Holding(_) | Phase::Asking { .. }) || !client.refreshes.is_empty()
}
