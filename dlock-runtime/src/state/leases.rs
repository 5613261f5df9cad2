//! The leases of a pool, found by their owners and by the tasks that use them.
//!
//! Thousands of tasks may share one lease or hold permits. Each looks its lease up at every poll of its body, under the mutex
//! of the key: a search among all would make each of them slower by all the others.

use std::collections::BTreeMap;

use super::{attempt::Attempt, waiter::LocalWaiter};
use crate::{attempt::AttemptId, clock::Moment, owner::OwnerId};

#[derive(Debug)]
pub(super) struct Leases<T> {
    /// Boxed: a map has room for several entries from its first one.
    attempts: BTreeMap<OwnerId, Box<Attempt<T>>>,
    /// The owner of the lease that each task bears or shares. An owner stays when another task bears its claim.
    owners: BTreeMap<AttemptId, OwnerId>,
}

impl<T> Default for Leases<T> {
    fn default() -> Self {
        Self {
            attempts: BTreeMap::new(),
            owners: BTreeMap::new(),
        }
    }
}

impl<T> Leases<T> {
    pub(super) fn len(&self) -> usize {
        self.attempts.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.attempts.is_empty()
    }

    /// Returns the attempts, those with the oldest claims first.
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = &Attempt<T>> {
        self.attempts.values().map(|attempt| &**attempt)
    }

    /// Returns the owner of the lease that attempt `id` bears or shares.
    pub(super) fn owner_of(&self, id: AttemptId) -> Option<OwnerId> {
        self.owners.get(&id).copied()
    }

    pub(super) fn get(&self, owner: OwnerId) -> Option<&Attempt<T>> {
        self.attempts.get(&owner).map(|attempt| &**attempt)
    }

    pub(super) fn get_mut(&mut self, owner: OwnerId) -> Option<&mut Attempt<T>> {
        self.attempts.get_mut(&owner).map(|attempt| &mut **attempt)
    }

    pub(super) fn add(&mut self, attempt: Attempt<T>) -> OwnerId {
        let owner = attempt.claim.owner;
        let users = attempt.users().map(|user| (user.id, owner));
        self.owners.extend(users);
        self.attempts.insert(owner, Box::new(attempt));
        owner
    }

    pub(super) fn remove(&mut self, owner: OwnerId) -> Option<Attempt<T>> {
        let attempt = self.attempts.remove(&owner)?;
        for user in attempt.users() {
            self.owners.remove(&user.id);
        }
        Some(*attempt)
    }

    /// Lets `next` use the lease of `owner` beside the tasks that do so already.
    pub(super) fn share(&mut self, owner: OwnerId, next: LocalWaiter<T>, now: Moment) {
        if let Some(attempt) = self.attempts.get_mut(&owner) {
            self.owners.insert(next.id, owner);
            attempt.share_with(next, now);
        }
    }

    /// Ends the use of a lease by attempt `id`, if other tasks use it too. Returns `false` if none does.
    pub(super) fn leave(&mut self, id: AttemptId) -> bool {
        let owner = self.owner_of(id);
        let attempt = owner.and_then(|owner| self.get_mut(owner));
        let others_stay = attempt.is_some_and(|attempt| attempt.remove_user(id));
        if others_stay {
            self.owners.remove(&id);
        }
        others_stay
    }

    /// Checks that the two maps agree.
    #[cfg(test)]
    pub(super) fn check(&self) {
        let users = self
            .iter()
            .flat_map(|it| it.users().map(|user| (user.id, it.claim.owner)));
        let users: BTreeMap<_, _> = users.collect();
        assert_eq!(self.owners, users, "a task is looked up in vain");
    }
}
