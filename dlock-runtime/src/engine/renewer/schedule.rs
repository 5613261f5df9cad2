//! Schedules when each lease of a manager is checked, and tracks whether a task does that.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};

use super::queue::Renewals;
use crate::{
    clock::Moment,
    engine::spawn::let_others_take_it,
    owner::OwnerId,
    state::RenewAt,
    sync::{Mutex, MutexGuard},
};

/// The maximum time for which the task sleeps.
pub(super) const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// The leases of a manager, ordered by the time at which they have to be checked.
///
/// They are identified by the owner id that the store knows. A lease that passes from task to task therefore
/// keeps its place.
pub(crate) struct Renewer<A> {
    pub(super) schedule: Mutex<Schedule<A>>,
    /// Locked while a task is started, until a runtime has accepted it or all have refused.
    pub(super) starting: Mutex<()>,
    /// Notified when a lease is due before the task would wake.
    pub(super) sooner: Notify,
    pub(super) renewals: Renewals<A>,
    /// `true` if the task was last started on the renewal thread.
    pub(super) is_on_lane: AtomicBool,
}

pub(super) struct Schedule<A> {
    /// Each lease with an acquisition that has held it.
    pub(super) due: BTreeMap<(Instant, OwnerId), Arc<A>>,
    pub(super) at: BTreeMap<OwnerId, Instant>,
    pub(super) task: Option<RenewerTask>,
    pub(super) generation: u64,
    /// Set when the task has panicked on the manager's runtime, which may have no timers.
    pub(super) avoids_home: bool,
}

/// The running task, as far as other threads need to know it.
pub(super) struct RenewerTask {
    pub(super) generation: u64,
    pub(super) wakes_at: Instant,
    /// When the task last read the clocks.
    pub(super) looked: Option<Moment>,
    /// `true` once its runtime has accepted it.
    pub(super) accepted: bool,
}

impl<A> Schedule<A> {
    /// Returns when the task wakes. Returns `None` if there is no task, or none that still runs: a
    /// single-threaded runtime may exist without being driven.
    pub(super) fn runs_until(&self, now: Instant) -> Option<Instant> {
        let task = self.task.as_ref().filter(|task| task.accepted)?;
        let overdue = now.saturating_duration_since(task.wakes_at);
        (overdue <= LONGEST_SLEEP).then_some(task.wakes_at)
    }

    /// Records that the task has read the clocks. Returns when it read them before.
    pub(super) fn look(&mut self, now: Moment) -> Option<Moment> {
        self.task.as_mut()?.looked.replace(now)
    }

    /// Returns when the task last read the clocks, or `None` if it looks at every lease when it starts.
    pub(super) fn looked(&self) -> Option<Moment> {
        self.task.as_ref()?.looked
    }

    pub(super) fn remove(&mut self, owner: OwnerId) -> Option<Arc<A>> {
        let at = self.at.remove(&owner)?;
        self.due.remove(&(at, owner))
    }

    /// Removes and returns the leases that are due at `now`.
    pub(super) fn take_due(&mut self, now: Instant) -> Vec<(OwnerId, Arc<A>)> {
        let mut due = Vec::new();
        while let Some(entry) = self.due.first_entry().filter(|entry| entry.key().0 <= now) {
            let (_, owner) = *entry.key();
            self.at.remove(&owner);
            due.push((owner, entry.remove()));
        }
        due
    }

    pub(super) fn all(&self) -> Vec<(OwnerId, Arc<A>)> {
        let due = self.due.iter();
        due.map(|((_, owner), acquisition)| (*owner, acquisition.clone()))
            .collect()
    }
}

impl<A> Default for Renewer<A> {
    fn default() -> Self {
        Self {
            schedule: Mutex::new(Schedule {
                due: BTreeMap::new(),
                at: BTreeMap::new(),
                task: None,
                generation: 0,
                avoids_home: false,
            }),
            starting: Mutex::new(()),
            sooner: Notify::new(),
            renewals: Renewals::default(),
            is_on_lane: AtomicBool::new(false),
        }
    }
}

impl<A> Renewer<A> {
    pub(super) fn schedule(&self) -> MutexGuard<'_, Schedule<A>> {
        self.schedule.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes a lease that is being released.
    pub(crate) fn remove(&self, owner: OwnerId) {
        // The last handle to an acquisition must not be dropped under the mutex.
        let removed = self.schedule().remove(owner);
        drop(removed);
    }

    /// Schedules a check of the lease of `owner` when it is due or earlier, and wakes the task if it would
    /// wake too late. Returns `false` if no task runs.
    pub(crate) fn note(&self, acquisition: &Arc<A>, renew_at: RenewAt, now: Moment) -> bool {
        let RenewAt { owner, at } = renew_at;
        let at = now.monotonic + at.remaining(now);
        let mut schedule = self.schedule();
        // The acquisition that has the lease now may have scheduled an earlier time.
        let noted = schedule.at.get(&owner);
        let at = noted.map_or(at, |noted| at.min(*noted));
        let replaced = schedule.remove(owner);
        schedule.at.insert(owner, at);
        schedule.due.insert((at, owner), acquisition.clone());
        let wakes_at = schedule.runs_until(now.monotonic);
        drop(schedule);
        drop(replaced);
        if wakes_at.is_some_and(|wakes_at| at < wakes_at) {
            self.wake();
        }
        wakes_at.is_some()
    }

    pub(super) fn wake(&self) {
        self.sooner.notify_one();
        if !self.is_on_lane() {
            let_others_take_it();
        }
    }

    pub(super) fn is_on_lane(&self) -> bool {
        self.is_on_lane.load(Ordering::Relaxed)
    }

    /// Registers a new task. Returns `None` if one is running.
    pub(super) fn begin(&self) -> Option<u64> {
        let mut schedule = self.schedule();
        if schedule.runs_until(Instant::now()).is_some() {
            return None;
        }
        schedule.generation += 1;
        let generation = schedule.generation;
        let wakes_at = Instant::now();
        schedule.task = Some(RenewerTask {
            generation,
            wakes_at,
            looked: None,
            accepted: false,
        });
        Some(generation)
    }

    /// Records that the runtime has accepted the task of this generation. Returns `false` if it has dropped
    /// the task at once.
    pub(super) fn accept(&self, generation: u64) -> bool {
        match &mut self.schedule().task {
            Some(task) if task.generation == generation => {
                task.accepted = true;
                true
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::Future,
        pin::pin,
        task::{Context, Waker},
    };

    use tokio::time::advance;

    use super::*;
    use crate::{
        clock::{Clock, SystemClock},
        owner::ClientId,
        random::SystemRandom,
    };

    const SECOND: Duration = Duration::from_secs(1);

    fn owners() -> [OwnerId; 2] {
        let client = ClientId::new(&SystemRandom);
        [1, 2].map(|number| OwnerId::new(client, number))
    }

    fn renew_at(owner: OwnerId, at: Moment) -> RenewAt {
        RenewAt { owner, at }
    }

    /// Whether the task has been woken since this was asked for the last time.
    fn is_woken(renewer: &Renewer<()>) -> bool {
        let woken = pin!(renewer.sooner.notified());
        woken
            .poll(&mut Context::from_waker(Waker::noop()))
            .is_ready()
    }

    #[test]
    fn of_the_times_that_were_noted_for_a_lease_the_earliest_counts() {
        let (renewer, now) = (Renewer::default(), SystemClock.now());
        let [one, other] = owners();
        for seconds in [5, 3, 4] {
            let at = now.plus(seconds * SECOND);
            renewer.note(&Arc::new(()), renew_at(one, at), now);
        }
        let at = now.plus(4 * SECOND);
        renewer.note(&Arc::new(()), renew_at(other, at), now);
        assert_eq!(renewer.schedule().all().len(), 2);
        let due_after = |seconds: u32| {
            let due = renewer
                .schedule()
                .take_due(now.monotonic + seconds * SECOND);
            due.into_iter().map(|(owner, _)| owner).collect::<Vec<_>>()
        };
        assert!(due_after(2).is_empty());
        assert_eq!(due_after(3), [one]);
        assert_eq!(due_after(9), [other]);
        // Nothing is left of the earlier times.
        renewer.note(&Arc::new(()), renew_at(one, now.plus(6 * SECOND)), now);
        assert!(due_after(5).is_empty());
        assert_eq!(due_after(6), [one]);
    }

    #[test]
    fn a_lease_that_was_removed_is_not_due() {
        let (renewer, now) = (Renewer::default(), SystemClock.now());
        let [one, other] = owners();
        for owner in [one, other] {
            renewer.note(&Arc::new(()), renew_at(owner, now), now);
        }
        renewer.remove(one);
        renewer.remove(one);
        let due = renewer.schedule().take_due(now.monotonic);
        assert_eq!(due, [(other, Arc::new(()))]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_is_woken_for_a_lease_that_is_due_before_it_wakes_by_itself() {
        let (renewer, now) = (Renewer::default(), SystemClock.now());
        let [one, other] = owners();
        let note = |owner, at| renewer.note(&Arc::new(()), renew_at(owner, at), now);
        assert!(!note(one, now.plus(SECOND)), "no task runs");
        let generation = renewer.begin().expect("no task runs");
        assert!(!note(one, now.plus(SECOND)), "no runtime has accepted it");
        assert!(renewer.accept(generation));
        if let Some(task) = &mut renewer.schedule().task {
            task.wakes_at = now.monotonic + SECOND;
        }
        assert!(note(one, now.plus(SECOND)) && !is_woken(&renewer));
        assert!(note(other, now.plus(2 * SECOND)) && !is_woken(&renewer));
        assert!(note(other, now.plus(SECOND / 2)) && is_woken(&renewer));
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_is_late_by_more_than_it_may_sleep_is_taken_for_dead() {
        let renewer = Renewer::<()>::default();
        let first = renewer.begin().expect("no task runs");
        assert!(renewer.accept(first));
        advance(LONGEST_SLEEP).await;
        assert_eq!(renewer.begin(), None);
        advance(Duration::from_millis(1)).await;
        let second = renewer.begin().expect("it does not run");
        assert_ne!(first, second);
        assert!(!renewer.accept(first), "it has a successor");
        assert!(renewer.accept(second));
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_was_not_accepted_gives_way_to_the_next_runtime() {
        let renewer = Renewer::<()>::default();
        assert!(renewer.begin().is_some());
        // Its runtime has dropped it at once.
        renewer.schedule().task = None;
        assert!(!renewer.accept(1));
        assert!(renewer.begin().is_some());
    }
}
