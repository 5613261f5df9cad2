//! The user's transaction: it is fenced by a lease, or adopts that of a `lock_in`, and ends.

use super::{
    Role, Rows, Rule,
    state::{Actor, Is, Owner, Phase, Snapshot, State, Transaction},
};

impl Rows {
    /// The lease by which the transaction is to be fenced.
    fn token(&self, state: &State, at: usize) -> Option<(Owner, u8)> {
        let process = &state.processes[at];
        let begun = process.transaction.and_then(|it| it.token);
        let held = match process.phase {
            Phase::Holding { fence, .. } => Some((self.owner(state, at), fence)),
            _ => None,
        };
        begun.or(held)
    }

    pub(super) fn may_begin(&self, state: &State, at: usize) -> bool {
        let process = &state.processes[at];
        let is_lease = self.bounds.roles[at] != Role::InTransaction;
        let may = match process.phase {
            // The attempt may end before the transaction goes on.
            Phase::Holding { .. } => is_lease || self.bounds.snapshots,
            Phase::Done => false,
            _ => self.bounds.snapshots,
        };
        self.bounds.fences && process.transaction.is_none() && may
    }

    pub(super) fn begin(&self, next: &mut State, at: usize) {
        let token = self.token(next, at);
        let mut transaction = Transaction {
            token,
            is: Is::Open,
            snapshot: None,
        };
        if self.bounds.snapshots {
            let owner = token.map_or_else(|| self.owner(next, at), |(owner, _)| owner);
            transaction.snapshot = Some(Snapshot {
                sees: next.tables.lease(owner).map(|it| it.fence),
                is_old: false,
            });
        }
        next.processes[at].transaction = Some(transaction);
    }

    /// The row of this lease.
    fn finds(&self, state: &State, token: Option<(Owner, u8)>) -> Option<Owner> {
        let (owner, fence) = token?;
        let lease = state.tables.lease(owner)?;
        let is_it = lease.fence == fence || !self.keeps(Rule::FenceCompares);
        is_it.then_some(owner)
    }

    pub(super) fn may_fence(&self, state: &State, at: usize) -> bool {
        let transaction = state.processes[at].transaction;
        let is_open = transaction.is_none_or(|it| it.is == Is::Open);
        self.bounds.fences && is_open && self.token(state, at).is_some()
    }

    /// Unless it waits for a request.
    pub(super) fn fence(&self, next: &mut State, at: usize) -> Option<()> {
        let others = self.waits_for(next, Actor::Transaction(at));
        others.is_empty().then_some(())?;
        if next.processes[at].transaction.is_none() {
            self.begin(next, at);
        }
        let token = self.token(next, at)?;
        let found = self.finds(next, Some(token));
        let is_in_transaction = self.bounds.roles[at] == Role::InTransaction;
        let is_sure = is_in_transaction && !self.keeps(Rule::LockInFindsItsLease);
        let transaction = next.processes[at].transaction.as_mut()?;
        transaction.token = Some(token);
        let (_, fence) = token;
        let sees_it = transaction.snapshot.is_none_or(|it| it.sees == Some(fence));
        transaction.is = match found {
            Some(_) if sees_it => Is::Fenced {
                is_locked: self.keeps(Rule::FenceLocks) || is_in_transaction,
            },
            None if sees_it && transaction.snapshot.is_some() => Is::Failed,
            _ if is_sure => Is::Fenced { is_locked: false },
            _ => Is::Refused,
        };
        Some(())
    }

    pub(super) fn roll_back_to(next: &mut State, at: usize) {
        if let Some(transaction) = &mut next.processes[at].transaction {
            transaction.is = Is::Fenced { is_locked: false };
        }
    }

    pub(super) fn commit(&self, next: &mut State, at: usize) -> Option<()> {
        let transaction = next.processes[at].transaction.take()?;
        let (owner, fence) = transaction.token?;
        let tables = &mut next.tables;
        next.faults.out_of_order |= fence < tables.committed;
        next.faults.overwrote_unseen |= transaction.snapshot.is_some_and(|it| it.is_old);
        tables.committed = tables.committed.max(fence);
        let role = self.bounds.roles[at];
        if role == Role::InTransaction {
            if transaction.locked().is_some() && self.keeps(Rule::LockInDeletes) {
                tables.holders.retain(|it| it.owner != owner);
                next.was_freed_silently = true;
            }
            next.faults.left_over |= tables.lease(owner).is_some();
            self.end_attempt(next, at);
        }
        if role != Role::Shared {
            let others = next.processes.iter_mut();
            let snapshots = others.filter_map(|it| it.transaction.as_mut()?.snapshot.as_mut());
            snapshots.for_each(|it| it.is_old = true);
        }
        Some(())
    }

    /// The lease of a `lock_in` is there again, until its end.
    pub(super) fn roll_back(&self, next: &mut State, at: usize) {
        let transaction = next.processes[at].transaction.take();
        let was_fenced = transaction.is_some_and(Transaction::is_fenced);
        if was_fenced && self.bounds.roles[at] == Role::InTransaction {
            self.end_attempt(next, at);
        }
    }
}
