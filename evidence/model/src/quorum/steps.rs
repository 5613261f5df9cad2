//! The possible actions in a state, and their results.

use stateright::{Model, Property};

use super::{
    Ends, Quorum, Rule,
    state::{Action, Client, Faults, Held, MOST, Message, NODES, Node, Phase, State, What},
};
use crate::list::List;

impl Model for Quorum {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let client = Client {
            round: 0,
            phase: Phase::Idle,
            seen: 0,
        };
        let node = |last| Node {
            last,
            held: None,
            out_for: 0,
        };
        vec![State {
            nodes: self.bounds.counted.map(node),
            clients: [client; MOST],
            messages: List::new(),
            granted: 0,
            greatest: 0,
            clock: 0,
            forgets: self.bounds.forgets,
            repeats: self.bounds.repeats,
            faults: Faults::default(),
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for at in 0..self.bounds.clients {
            let id = self.id(state, at);
            match state.clients[at].phase {
                Phase::Idle => actions.push(Action::Ask(at)),
                Phase::Asking { .. } => actions.push(Action::Leave(at)),
                Phase::Holding { retaken, .. } => {
                    actions.push(Action::Leave(at));
                    let missing = (0..NODES).filter(|node| {
                        let held = state.nodes[*node].held;
                        self.bounds.renews && retaken & bit(*node) == 0 && !is_by(held, id)
                    });
                    actions.extend(missing.map(|node| Action::Retake(at, node)));
                }
                Phase::Done => {}
            }
        }
        for (at, message) in state.messages.iter().enumerate() {
            actions.push(Action::Deliver(at));
            if state.repeats > 0 && matches!(message.what, What::Acquire { .. }) {
                actions.push(Action::Repeat(at));
            }
        }
        for (at, node) in state.nodes.iter().enumerate() {
            if node.held.is_some_and(|held| self.may_end(state, held)) {
                actions.push(Action::End(at));
            }
            if state.forgets > 0 {
                actions.push(Action::Forget(at));
            }
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = *state;
        let has_ended = state.clients[..self.bounds.clients]
            .iter()
            .all(|it| it.phase == Phase::Done);
        if has_ended && !self.sends_releases() {
            return None;
        }
        match action {
            Action::Ask(at) => self.ask(&mut next, at),
            Action::Leave(at) => self.leave(&mut next, at),
            Action::Retake(at, node) => {
                let id = self.id(state, at);
                let Phase::Holding { fence, retaken } = &mut next.clients[at].phase else {
                    return None;
                };
                *retaken |= bit(node);
                let what = What::Retake { fence: *fence };
                send(&mut next, node, id, what);
            }
            Action::Deliver(at) => {
                let message = next.messages.remove(at)?;
                self.deliver(&mut next, message)?;
            }
            Action::Repeat(at) => {
                next.repeats -= 1;
                let message = next.messages.get(at)?;
                self.deliver(&mut next, message)?;
            }
            Action::End(node) => {
                let held = next.nodes[node].held.take()?;
                let client = self.client_of(state, held.id);
                let in_time = self.bounds.ends == Ends::InTime;
                if let Some(at) = client.filter(|_| in_time)
                    && let Phase::Asking { is_late, .. } = &mut next.clients[at].phase
                {
                    *is_late = self.keeps(Rule::CountsFromTheFirstQuestion);
                }
            }
            Action::Forget(node) => self.forget(&mut next, node),
        }
        self.drop_idle_messages(&mut next);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        super::properties::all()
    }
}

impl Quorum {
    /// By what id nodes know the client's present attempt.
    pub(super) fn id(&self, state: &State, at: usize) -> u8 {
        let round = if self.keeps(Rule::FreshId) {
            state.clients[at].round
        } else {
            0
        };
        u8::try_from(at).expect("there are few") * self.bounds.rounds + round
    }

    /// The client with this id, if its attempt is not over.
    pub(super) fn client_of(&self, state: &State, id: u8) -> Option<usize> {
        let at = usize::from(id / self.bounds.rounds);
        let is_on = !matches!(state.clients[at].phase, Phase::Idle | Phase::Done);
        (is_on && self.id(state, at) == id).then_some(at)
    }

    /// Where a lock may end by itself a release is nothing new, unless it can meet a later round.
    pub(super) fn sends_releases(&self) -> bool {
        self.bounds.ends == Ends::Never || !self.keeps(Rule::FreshId)
    }

    /// Messages without an effect, whenever they arrive.
    fn drop_idle_messages(&self, next: &mut State) {
        let state = *next;
        let may_hold = |it: &Message| {
            let is_question = |other: Message| {
                let is_same = other.node == it.node && other.id == it.id;
                is_same && matches!(other.what, What::Acquire { .. } | What::Retake { .. })
            };
            is_by(state.nodes[usize::from(it.node)].held, it.id)
                || state.messages.iter().any(is_question)
        };
        next.messages.retain(|it| match it.what {
            What::Release => may_hold(it),
            What::Raise { .. } if self.keeps(Rule::RaisedWhereHeld) => {
                self.client_of(&state, it.id).is_some() || may_hold(it)
            }
            _ => true,
        });
    }

    fn may_end(&self, state: &State, held: Held) -> bool {
        match self.bounds.ends {
            Ends::Never => false,
            Ends::Anytime => true,
            Ends::InTime => {
                let client = self.client_of(state, held.id);
                let phase = client.map(|at| state.clients[at].phase);
                !matches!(phase, Some(Phase::Holding { .. }))
            }
        }
    }
}

pub(super) fn send(next: &mut State, node: usize, id: u8, what: What) {
    let node = u8::try_from(node).expect("there are few");
    next.messages.insert(Message { node, id, what });
}

pub(super) fn bit(at: usize) -> u8 {
    1 << at
}

pub(super) fn is_by(held: Option<Held>, id: u8) -> bool {
    held.is_some_and(|held| held.id == id)
}
