//! A process's part: it asks, believes answers and messages, and leaves.

use super::{
    Modes, Rule,
    state::{Answer, Asked, Grant, Hint, Owner, Phase, Replica, Request, State, Told, What},
};
use crate::list::List;

impl Modes {
    pub(super) fn send(&self, next: &mut State, at: usize, what: What) {
        let owner = self.owner(next, at);
        next.clients[at].requests.push(Request { owner, what });
    }

    #[expect(clippy::unused_self, reason = "it is a step like the others")]
    pub(super) fn owner(&self, state: &State, at: usize) -> Owner {
        Owner {
            client: u8::try_from(at).expect("there are few"),
            round: state.clients[at].round,
        }
    }

    /// Whether the process believes in the lease of this owner.
    pub(super) fn believes(&self, state: &State, owner: Owner) -> bool {
        let at = usize::from(owner.client);
        let is_holding = matches!(state.clients[at].phase, Phase::Holding { .. });
        is_holding && self.owner(state, at) == owner
    }

    pub(super) fn heard(&self, next: &mut State, at: usize, answer: Answer) {
        if answer.owner != self.owner(next, at) {
            return;
        }
        match answer.what {
            Told::Granted { is_late: true, .. } | Told::Renewed(false) => self.leave(next, at),
            Told::Granted { grant, .. } if next.clients[at].phase == Phase::Asking => {
                hold(next, at, grant);
            }
            Told::Busy(asked) if next.clients[at].phase == Phase::Asking => {
                let client = &mut next.clients[at];
                client.phase = Phase::Waiting;
                // The one before shows when the attempt knew a smaller fence.
                if client.asked.is_full() {
                    client.asked.remove(1);
                }
                client.asked.push(asked);
            }
            _ => {}
        }
    }

    pub(super) fn hinted(&self, next: &mut State, hint: Hint) {
        let at = usize::from(hint.owner.client);
        let is_open = matches!(next.clients[at].phase, Phase::Asking | Phase::Waiting);
        if !is_open || hint.owner != self.owner(next, at) {
            return;
        }
        let is_before = |asked: &Asked| {
            if self.keeps(Rule::GrantsAreNumbered) {
                asked.last < hint.count
            } else {
                asked.last <= hint.count
            }
        };
        let asked = &next.clients[at].asked;
        let Some(asked) = asked.iter().rfind(is_before) else {
            return;
        };
        next.faults.dated_after_its_grant |= asked.grants >= hint.grant.number;
        // An answer under way is of the same lease or of an earlier state, and is ignored.
        hold(next, at, hint.grant);
    }

    pub(super) fn leave(&self, next: &mut State, at: usize) {
        self.send(next, at, What::Release);
        let client = &mut next.clients[at];
        if let Phase::Holding { grant, .. } = client.phase
            && self.bounds.writes
        {
            client.past = Some(grant);
        }
        client.asked = List::new();
        client.round += 1;
        client.phase = if client.round < self.bounds.rounds {
            Phase::Idle
        } else {
            Phase::Done
        };
    }

    pub(super) fn write(&self, next: &mut State, grant: Grant, is_valid: bool) {
        let resource = &mut next.resource;
        if grant.token < resource.token && self.keeps(Rule::ResourceRefuses) {
            next.faults.valid_write_refused |= is_valid;
            return;
        }
        // Restored holders and those that join them have one token, and exclude nobody of them.
        let is_restored = next.replica == Replica::TookOver && grant.token == resource.token;
        next.faults.late_write_taken |= grant.era < resource.era && !is_restored;
        resource.token = resource.token.max(grant.token);
        resource.era = resource.era.max(grant.era);
    }
}

fn hold(next: &mut State, at: usize, grant: Grant) {
    let client = &mut next.clients[at];
    client.asked = List::new();
    client.phase = Phase::Holding {
        grant,
        has_renewed: false,
        has_written: false,
    };
}
