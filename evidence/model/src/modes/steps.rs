//! The possible actions in a state, and their results.

use stateright::{Model, Property};

use super::{
    Modes,
    state::{
        Action, Answer, Client, Faults, MOST, Phase, Replica, Resource, Server, State, Told, What,
    },
};
use crate::list::List;

/// The last fence of a question that dates no grant any more.
const TOO_OLD: u8 = u8::MAX;

impl Model for Modes {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let client = Client {
            round: 0,
            phase: Phase::Idle,
            requests: List::new(),
            answers: List::new(),
            asked: List::new(),
            past: None,
        };
        vec![State {
            server: Server {
                leases: List::new(),
                epoch: 0,
                ends_with: None,
                last: 0,
                queue: List::new(),
                grants: 0,
                eras: 0,
                greatest: 0,
                era: 0,
                was_shared: false,
            },
            clients: [client; MOST],
            hints: List::new(),
            resource: Resource::default(),
            replica: Replica::UpToDate,
            faults: Faults::default(),
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let clients = &state.clients[..self.bounds.modes.len()];
        for (at, client) in clients.iter().enumerate() {
            let has_room = client.requests.len() < 2 && client.answers.len() < 2;
            match client.phase {
                Phase::Idle if has_room => actions.push(Action::Ask(at)),
                Phase::Waiting if has_room => {
                    actions.extend([Action::Ask(at), Action::Leave(at)]);
                }
                Phase::Asking if has_room => actions.push(Action::Leave(at)),
                Phase::Holding {
                    has_renewed,
                    has_written,
                    ..
                } if has_room => {
                    actions.push(Action::Leave(at));
                    if self.bounds.renews && !has_renewed {
                        actions.push(Action::Renew(at));
                    }
                    if self.bounds.writes && !has_written {
                        actions.push(Action::Write(at));
                    }
                }
                _ => {}
            }
            if !client.requests.is_empty() {
                actions.push(Action::Serve(at));
            }
            if !client.answers.is_empty() {
                actions.push(Action::Hear(at));
            }
            if client.past.is_some() {
                actions.push(Action::LateWrite(at));
            }
        }
        actions.extend((0..state.hints.len()).map(Action::Hint));
        for (at, lease) in state.server.leases.iter().enumerate() {
            if !lease.has_ended && !self.believes(state, lease.owner) {
                actions.push(Action::End(at));
            }
        }
        match state.replica {
            Replica::UpToDate if self.bounds.rolls_back && !state.server.leases.is_empty() => {
                actions.push(Action::Copy);
            }
            Replica::Behind(_) => actions.push(Action::RollBack),
            _ => {}
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = *state;
        match action {
            Action::Ask(at) => {
                next.clients[at].phase = Phase::Asking;
                self.send(&mut next, at, What::Acquire);
            }
            Action::Serve(at) => {
                let request = next.clients[at].requests.remove(0)?;
                let what = match request.what {
                    What::Acquire => self.acquire(&mut next, request.owner),
                    What::Renew => self.renew(&mut next, request.owner),
                    What::Release => self.release(&mut next, request.owner),
                };
                if what != Told::Released {
                    let owner = request.owner;
                    next.clients[at].answers.push(Answer { owner, what });
                }
            }
            Action::Hear(at) => {
                let answer = next.clients[at].answers.remove(0)?;
                self.heard(&mut next, at, answer);
            }
            Action::Hint(at) => {
                let hint = next.hints.remove(at)?;
                self.hinted(&mut next, hint);
            }
            Action::Renew(at) => {
                if let Phase::Holding { has_renewed, .. } = &mut next.clients[at].phase {
                    *has_renewed = true;
                }
                self.send(&mut next, at, What::Renew);
            }
            Action::Leave(at) => self.leave(&mut next, at),
            Action::End(at) => {
                self.grow_old(&mut next, at);
                self.end(&mut next, at);
            }
            Action::Write(at) => {
                let Phase::Holding {
                    grant, has_written, ..
                } = &mut next.clients[at].phase
                else {
                    return None;
                };
                *has_written = true;
                let grant = *grant;
                self.write(&mut next, grant, true);
            }
            Action::LateWrite(at) => {
                let grant = next.clients[at].past.take()?;
                self.write(&mut next, grant, false);
            }
            Action::Copy => next.replica = Replica::Behind(next.server),
            Action::RollBack => self.roll_back(&mut next),
        }
        self.drop_idle(&mut next);
        Some(next)
    }

    fn within_boundary(&self, state: &State) -> bool {
        state.server.grants <= self.bounds.grants
    }

    fn properties(&self) -> Vec<Property<Self>> {
        super::properties::all()
    }
}

impl Modes {
    /// A lease that ends was granted a TTL ago: answers of its grant, and questions before it, are as old.
    fn grow_old(&self, next: &mut State, at: usize) {
        let Some(lease) = next.server.leases.get(at) else {
            return;
        };
        let at = usize::from(lease.owner.client);
        let is_present = self.owner(next, at) == lease.owner;
        let client = &mut next.clients[at];
        for answer in client.answers.iter_mut() {
            if answer.owner != lease.owner {
                continue;
            }
            match &mut answer.what {
                Told::Granted { is_late, .. } => *is_late = true,
                Told::Busy(asked) if asked.grants < lease.grant.number => asked.last = TOO_OLD,
                _ => {}
            }
        }
        if is_present {
            client.asked.retain(|it| it.grants >= lease.grant.number);
        }
    }

    /// Messages without an effect, whenever they come.
    fn drop_idle(&self, next: &mut State) {
        let state = *next;
        next.hints.retain(|hint| {
            let at = usize::from(hint.owner.client);
            let is_open = matches!(state.clients[at].phase, Phase::Asking | Phase::Waiting);
            is_open && self.owner(&state, at) == hint.owner
        });
        // An answer to an attempt that is over has no effect.
        for at in 0..self.bounds.modes.len() {
            let owner = self.owner(&state, at);
            next.clients[at].answers.retain(|it| it.owner == owner);
        }
    }
}
