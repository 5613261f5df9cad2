//! The renewal: it moves the ends of leases whose rows are there, without the mutex.

use super::{
    Renews, Rows, Rule,
    locks::Strength,
    state::{Actor, Holder, LATE, Outcome, Owner, Phase, Request, State, Step, TTL},
};

impl Rows {
    /// The row that the renewal locks next.
    pub(super) fn next_to_renew(&self, request: &Request) -> Option<Owner> {
        // Two renewals begin with different rows: each with that of the process that sent it.
        let is_own_first = self.bounds.renews == Renews::Together
            && !self.keeps(Rule::RowsInOneOrder)
            && request.meant.has(request.owner);
        if is_own_first {
            Some(request.owner)
        } else {
            request.meant.iter().next()
        }
    }

    /// The next step, unless it waits: one row, or the commit.
    pub(super) fn serve_renew(&self, next: &mut State, of: Actor) -> Option<()> {
        let mut request = next.request(of)?;
        if let Step::Decided(_) = request.step {
            self.commit_renewal(next, of, &request);
            return Some(());
        }
        while let Some(owner) = self.next_to_renew(&request) {
            let others = self.row_blockers(next, of, owner, Strength::NoKeyUpdate);
            others.is_empty().then_some(())?;
            request.meant = request.meant.without(owner);
            if !self.keeps(Rule::RenewalRevivesNothing) {
                revive(next, owner, &request);
            }
            let lease = next.tables.lease(owner);
            let refuses = self.keeps(Rule::RenewalRefusesTheEnded);
            if lease.is_some_and(|it| it.left > 0 || !refuses) {
                request.locked = request.locked.with(owner);
                break;
            }
        }
        request.step = if request.meant.is_empty() {
            Step::Decided(Outcome::Done)
        } else {
            Step::Locking
        };
        next.set(of, Some(request));
        if request.meant.is_empty() && request.locked.is_empty() {
            self.commit_renewal(next, of, &request);
        }
        Some(())
    }

    fn commit_renewal(&self, next: &mut State, of: Actor, request: &Request) {
        for owner in request.locked.iter() {
            if let Some(lease) = next.tables.lease_mut(owner) {
                lease.left = request.left();
            }
        }
        if self.keeps(Rule::RenewalsAreDurable) {
            self.wait_for_the_disk(next);
        }
        next.set(of, None);
        if let Actor::Request(at, slot) = of
            && slot != LATE
        {
            self.heard_of_renewal(next, at, request, request.locked);
        }
    }
}

/// An `INSERT … ON CONFLICT DO UPDATE` finds no row to update.
fn revive(next: &mut State, owner: Owner, request: &Request) {
    let process = owner.process().map(|at| next.processes[at]);
    let phase = process.map(|it| it.phase);
    if let Some(Phase::Holding { fence, .. }) = phase
        && owner == request.owner
        && next.tables.lease(owner).is_none()
    {
        next.tables.holders.insert(Holder {
            owner,
            fence,
            left: TTL,
        });
    }
}
