//! A process's part: its deadlines, the answers and hints it believes, and the end of its attempt.

use super::{
    Lease, Rule,
    state::{Client, Grant, Holding, Owner, Phase, Refresh, Reply, Request, State, What},
};
use crate::list::List;

impl Lease {
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

    pub(super) fn trusted(&self, ttl: u8, age: u8) -> u8 {
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

    pub(super) fn heard(&self, client: &mut Client, reply: Reply) {
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

    pub(super) fn timed_out(&self, client: &mut Client) {
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

    pub(super) fn believed_ttl(&self) -> u8 {
        if self.keeps(Rule::HintCountsForAGrant) {
            self.bounds.times.grant
        } else {
            self.bounds.times.ttl
        }
    }

    /// For how long a hint makes the process believe in its lease.
    pub(super) fn believed(&self, client: &Client, grant: Grant) -> Option<u8> {
        let ttl = self.believed_ttl();
        if !self.keeps(Rule::HintCountsFromAQuestion) {
            return Some(self.trusted(ttl, 0));
        }
        let any = !self.keeps(Rule::HintCountsFromASmallerFence);
        let mut latest_first = client.refreshes.iter().rev();
        let question = latest_first.find(|it| any || it.last < grant.fence)?;
        Some(self.trusted(ttl, question.age))
    }

    pub(super) fn leave(&self, next: &mut State, at: usize) {
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
}

pub(super) fn holding(grant: Grant, left: u8) -> Holding {
    Holding {
        grant,
        left,
        renewing: None,
        hinted: false,
    }
}

pub(super) fn send(client: &mut Client, owner: Owner, what: What, is_awaited: bool) {
    client.wire.push(Request {
        owner,
        what,
        is_awaited,
    });
}

pub(super) fn unheard(request: Request) -> Request {
    Request {
        is_awaited: false,
        ..request
    }
}

pub(super) fn give_up_answers(client: &mut Client) {
    client.reply = None;
    for request in client.wire.iter_mut() {
        *request = unheard(*request);
    }
}
