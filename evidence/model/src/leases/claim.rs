//! The claims of the tasks: the requests that they send, and what they do with the answers.

use super::{
    Leases, Rule,
    state::{Claim, Phase, Request, State, What},
};

impl State {
    /// The claim that a task makes now.
    pub(super) fn claim(&self, task: usize) -> Claim {
        Claim {
            task: u8::try_from(task).unwrap_or(u8::MAX),
            round: self.tasks[task].round,
        }
    }

    fn send(&mut self, task: usize, what: What) {
        let (claim, lease) = (self.claim(task), self.tasks[task].lease);
        self.requests.insert(Request { claim, what, lease });
    }

    pub(super) fn give_up(&mut self, task: usize) {
        let phase = &mut self.tasks[task].phase;
        *phase = match *phase {
            Phase::Asking { creates, .. } => Phase::Ending { is_known: !creates },
            Phase::Holding => Phase::Ending { is_known: true },
            other => other,
        };
    }

    /// The claim of a task has ended, and the next one may come.
    pub(super) fn is_over(&mut self, task: usize) {
        self.tasks[task].round += 1;
        self.tasks[task].phase = Phase::Idle;
        self.tasks[task].is_kept = false;
        self.tasks[task].is_bare = false;
        self.tasks[task].lease = 0;
    }
}

impl Leases {
    /// A lease of an earlier claim is taken before one is made.
    pub(super) fn ask(&self, next: &mut State, task: usize) {
        let idle = &mut next.idle[self.process(task)];
        let found = idle.get(0);
        if self.keeps(Rule::OneClaimALease) {
            idle.remove(0);
        }
        let lease = found.unwrap_or_else(|| {
            next.leases.push(true);
            u8::try_from(next.leases.len() - 1).unwrap_or(u8::MAX)
        });
        let is_fresh = found.is_none();
        next.tasks[task].lease = lease;
        next.tasks[task].is_kept = is_fresh;
        next.tasks[task].phase = Phase::Asking {
            creates: true,
            keeps: !is_fresh,
        };
        next.send(task, What::Create);
        if !is_fresh {
            next.send(task, What::KeepAlive);
        }
    }

    /// The answer to the request that creates the key. It is refused if there is another key, or if the lease has ended.
    pub(super) fn created(&self, next: &mut State, task: usize, is_created: bool, is_alive: bool) {
        let Phase::Asking { keeps, .. } = next.tasks[task].phase else {
            return;
        };
        if is_created {
            self.wait_for(next, task, false, keeps);
        } else if is_alive {
            self.give_back(next, task);
        } else {
            next.is_over(task);
        }
    }

    /// The answer to a keep-alive.
    pub(super) fn kept(&self, next: &mut State, task: usize, is_alive: bool) {
        let Phase::Asking { creates, .. } = next.tasks[task].phase else {
            return;
        };
        if is_alive {
            self.wait_for(next, task, creates, false);
        } else {
            next.tasks[task].phase = Phase::Ending { is_known: !creates };
        }
    }

    fn wait_for(&self, next: &mut State, task: usize, creates: bool, keeps: bool) {
        let needs_both = self.keeps(Rule::KeptAliveBeside);
        let waits = creates || (keeps && needs_both);
        next.tasks[task].phase = if waits {
            Phase::Asking { creates, keeps }
        } else {
            Phase::Holding
        };
    }

    pub(super) fn release(&self, next: &mut State, task: usize) {
        match next.tasks[task].phase {
            Phase::Ending { is_known } | Phase::Deleting { is_known } => {
                next.tasks[task].phase = Phase::Deleting { is_known };
                // The create revision of one without an answer is read first.
                next.send(
                    task,
                    if is_known {
                        What::Delete
                    } else {
                        What::DeleteName
                    },
                );
                if is_known && !self.keeps(Rule::DeletedBeforeItIsUsed) {
                    self.give_back(next, task);
                }
            }
            Phase::Revoking => next.send(task, What::Revoke),
            _ => {}
        }
    }

    /// The same in a full database.
    pub(super) fn release_bare(next: &mut State, task: usize) {
        if let Phase::Ending { is_known } | Phase::Deleting { is_known } = next.tasks[task].phase {
            next.tasks[task].phase = Phase::Deleting { is_known };
            next.tasks[task].is_bare = true;
            next.send(task, What::DeleteName);
        }
    }

    /// The answer to a deletion.
    pub(super) fn deleted(&self, next: &mut State, task: usize, was_there: bool) {
        let Phase::Deleting { is_known } = next.tasks[task].phase else {
            return;
        };
        if is_known && was_there {
            self.give_back(next, task);
        } else if is_known {
            // The key has ended with its lease, or by an earlier deletion.
            next.is_over(task);
        } else if self.keeps(Rule::UnknownIsEnded) {
            next.tasks[task].phase = Phase::Revoking;
        } else {
            self.give_back(next, task);
        }
    }

    fn give_back(&self, next: &mut State, task: usize) {
        if next.tasks[task].is_bare && self.keeps(Rule::BareIsTheLast) {
            next.is_over(task);
            return;
        }
        next.idle[self.process(task)].insert(next.tasks[task].lease);
        next.is_over(task);
    }
}
