//! A client's part: it asks all nodes, counts their answers, raises fences, and leaves.

use super::{
    Quorum, Rule,
    state::{NODES, Phase, State, Vote, What},
    steps::{bit, send},
    tally::Step,
};
use crate::list::List;

impl Quorum {
    pub(super) fn ask(&self, next: &mut State, at: usize) {
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

    pub(super) fn leave(&self, next: &mut State, at: usize) {
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

    pub(super) fn heard(&self, next: &mut State, node: usize, id: u8, what: What) {
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
