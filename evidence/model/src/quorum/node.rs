//! A node's part: what it does with a request, and how it forgets.

use super::{
    Quorum, Rule,
    state::{Held, Message, Node, Phase, State, What},
    steps::{bit, send},
};

impl Quorum {
    pub(super) fn deliver(&self, next: &mut State, message: Message) -> Option<()> {
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

    /// The node answers.
    fn answer(&self, next: &mut State, node: usize, id: u8, what: What) {
        if self.bounds.slow_answers {
            send(next, node, id, what);
        } else {
            self.heard(next, node, id, what);
        }
    }

    pub(super) fn forget(&self, next: &mut State, node: usize) {
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
