//! The answers to waiters, which are repeated without a request as long as nothing has changed them.
//!
//! A waiter polls in case a hint was lost. While a watch is set, the server says when the waiter may hold the key, and an
//! answer in memory is as good as a new one. It is always *busy*, so one that is too old is safe.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use dlock_runtime::{
    LockKey,
    store::{ALIVE, Holder, OwnerId},
};
use tokio::time::Instant;

/// After this time a waiter asks ZooKeeper, also if the holder's lease is longer.
const LONGEST: Duration = Duration::from_secs(30);

/// The answers to all waiters of this process.
#[derive(Debug, Default)]
pub(crate) struct Answers(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    by_key: HashMap<LockKey, HashMap<OwnerId, Answer>>,
    /// The number of deletions of children by this process.
    deletions: u64,
}

#[derive(Debug)]
struct Answer {
    holder: Holder,
    at: Instant,
}

impl Answers {
    fn table(&self) -> MutexGuard<'_, Table> {
        // Every change is complete before any code can panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.table().by_key.is_empty()
    }

    /// Returns a number that is another one after a deletion.
    pub(crate) fn deletions(&self) -> u64 {
        self.table().deletions
    }

    /// Notes an answer that was read when [`deletions`](Self::deletions) was this number.
    pub(crate) fn note(&self, key: &LockKey, owner: OwnerId, holder: &Holder, deletions: u64) {
        let mut table = self.table();
        if table.deletions == deletions {
            let answer = Answer {
                holder: holder.clone(),
                at: Instant::now(),
            };
            let of_key = table.by_key.entry(key.clone()).or_default();
            of_key.insert(owner, answer);
        }
    }

    /// Returns the answer to a waiter that asks again, until the holder's lease would have ended.
    pub(crate) fn get(&self, key: &LockKey, owner: OwnerId) -> Option<Holder> {
        let table = self.table();
        let Answer { holder, at } = table.by_key.get(key)?.get(&owner)?;
        let age = at.elapsed();
        let ttl = holder.ttl.unwrap_or(ALIVE);
        (age < ttl.min(LONGEST)).then(|| {
            let mut holder = holder.clone();
            holder.ttl = holder.ttl.map(|ttl| ttl.saturating_sub(age));
            holder
        })
    }

    /// Forgets the answer to one waiter.
    pub(crate) fn forget(&self, key: &LockKey, owner: OwnerId) {
        let mut table = self.table();
        if let Some(of_key) = table.by_key.get_mut(key) {
            of_key.remove(&owner);
            if of_key.is_empty() {
                table.by_key.remove(key);
            }
        }
    }

    /// Forgets all answers about a key: this process has deleted a child of it.
    pub(crate) fn forget_all(&self, key: &LockKey) {
        let mut table = self.table();
        table.deletions += 1;
        table.by_key.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use dlock_runtime::{random::SystemRandom, store::ClientId};
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_repeated_until_the_lease_would_have_ended_or_a_child_is_deleted() {
        let answers = Answers::default();
        let key = LockKey::new("order:42").unwrap();
        let owner = OwnerId::new(ClientId::new(&SystemRandom), 1);
        let holder = Holder::new(7).ttl(Duration::from_secs(10));
        let note = |deletions| answers.note(&key, owner, &holder, deletions);
        let rest = || answers.get(&key, owner).map(|it| it.ttl.unwrap());
        note(answers.deletions());
        advance(Duration::from_secs(4)).await;
        assert_eq!(rest(), Some(Duration::from_secs(6)));
        advance(Duration::from_secs(6)).await;
        assert_eq!(rest(), None, "the lease would have ended");

        let before = answers.deletions();
        note(before);
        answers.forget_all(&key);
        assert_eq!(rest(), None, "a child was deleted");
        note(before);
        assert_eq!(rest(), None, "it was read before the deletion");
        note(answers.deletions());
        answers.forget(&key, owner);
        assert_eq!(rest(), None);
        assert!(answers.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn waiters_of_a_key_have_answers_of_their_own_that_last_for_half_a_minute_at_most() {
        let (answers, key) = (Answers::default(), LockKey::new("order:42").unwrap());
        let client = ClientId::new(&SystemRandom);
        let [one, other] = [1, 2].map(|number| OwnerId::new(client, number));
        let holder = Holder::new(7).ttl(2 * LONGEST);
        for owner in [one, other] {
            answers.note(&key, owner, &holder, answers.deletions());
        }
        answers.forget(&key, one);
        assert_eq!(answers.get(&key, one), None);
        let last = Duration::from_millis(1);
        advance(LONGEST.saturating_sub(last)).await;
        assert!(answers.get(&key, other).is_some());
        advance(last).await;
        assert_eq!(answers.get(&key, other), None);
        answers.note(&key, one, &Holder::new(7), answers.deletions());
        advance(ALIVE).await;
        assert_eq!(answers.get(&key, one), None, "it may end at any time");
    }
}
