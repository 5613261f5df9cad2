//! The keys that tasks of this process hold or want, and only those.

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError},
};

use tokio::sync::Notify;

use crate::{
    key::LockKey,
    mode::LockMode,
    state::KeyState,
    sync::{Mutex, MutexGuard},
};

/// One entry for each key that is held or wanted in a kind of mode. `T` is the handle that wakes a task.
pub(crate) struct Table<T> {
    entries: Mutex<Entries<T>>,
    /// Notified when the last key is removed.
    idle: Notify,
}

struct Entries<T> {
    by_kind: [HashMap<LockKey, Arc<KeyEntry<T>>>; ModeKind::COUNT],
    /// Set once, under the same mutex that admits new attempts, so that none can enter during a shutdown.
    closed: bool,
}

/// The kind of a mode. Attempts at one key in different kinds of modes know nothing of each other: the store decides
/// between them.
#[derive(Clone, Copy)]
enum ModeKind {
    Exclusive,
    Shared,
    Permits,
}

impl ModeKind {
    const COUNT: usize = 3;

    fn of(mode: LockMode) -> Self {
        match mode {
            LockMode::Exclusive => Self::Exclusive,
            LockMode::Shared => Self::Shared,
            LockMode::Permits(_) => Self::Permits,
        }
    }
}

/// The state of one key in a kind of mode.
pub(crate) struct KeyEntry<T> {
    pub(crate) key: LockKey,
    kind: ModeKind,
    state: Mutex<KeyState<T>>,
}

impl<T> KeyEntry<T> {
    /// Returns the state for a fork, whose copy of the mutex may be locked forever.
    pub(crate) fn try_state(&self) -> Option<MutexGuard<'_, KeyState<T>>> {
        self.state.try_lock().ok()
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, KeyState<T>> {
        // Every change of the state is complete before a panic can occur.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        let entries = Entries {
            by_kind: Default::default(),
            closed: false,
        };
        Self {
            entries: Mutex::new(entries),
            idle: Notify::new(),
        }
    }
}

impl<T: Clone> Table<T> {
    fn entries(&self) -> MutexGuard<'_, Entries<T>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `enter`, which adds an attempt to the entry of `key` in this mode, and returns its result. Returns `None`
    /// after [`close`].
    ///
    /// [`close`]: Self::close
    pub(crate) fn enter<R>(
        &self,
        key: &LockKey,
        mode: LockMode,
        enter: impl FnOnce(&Arc<KeyEntry<T>>, &mut KeyState<T>) -> R,
    ) -> Option<R> {
        let mut entries = self.entries();
        if entries.closed {
            return None;
        }
        let kind = ModeKind::of(mode);
        let of_kind = &mut entries.by_kind[kind as usize];
        let entry = of_kind.entry(key.clone()).or_insert_with(|| {
            Arc::new(KeyEntry {
                key: key.clone(),
                kind,
                state: Mutex::default(),
            })
        });
        // Under the outer mutex, so that `forget_if_idle` cannot remove the entry in between.
        let entered = enter(entry, &mut entry.state());
        Some(entered)
    }

    /// Removes the entry of a key that no task holds or wants any more.
    pub(crate) fn forget_if_idle(&self, entry: &Arc<KeyEntry<T>>) {
        let mut entries = self.entries();
        // The key may have another entry by now, which must stay.
        let of_kind = &mut entries.by_kind[entry.kind as usize];
        let is_current = of_kind
            .get(&entry.key)
            .is_some_and(|current| Arc::ptr_eq(current, entry));
        if is_current && entry.state().is_idle() {
            of_kind.remove(&entry.key);
        }
        let empty = entries.by_kind.iter().all(HashMap::is_empty);
        // A woken task may access the table at once.
        drop(entries);
        if empty {
            self.idle.notify_waiters();
        }
    }

    /// Returns the entries of `key`: one for each kind of mode in which a task holds or wants it.
    pub(crate) fn find(&self, key: &str) -> impl Iterator<Item = Arc<KeyEntry<T>>> {
        let entries = self.entries();
        let found = entries.by_kind.each_ref().map(|it| it.get(key).cloned());
        found.into_iter().flatten()
    }

    /// Returns all entries in the order of their keys, so that a simulation can be replayed.
    pub(crate) fn all(&self) -> Vec<Arc<KeyEntry<T>>> {
        let entries = self.entries();
        let all = entries.by_kind.iter().flat_map(HashMap::values);
        let mut all: Vec<_> = all.cloned().collect();
        all.sort_by(|a, b| a.key.cmp(&b.key));
        all
    }

    /// Returns the number of keys that are held or wanted. A key counts once for each kind of mode.
    pub(crate) fn len(&self) -> usize {
        self.entries().by_kind.iter().map(HashMap::len).sum()
    }

    /// Refuses all further attempts.
    pub(crate) fn close(&self) {
        self.entries().closed = true;
    }

    /// Waits until no key is held, wanted or being released.
    pub(crate) async fn idle(&self) {
        loop {
            let notified = self.idle.notified();
            if self.len() == 0 {
                return;
            }
            notified.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::{Future, poll_fn},
        pin::pin,
        task::Poll,
        time::Duration,
    };

    use super::*;
    use crate::{
        attempt::AttemptId,
        clock::{Clock, Moment, SystemClock},
        options::Timing,
        owner::{ClientId, Owners},
        random::SystemRandom,
        state::{Context, Effect, Event, LocalWaiter, Validity},
    };

    fn context(now: Moment, owners: &Owners) -> Context<'_> {
        Context {
            now,
            response_limit: Duration::ZERO,
            handover: true,
            grants: true,
            random: &SystemRandom,
            owners,
        }
    }

    fn owners() -> Owners {
        Owners::new(ClientId::new(&SystemRandom))
    }

    fn enter(table: &Table<()>, key: &LockKey, id: u64) -> Arc<KeyEntry<()>> {
        let now = SystemClock.now();
        let entered = table.enter(key, LockMode::Exclusive, |entry, state| {
            let timing = Timing::default();
            let validity = Validity::new(timing.ttl, |_| Duration::ZERO);
            let waiter = LocalWaiter::new(AttemptId::numbered(id), (), timing, validity, now);
            state.enter(waiter, context(now, &owners()));
            entry.clone()
        });
        entered.expect("it is open")
    }

    fn leave(entry: &KeyEntry<()>, id: u64) {
        let owners = owners();
        let context = context(SystemClock.now(), &owners);
        let left = entry
            .state()
            .on_event(AttemptId::numbered(id), Event::Left, context);
        assert_eq!(
            left.effect,
            Effect::Forget(None),
            "it has not asked anybody"
        );
    }

    #[test]
    fn who_forgets_late_does_not_remove_the_next_ones() {
        let table = Table::default();
        let key = LockKey::new("k").unwrap();
        let (first, second, third) = (1, 2, 3);
        let entry = enter(&table, &key, first);
        assert!(Arc::ptr_eq(&entry, &enter(&table, &key, second)));
        leave(&entry, first);
        leave(&entry, second);
        table.forget_if_idle(&entry);
        assert_eq!(table.len(), 0);

        let next = enter(&table, &key, third);
        table.forget_if_idle(&entry);
        assert!(Arc::ptr_eq(
            &next,
            &table.find("k").next().expect("the third is in there")
        ));
    }

    #[test]
    fn entries_are_listed_by_key_and_a_key_counts_once_for_each_kind_of_mode() {
        let table = Table::<()>::default();
        let enter = |key: &str, mode| {
            let key = LockKey::new(key).unwrap();
            table.enter(&key, mode, |entry, _| entry.clone())
        };
        for key in ["d", "b", "c", "a"] {
            enter(key, LockMode::Exclusive);
        }
        enter("b", LockMode::Shared);
        enter("b", LockMode::Permits(2));
        let third = enter("b", LockMode::Permits(3)).expect("it is open");
        let all = table.all();
        let keys: Vec<_> = all.iter().map(|entry| entry.key.as_str()).collect();
        assert_eq!(keys, ["a", "b", "b", "b", "c", "d"]);
        assert_eq!(table.len(), keys.len());
        assert_eq!(table.find("b").count(), 3);
        assert_eq!(table.find("e").count(), 0);
        table.forget_if_idle(&third);
        assert_eq!(table.find("b").count(), 2);
        assert_eq!(table.len(), keys.len() - 1);
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_for_the_end_of_all_is_woken_by_the_last_one() {
        let table = Table::default();
        let keys = ["a", "b"].map(|key| LockKey::new(key).unwrap());
        let entries = keys.each_ref().map(|key| enter(&table, key, 1));
        let mut idle = pin!(table.idle());
        for entry in &entries {
            let is_idle = poll_fn(|context| Poll::Ready(idle.as_mut().poll(context).is_ready()));
            assert!(!is_idle.await);
            leave(entry, 1);
            table.forget_if_idle(entry);
        }
        idle.await;
        table.idle().await;
    }

    #[test]
    fn nobody_enters_after_the_end() {
        let table = Table::default();
        let key = LockKey::new("k").unwrap();
        let entry = enter(&table, &key, 1);
        table.close();
        let entered = table.enter(&key, LockMode::Exclusive, |_, _| {
            panic!("the table is closed")
        });
        assert!(entered.is_none());
        assert_eq!(entry.state().tasks().len(), 1);
    }
}
