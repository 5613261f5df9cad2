//! A process's part: it asks, renews, believes answers, and leaves.

use super::{
    Renews, Role, Rows, Rule,
    state::{
        ACQUIRE, Is, LATE, Outcome, Owner, Owners, Phase, RELEASE, RENEW, Request, State, What,
    },
};

impl Rows {
    /// The owner of the attempt that the process makes now.
    pub(super) fn owner(&self, state: &State, at: usize) -> Owner {
        let is_in_transaction = self.bounds.roles[at] == Role::InTransaction;
        if is_in_transaction && !self.keeps(Rule::LockInHasItsOwner) {
            return Owner::EMPTY;
        }
        Owner::new(at, state.processes[at].round)
    }

    /// Of the process: `lock_in`s have the last role if they share an owner.
    pub(super) fn role(&self, owner: Owner) -> Role {
        owner
            .process()
            .map_or(Role::InTransaction, |at| self.bounds.roles[at])
    }

    pub(super) fn ask(&self, next: &mut State, at: usize) {
        let mut request = Request::new(What::Acquire, self.owner(next, at));
        if !self.keeps(Rule::SnapshotAfterTheLock) {
            request.seen = next.tables.owners();
        }
        next.processes[at].phase = Phase::Asking;
        next.processes[at].requests[ACQUIRE] = Some(request);
    }

    pub(super) fn renews(&self, at: usize) -> bool {
        let is_lease = self.bounds.roles[at] != Role::InTransaction;
        let is_renewed = is_lease || !self.keeps(Rule::LockInIsNotRenewed);
        self.bounds.renews != Renews::Never && is_renewed
    }

    pub(super) fn renew(&self, next: &mut State, at: usize) {
        let mut request = Request::new(What::Renew, self.owner(next, at));
        let is_meant = |other: &usize| {
            let is_held =
                matches!(next.processes[*other].phase, Phase::Holding { trust, .. } if trust > 0);
            let is_together = self.bounds.renews == Renews::Together && self.renews(*other);
            *other == at || (is_held && is_together)
        };
        let all = (0..self.bounds.roles.len()).filter(is_meant);
        request.meant = all.map(|other| self.owner(next, other)).collect();
        next.processes[at].requests[RENEW] = Some(request);
    }

    /// The process no longer awaits this request's answer.
    pub(super) fn give_up(next: &mut State, at: usize, slot: usize) {
        next.left.late -= 1;
        next.processes[at].requests[LATE] = next.processes[at].requests[slot].take();
    }

    /// The attempt ends with a release, whatever became of it.
    pub(super) fn leave(&self, next: &mut State, at: usize) {
        let owner = self.owner(next, at);
        let process = &mut next.processes[at];
        if let Some(transaction) = &mut process.transaction
            && let Phase::Holding { fence, .. } = process.phase
        {
            transaction.token.get_or_insert((owner, fence));
        }
        process.requests[RELEASE] = Some(Request::new(What::Release, owner));
        self.end_attempt(next, at);
    }

    pub(super) fn end_attempt(&self, next: &mut State, at: usize) {
        let process = &mut next.processes[at];
        let is_last = process.round + 1 == self.bounds.rounds;
        if is_last {
            process.phase = Phase::Done;
        } else {
            process.round += 1;
            process.phase = Phase::Idle;
        }
    }

    /// The answer to a question.
    pub(super) fn heard_of_acquire(
        &self,
        next: &mut State,
        at: usize,
        request: &Request,
        outcome: Outcome,
    ) {
        let is_awaited = next.processes[at].phase == Phase::Asking;
        if !is_awaited || self.owner(next, at) != request.owner {
            return;
        }
        let fence = next.tables.lease(request.owner).map(|it| it.fence);
        next.processes[at].phase = match (outcome, fence) {
            (Outcome::Granted | Outcome::Extended, Some(fence)) => Phase::Holding {
                fence,
                trust: request.trust(),
            },
            _ => Phase::Waiting,
        };
    }

    /// The answer to a renewal: of all that it renewed, and of its own lease, if that is lost.
    pub(super) fn heard_of_renewal(
        &self,
        next: &mut State,
        at: usize,
        request: &Request,
        renewed: Owners,
    ) {
        for other in 0..self.bounds.roles.len() {
            let owner = self.owner(next, other);
            let Phase::Holding { trust, .. } = &mut next.processes[other].phase else {
                continue;
            };
            if *trust == 0 {
                // A lost lease does not come back.
            } else if renewed.has(owner) {
                *trust = request.trust().max(*trust);
            } else if other == at && owner == request.owner {
                *trust = 0;
            }
        }
    }

    /// Whether its transaction, if there is one, does not end its attempt.
    pub(super) fn may_leave(&self, state: &State, at: usize) -> bool {
        let transaction = state.processes[at].transaction;
        let is_lease = self.bounds.roles[at] != Role::InTransaction;
        is_lease || transaction.is_none_or(|it| it.is == Is::Open)
    }
}
