//! The possible actions in a state, and their results.

use stateright::{Model, Property};

use super::{
    Ends, Quorum, Rule,
    state::{Action, Client, Faults, Held, MOST, Message, NODES, Node, Phase, State, Vote, What},
    tally::Step,
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
    fn sends_releases(&self) -> bool {
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

    /// The node answers.
    fn answer(&self, next: &mut State, node: usize, id: u8, what: What) {
        if self.bounds.slow_answers {
            send(next, node, id, what);
        } else {
            self.heard(next, node, id, what);
        }
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

    fn ask(&self, next: &mut State, at: usize) {
        let id = self.id(next, at);
        let clock = if self.keeps(Rule::ProposedByTheClock) {
            next.clock
        } else {
            0
        };
        let client = &mut next.clients[at];
        let proposal = client.seen.max(clock) + 1;
        if client.round + 1 == self.bounds.rounds {
            // There is no more use for it.
            client.seen = 0;
        }
        client.phase = Phase::Asking {
            votes: [Vote::Pending; NODES],
            chosen: None,
            after: next.greatest,
            is_late: false,
        };
        for node in 0..NODES {
            send(next, node, id, What::Acquire { proposal });
        }
    }

    fn leave(&self, next: &mut State, at: usize) {
        let id = self.id(next, at);
        if self.sends_releases() {
            for node in 0..NODES {
                send(next, node, id, What::Release);
            }
        }
        for node in &mut next.nodes {
            node.out_for &= !bit(at);
        }
        let client = &mut next.clients[at];
        client.round += 1;
        client.phase = if client.round < self.bounds.rounds {
            Phase::Idle
        } else {
            Phase::Done
        };
    }

    fn forget(&self, next: &mut State, node: usize) {
        next.forgets -= 1;
        // Else it says nothing.
        let lasts = next.nodes.iter().map(|node| node.last);
        next.clock = lasts.fold(next.clock, u8::max);
        let clients = next.clients.iter().enumerate();
        let busy = clients.filter(|(_, it)| !matches!(it.phase, Phase::Idle | Phase::Done));
        let busy = busy.fold(0, |busy, (at, _)| busy | bit(at));
        next.nodes[node] = Node {
            last: 0,
            held: None,
            out_for: if self.keeps(Rule::ForgetfulStaysOut) {
                busy
            } else {
                0
            },
        };
        // Its connections are gone with it.
        next.messages.retain(|it| usize::from(it.node) != node);
    }

    fn deliver(&self, next: &mut State, message: Message) -> Option<()> {
        let Message { id, what, .. } = message;
        let at = usize::from(message.node);
        let node = &mut next.nodes[at];
        match what {
            _ if node.out_for != 0 => return None,
            What::Acquire { proposal } => {
                let fence = acquire(node, id, proposal);
                let last = node.last;
                let what = fence.map_or(What::Busy { last }, |fence| What::Granted { fence });
                self.answer(next, at, id, what);
            }
            What::Retake { fence } => {
                acquire(node, id, fence);
                self.answer(next, at, id, What::Retaken);
            }
            What::Raise { from, to } => {
                let is_raised = self.raise(node, id, from, to);
                self.answer(next, at, id, What::Raised { to, is_raised });
            }
            What::Release => node.held = node.held.filter(|held| held.id != id),
            _ => self.heard(next, at, id, what),
        }
        Some(())
    }

    fn raise(&self, node: &mut Node, id: u8, from: u8, to: u8) -> bool {
        let any = !self.keeps(Rule::RaisedAsGranted);
        let held = node
            .held
            .as_mut()
            .filter(|held| held.id == id && (any || held.fence == from || held.fence == to));
        let is_held = held.is_some();
        if let Some(held) = held {
            held.fence = held.fence.max(to);
        }
        let is_raised = is_held || !self.keeps(Rule::RaisedWhereHeld);
        if is_raised {
            node.last = node.last.max(to);
        }
        is_raised
    }

    fn heard(&self, next: &mut State, node: usize, id: u8, what: What) {
        let Some(at) = self.client_of(next, id) else {
            let is_given_back = match what {
                What::Granted { .. } => self.keeps(Rule::LateGrantIsGivenBack),
                What::Retaken => self.keeps(Rule::RetakeIsGivenBack),
                _ => false,
            };
            if is_given_back && self.sends_releases() {
                send(next, node, id, What::Release);
            }
            return;
        };
        let client = &mut next.clients[at];
        let Phase::Asking { votes, .. } = &mut client.phase else {
            return;
        };
        let vote = &mut votes[node];
        match (*vote, what) {
            (Vote::Pending, What::Granted { fence }) => {
                let is_last = client.round + 1 == self.bounds.rounds;
                client.seen = if is_last { 0 } else { client.seen.max(fence) };
                *vote = Vote::Granted(fence);
            }
            (Vote::Pending, What::Busy { last }) => {
                let is_last = client.round + 1 == self.bounds.rounds;
                client.seen = if is_last { 0 } else { client.seen.max(last) };
                *vote = Vote::Busy;
            }
            (
                Vote::Raising { to, .. },
                What::Raised {
                    to: asked,
                    is_raised,
                },
            ) if to == asked => {
                *vote = if is_raised {
                    Vote::Granted(to)
                } else {
                    Vote::Gone
                };
            }
            _ => return,
        }
        self.go_on(next, at, id);
    }

    fn go_on(&self, next: &mut State, at: usize, id: u8) {
        let Phase::Asking {
            votes,
            chosen,
            after,
            is_late,
        } = &mut next.clients[at].phase
        else {
            return;
        };
        match self.step(votes, chosen) {
            Step::Wait => {}
            Step::Grant(_) if *is_late => self.leave(next, at),
            Step::Refuse => self.leave(next, at),
            Step::Raise(to) => {
                let mut raised = List::<(usize, u8), NODES>::new();
                for (node, vote) in votes.iter_mut().enumerate() {
                    if let Vote::Granted(from) = *vote
                        && from < to
                    {
                        *vote = Vote::Raising { from, to };
                        raised.push((node, from));
                    }
                }
                for (node, from) in raised.iter() {
                    send(next, node, id, What::Raise { from, to });
                }
            }
            Step::Grant(fence) => {
                let after = *after;
                self.granted(next, at, fence, after);
            }
        }
    }

    #[expect(clippy::unused_self, reason = "it is a step like the others")]
    fn granted(&self, next: &mut State, at: usize, fence: u8, after: u8) {
        next.clients[at].phase = Phase::Holding { fence, retaken: 0 };
        let bits = &mut next.faults;
        bits.later_is_smaller |= fence <= after;
        bits.out_of_order |= fence <= next.greatest;
        bits.same_fence |= next.granted & (1 << fence) != 0;
        next.granted |= 1 << fence;
        next.greatest = next.greatest.max(fence);
    }
}

fn acquire(node: &mut Node, id: u8, proposal: u8) -> Option<u8> {
    match node.held {
        Some(held) if held.id == id => Some(held.fence),
        Some(_) => None,
        None => {
            node.last = proposal.max(node.last + 1);
            node.held = Some(Held {
                id,
                fence: node.last,
            });
            Some(node.last)
        }
    }
}

fn send(next: &mut State, node: usize, id: u8, what: What) {
    let node = u8::try_from(node).expect("there are few");
    next.messages.insert(Message { node, id, what });
}

fn bit(at: usize) -> u8 {
    1 << at
}

pub(super) fn is_by(held: Option<Held>, id: u8) -> bool {
    held.is_some_and(|held| held.id == id)
}
