//! The ends of all children's times, in one task. A task for each child would wake the thread of the store at each acquire, and
//! outlast a lock that is held for a moment by its whole TTL.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use dlock_runtime::{LockKey, store::OwnerId};
use tokio::{
    select,
    sync::Notify,
    time::{Instant, sleep_until},
};

/// A child whose time is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ending {
    pub(crate) key: LockKey,
    pub(crate) owner: OwnerId,
    pub(crate) name: String,
}

#[derive(Default)]
pub(crate) struct Timers {
    table: Mutex<Table>,
    /// Notified when a time is over before the task reads the table.
    sooner: Notify,
}

#[derive(Default)]
struct Table {
    endings: BTreeMap<Instant, Vec<Ending>>,
    /// When the task reads the table next. `None` if it waits for a first child.
    looks_at: Option<Instant>,
}

impl Timers {
    fn table(&self) -> MutexGuard<'_, Table> {
        // Every change is complete before any code can panic.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, at: Instant, ending: Ending) {
        let is_sooner = {
            let mut table = self.table();
            table.endings.entry(at).or_default().push(ending);
            table.looks_at.is_none_or(|looks_at| at < looks_at)
        };
        if is_sooner {
            self.sooner.notify_one();
        }
    }

    /// Removes a child that is gone. The task still wakes then, and so not for the next lock with the same TTL.
    pub(crate) fn remove(&self, at: Instant, ending: &Ending) {
        let mut table = self.table();
        if let Some(all) = table.endings.get_mut(&at) {
            all.retain(|it| it != ending);
            if all.is_empty() {
                table.endings.remove(&at);
            }
        }
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.table().endings.is_empty()
    }

    /// Waits until the time of some children is over, for the one task that calls this.
    pub(crate) async fn next(&self) -> (Instant, Vec<Ending>) {
        loop {
            let looks_at = {
                let mut table = self.table();
                let now = Instant::now();
                let first = table.endings.first_entry();
                let first = match first {
                    Some(due) if *due.key() <= now => return due.remove_entry(),
                    first => first.map(|it| *it.key()),
                };
                table.looks_at = first;
                first
            };
            match looks_at {
                Some(at) => select! {
                    () = sleep_until(at) => {}
                    () = self.sooner.notified() => {}
                },
                None => self.sooner.notified().await,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use dlock_runtime::{random::SystemRandom, store::ClientId};
    use futures_util::FutureExt;
    use tokio::time::advance;

    use super::*;

    fn ending(name: &str) -> Ending {
        Ending {
            key: LockKey::new("order:42").unwrap(),
            owner: OwnerId::new(ClientId::new(&SystemRandom), 1),
            name: name.to_owned(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn children_end_in_time_in_their_order_and_those_that_are_gone_do_not() {
        let (timers, begun) = (Timers::default(), Instant::now());
        let at = |seconds| begun + Duration::from_secs(seconds);
        let [late, early, gone] = ["late", "early", "gone"].map(ending);
        let add_later = async {
            timers.add(at(9), late.clone());
            timers.add(at(7), gone.clone());
            // The task waits for the first two.
            advance(Duration::from_secs(1)).await;
            timers.add(at(3), early.clone());
            timers.remove(at(7), &gone);
        };
        let ((), first) = tokio::join!(add_later, timers.next());
        assert_eq!(first, (at(3), vec![early]));
        assert_eq!(Instant::now(), at(3));
        assert_eq!(timers.next().await, (at(9), vec![late]));
        assert_eq!(Instant::now(), at(9));
    }

    #[tokio::test(start_paused = true)]
    async fn a_lock_that_is_held_for_a_moment_wakes_no_task() {
        let (timers, begun) = (Timers::default(), Instant::now());
        let ttl = Duration::from_secs(30);
        let mut next = Box::pin(timers.next());
        let first = ending("first");
        timers.add(begun + ttl, first.clone());
        assert!(next.as_mut().now_or_never().is_none());
        timers.remove(begun + ttl, &first);
        for number in 1..100 {
            advance(Duration::from_millis(1)).await;
            let (at, next) = (Instant::now() + ttl, ending(&number.to_string()));
            timers.add(at, next.clone());
            assert!(timers.sooner.notified().now_or_never().is_none());
            timers.remove(at, &next);
        }
        assert!(timers.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn of_children_that_end_together_one_can_be_removed() {
        let (timers, at) = (Timers::default(), Instant::now() + Duration::from_secs(3));
        let [one, other] = ["one", "other"].map(ending);
        timers.add(at, one.clone());
        timers.add(at, other.clone());
        timers.remove(at, &one);
        assert_eq!(timers.next().await, (at, vec![other]));
        assert!(timers.is_empty());
    }
}
