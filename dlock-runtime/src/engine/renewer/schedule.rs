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
