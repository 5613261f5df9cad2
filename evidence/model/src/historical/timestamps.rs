//! A key that contains its end of validity, by its writer's clock: `SETNX`, `GET`, `GETSET`.
//!
//! Each command is one step, and any time passes between two of them.

use stateright::{Model, Property};

use crate::check::Check;

const TTL: i8 = 2;
const MOST: usize = 3;
/// A timestamp that is older is over for everybody.
const OLDEST: i8 = -2;

/// Locks by timestamps.
#[derive(Clone, Debug)]
pub struct Timestamps {
    /// How many clients there are.
    pub clients: usize,
    /// By how much the clock of the last client is ahead, in ticks.
    pub ahead: i8,
    /// Whether a release compares and deletes in one step.
    pub compares: bool,
}

/// The timestamp at the server, and what the clients do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// In ticks from now, by a true clock.
    until: Option<i8>,
    clients: [Phase; MOST],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Idle,
    /// `SETNX` has failed.
    Looking,
    /// The timestamp was over.
    Replacing,
    /// Until then, in ticks from now by a true clock.
    Holding(i8),
    /// The client has seen that its time is not over, or does not check it.
    Deleting(i8),
    Done,
}

/// A command of a client, or time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// `SETNX`
    SetNx(usize),
    /// `GET`
    Get(usize),
    /// `GETSET`
    GetSet(usize),
    /// The client ends its section.
    Leave(usize),
    /// `DEL`
    Del(usize),
    /// Time passes.
    Tick,
}

const MUTEX: &str = "no two believe in the lock";

impl Timestamps {
    /// The time on the client's clock, relative to a true one.
    fn now(&self, client: usize) -> i8 {
        if client + 1 == self.clients {
            self.ahead
        } else {
            0
        }
    }

    fn step(&self, next: &mut State, client: usize, action: Action) -> Phase {
        let now = self.now(client);
        let end = now + TTL;
        match (action, next.clients[client]) {
            (Action::SetNx(_), _) if next.until.is_some() => Phase::Looking,
            (Action::SetNx(_), _) => {
                next.until = Some(end);
                Phase::Holding(end)
            }
            (Action::Get(_), _) => match next.until {
                Some(until) if until <= now => Phase::Replacing,
                _ => Phase::Idle,
            },
            (Action::GetSet(_), _) => {
                let old = next.until.replace(end);
                if old.is_none_or(|old| old <= now) {
                    Phase::Holding(end)
                } else {
                    Phase::Idle
                }
            }
            (Action::Leave(_), Phase::Holding(until)) => {
                // Its time is over, and the lock belongs to another client.
                if until <= now {
                    Phase::Done
                } else {
                    Phase::Deleting(until)
                }
            }
            (Action::Del(_), Phase::Deleting(until)) => {
                if !self.compares || next.until == Some(until) {
                    next.until = None;
                }
                Phase::Done
            }
            (_, phase) => phase,
        }
    }
}

impl Model for Timestamps {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            until: None,
            clients: [Phase::Idle; MOST],
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for client in 0..self.clients {
            match state.clients[client] {
                Phase::Idle => actions.push(Action::SetNx(client)),
                Phase::Looking => actions.push(Action::Get(client)),
                Phase::Replacing => actions.push(Action::GetSet(client)),
                Phase::Holding(_) => actions.push(Action::Leave(client)),
                Phase::Deleting(_) => actions.push(Action::Del(client)),
                Phase::Done => {}
            }
        }
        actions.push(Action::Tick);
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = *state;
        match action {
            Action::SetNx(client)
            | Action::Get(client)
            | Action::GetSet(client)
            | Action::Leave(client)
            | Action::Del(client) => next.clients[client] = self.step(&mut next, client, action),
            Action::Tick => {
                let past = |until: &mut i8| *until = (*until - 1).max(OLDEST);
                next.until.iter_mut().for_each(past);
                for phase in &mut next.clients {
                    if let Phase::Holding(until) | Phase::Deleting(until) = phase {
                        past(until);
                    }
                }
            }
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(MUTEX, |model: &Self, state: &State| {
                let believes = |(client, phase): &(usize, &Phase)| matches!(phase, Phase::Holding(until) if *until > model.now(*client));
                state.clients.iter().enumerate().filter(believes).count() < 2
            }),
            Property::sometimes(
                "a lock is taken that was not released",
                |_, state: &State| {
                    state.clients.contains(&Phase::Holding(TTL))
                        && state
                            .clients
                            .iter()
                            .any(|it| matches!(it, Phase::Holding(until) if *until <= 0))
                },
            ),
        ]
    }
}

pub(super) fn checks(is_large: bool) -> Vec<Check> {
    let with = |clients, ahead, compares| Timestamps {
        clients,
        ahead,
        compares,
    };
    if is_large {
        return Vec::new();
    }
    let right = with(3, 0, true);
    let name = "timestamps, perfect clocks, compare and DEL; 3 clients";
    let mut checks = vec![
        Check::fails(
            "timestamps, perfect clocks, DEL; 3 clients",
            with(3, 0, false),
            MUTEX,
            9,
        ),
        Check::fails(
            "timestamps, one clock ahead by 1; 3 clients",
            with(3, 1, true),
            MUTEX,
            5,
        ),
        Check::fails(
            "timestamps, one clock ahead by 2; 2 clients",
            with(2, 2, true),
            MUTEX,
            4,
        ),
    ];
    checks.extend(Check::happens(
        name,
        &right,
        [("a lock is taken that was not released", 6)],
    ));
    checks.push(Check::holds(name, right, 2_200));
    checks
}
