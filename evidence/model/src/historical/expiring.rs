//! A key that the server lets expire, taken by one command and deleted by another.
//!
//! A request is sent, carried out and answered in three steps, with any time between them. All times
//! are what is left of them or what has passed, so there is no end of time.

mod checks;

use stateright::{Model, Property};

pub(super) use self::checks::checks;

/// The TTL that a client asks of a server, in ticks.
const TTL: u8 = 3;
const MOST: usize = 4;

/// Locks by `SET NX PX` and a script that compares and deletes, but for the flaw.
#[derive(Clone, Debug)]
pub struct Expiring {
    /// How many clients there are.
    pub clients: usize,
    /// How the protocol differs from the right one.
    pub flaw: Option<Flaw>,
    /// How a client deletes its lock.
    pub release: Release,
}

/// The commands by which a client deletes its own lock, and no other one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// A script compares and deletes.
    Script,
    /// `WATCH`, `GET`, and if the lock is its own `MULTI`, `DEL`, `EXEC`. A client whose connection breaks begins again.
    Watch {
        /// A watched key that has expired aborts the transaction, as it does since Redis 6.0.9.
        expiry_aborts: bool,
    },
}

/// The mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// `SETNX`, and then `EXPIRE`.
    ExpiresLater,
    /// `DEL` without a look at the holder.
    DeletesAnybodys,
    /// `GET`, and `DEL` if it was the own one.
    ComparesThenDeletes,
    /// The deadline counts from the answer.
    CountsFromTheAnswer,
    /// A client that asks again and finds its own lock counts from then, but the TTL has gone on.
    FindsItsOwnAsItWas,
    /// `GET`, `MULTI`, `DEL`, `EXEC`, without `WATCH`.
    WatchesNothing,
    /// `WATCH`, `MULTI`, `DEL`, `EXEC`, without `GET`.
    WatchesAnybodys,
    /// `GET`, and only then `WATCH`.
    WatchesTooLate,
    /// A client whose connection breaks after `GET` sends `MULTI`, `DEL`, `EXEC` over the next one.
    ExecutesElsewhere,
}

/// A lock at the server, and what the clients do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The owner, and what is left of the TTL if there is one.
    lock: Option<(u8, Option<u8>)>,
    clients: [Phase; MOST],
    watches: [Watch; MOST],
}

/// What the server knows of a connection's `WATCH`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Watch {
    No,
    Clean,
    /// The lock has changed since.
    Touched,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Idle,
    /// So long ago.
    Asking(u8),
    /// Carried out; the answer is under way. Asked so long ago.
    Granted(u8),
    /// Holds a lock that has no TTL yet.
    Bare,
    /// Believes in the lock for so long.
    Holding(u8),
    /// Is about to watch the lock.
    Watching,
    /// Is about to see whose lock it is.
    Comparing,
    /// The deletion is under way.
    Deleting,
    Done,
    Dead,
}

/// A step of a client, of the server or of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The client sends its request.
    Ask(usize),
    /// The server carries it out.
    Serve(usize),
    /// The answer arrives.
    Answer(usize),
    /// The answer does not arrive, so the client is to ask again.
    LoseAnswer(usize),
    /// The client sets the TTL of what it holds.
    Expire(usize),
    /// The client ends its section.
    Leave(usize),
    /// The client watches the lock.
    Watch(usize),
    /// The client asks whose lock it is.
    Compare(usize),
    /// The connection breaks on which the client watches, and the client has another one.
    Reconnect(usize),
    /// The server deletes the lock.
    Delete(usize),
    /// The client is no more.
    Die(usize),
    /// Time passes.
    Tick,
}

const MUTEX: &str = "no two believe in the lock";
const ENDS: &str = "the lock of a dead client ends";

impl Expiring {
    fn has(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    fn served(&self, state: &mut State, client: usize, age: u8) {
        let owner = number(client);
        let ttl = (!self.has(Flaw::ExpiresLater)).then_some(TTL);
        let phase = match state.lock {
            None => {
                state.set(Some((owner, ttl)));
                Phase::Granted(age)
            }
            Some((holder, _)) if holder == owner => {
                if !self.has(Flaw::FindsItsOwnAsItWas) {
                    state.set(Some((owner, ttl)));
                }
                Phase::Granted(age)
            }
            Some(_) => Phase::Idle,
        };
        state.clients[client] = phase;
    }

    fn answered(&self, age: u8) -> Phase {
        if self.has(Flaw::ExpiresLater) {
            Phase::Bare
        } else if self.has(Flaw::CountsFromTheAnswer) {
            Phase::Holding(TTL)
        } else {
            Phase::Holding(TTL - age)
        }
    }

    fn leaves(&self) -> Phase {
        match (self.release, self.flaw) {
            (_, Some(Flaw::ComparesThenDeletes | Flaw::WatchesNothing | Flaw::WatchesTooLate)) => {
                Phase::Comparing
            }
            (Release::Watch { .. }, _) => Phase::Watching,
            (Release::Script, _) => Phase::Deleting,
        }
    }

    /// Whether the server carries out the deletion that a client has sent.
    fn deletes(&self, state: &State, client: usize) -> bool {
        match self.release {
            Release::Watch { .. } => state.watches[client] != Watch::Touched,
            Release::Script => {
                let looks =
                    !self.has(Flaw::DeletesAnybodys) && !self.has(Flaw::ComparesThenDeletes);
                state.is_owner(client) || !looks
            }
        }
    }
}

impl State {
    fn is_owner(&self, client: usize) -> bool {
        self.lock.is_some_and(|(owner, _)| owner == number(client))
    }

    /// A command changes the lock.
    fn set(&mut self, lock: Option<(u8, Option<u8>)>) {
        self.lock = lock;
        self.touch();
    }

    fn touch(&mut self) {
        for watch in &mut self.watches {
            if *watch == Watch::Clean {
                *watch = Watch::Touched;
            }
        }
    }
}

fn number(client: usize) -> u8 {
    u8::try_from(client).expect("there are few clients")
}

impl Model for Expiring {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            lock: None,
            clients: [Phase::Idle; MOST],
            watches: [Watch::No; MOST],
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for client in 0..self.clients {
            match state.clients[client] {
                Phase::Idle => actions.push(Action::Ask(client)),
                Phase::Asking(_) => actions.push(Action::Serve(client)),
                Phase::Granted(_) => {
                    actions.extend([Action::Answer(client), Action::LoseAnswer(client)]);
                }
                Phase::Bare => actions.push(Action::Expire(client)),
                Phase::Holding(_) => actions.push(Action::Leave(client)),
                Phase::Watching => actions.push(Action::Watch(client)),
                Phase::Comparing => actions.push(Action::Compare(client)),
                Phase::Deleting => actions.push(Action::Delete(client)),
                Phase::Done | Phase::Dead => continue,
            }
            if state.watches[client] != Watch::No {
                actions.push(Action::Reconnect(client));
            }
            actions.push(Action::Die(client));
        }
        actions.push(Action::Tick);
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = *state;
        match action {
            Action::Ask(client) => next.clients[client] = Phase::Asking(0),
            Action::Serve(client) => {
                let Phase::Asking(age) = state.clients[client] else {
                    return None;
                };
                self.served(&mut next, client, age);
            }
            Action::Answer(client) => {
                let Phase::Granted(age) = state.clients[client] else {
                    return None;
                };
                next.clients[client] = self.answered(age);
            }
            Action::LoseAnswer(client) => next.clients[client] = Phase::Idle,
            Action::Expire(client) => {
                if state.is_owner(client) {
                    next.set(Some((number(client), Some(TTL))));
                }
                next.clients[client] = Phase::Holding(TTL);
            }
            Action::Leave(client) => next.clients[client] = self.leaves(),
            Action::Watch(client) => {
                next.watches[client] = Watch::Clean;
                next.clients[client] = match self.flaw {
                    Some(Flaw::WatchesTooLate | Flaw::WatchesAnybodys) => Phase::Deleting,
                    _ => Phase::Comparing,
                };
            }
            Action::Compare(client) => {
                next.clients[client] = match state.is_owner(client) {
                    true if self.has(Flaw::WatchesTooLate) => Phase::Watching,
                    true => Phase::Deleting,
                    false => Phase::Done,
                };
            }
            Action::Reconnect(client) => {
                next.watches[client] = Watch::No;
                if !self.has(Flaw::ExecutesElsewhere) {
                    next.clients[client] = self.leaves();
                }
            }
            Action::Delete(client) => {
                if self.deletes(state, client) {
                    next.set(None);
                }
                next.clients[client] = Phase::Done;
            }
            Action::Die(client) => next.clients[client] = Phase::Dead,
            Action::Tick => {
                if let Some((_, Some(left))) = &mut next.lock {
                    *left -= 1;
                    if *left == 0 {
                        next.lock = None;
                        if self.release
                            != (Release::Watch {
                                expiry_aborts: false,
                            })
                        {
                            next.touch();
                        }
                    }
                }
                for phase in &mut next.clients {
                    match phase {
                        Phase::Asking(age) | Phase::Granted(age) => *age = (*age + 1).min(TTL),
                        Phase::Holding(left) => *left = left.saturating_sub(1),
                        _ => {}
                    }
                }
            }
        }
        for (phase, watch) in next.clients.iter().zip(&mut next.watches) {
            // `EXEC`, `UNWATCH` and the end of a connection end the watch.
            if matches!(phase, Phase::Done | Phase::Dead) {
                *watch = Watch::No;
            }
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(MUTEX, |_, state: &State| {
                let believes = |it: &&Phase| matches!(it, Phase::Holding(left) if *left > 0);
                state.clients.iter().filter(believes).count() < 2
            }),
            Property::always(ENDS, |_, state: &State| {
                let dead = |owner: u8| state.clients[usize::from(owner)] == Phase::Dead;
                !matches!(state.lock, Some((owner, None)) if dead(owner))
            }),
            Property::sometimes("a lock is held that has ended", |_, state: &State| {
                state.clients.contains(&Phase::Holding(0))
            }),
            Property::sometimes("all have had the lock", |model: &Self, state: &State| {
                let clients = &state.clients[..model.clients];
                clients.iter().all(|it| *it == Phase::Done)
            }),
        ]
    }
}
