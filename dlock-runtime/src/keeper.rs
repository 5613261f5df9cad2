//! Keeps leases alive and notices when one ends: one task for all leases of a manager.
//!
//! The task sleeps until the first lease is due, and at most [`LONGEST_SLEEP`], so that a machine
//! that was suspended finds out soon. It ends when there has been nothing to keep for that long;
//! so a short section costs an entry in a map and neither spawns nor wakes anything.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::Notify,
    time::{Instant, timeout_at},
};

use crate::{
    clock::Moment,
    manager::Shared,
    observe,
    owner::OwnerId,
    section::{Place, Section},
    state::{Effect, Event},
};

const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// The leases of a manager, by the time they have to be looked at.
#[derive(Default)]
pub(crate) struct Keeper {
    schedule: Mutex<Schedule>,
    /// Rung when something is due before the task would wake.
    sooner: Notify,
}

#[derive(Default)]
struct Schedule {
    due: BTreeMap<(Instant, OwnerId), Arc<Section>>,
    at: HashMap<OwnerId, Instant>,
    /// When the task wakes; `None` while there is no task.
    wakes_at: Option<Instant>,
}

impl Schedule {
    fn remove(&mut self, owner: OwnerId) -> Option<Arc<Section>> {
        let at = self.at.remove(&owner)?;
        self.due.remove(&(at, owner))
    }

    /// Takes out what is due at `now`.
    fn take_due(&mut self, now: Instant) -> Vec<Arc<Section>> {
        let mut due = Vec::new();
        while let Some(entry) = self.due.first_entry().filter(|entry| entry.key().0 <= now) {
            self.at.remove(&entry.key().1);
            due.push(entry.remove());
        }
        due
    }
}

/// Takes a lease into its manager's care.
pub(crate) fn keep(section: &Arc<Section>) {
    tend(section, Event::Tick);
}

impl Keeper {
    fn schedule(&self) -> MutexGuard<'_, Schedule> {
        self.schedule.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets a lease that is given back.
    pub(crate) fn remove(&self, owner: OwnerId) {
        // The last handle to a section is not dropped under the mutex.
        let removed = self.schedule().remove(owner);
        drop(removed);
    }

    /// Looks at `section` at `at`, or earlier.
    fn look_at(&self, section: &Arc<Section>, at: Moment) {
        let at = section.timer(at);
        let mut schedule = self.schedule();
        let replaced = schedule.remove(section.owner());
        schedule.at.insert(section.owner(), at);
        schedule.due.insert((at, section.owner()), section.clone());
        let wakes_at = schedule.wakes_at;
        if wakes_at.is_none() {
            schedule.wakes_at = Some(Instant::now());
        }
        drop(schedule);
        drop(replaced);
        match wakes_at {
            None => start(section),
            Some(wakes_at) if at < wakes_at => self.sooner.notify_one(),
            Some(_) => {}
        }
    }
}

/// Starts the task, preferably where the manager was made: a handler may hog its own runtime.
fn start(section: &Arc<Section>) {
    if !section.spawn(Place::Home, run) {
        section.shared.keeper.schedule().wakes_at = None;
    }
}

/// Lets the next lease start a new task when this one dies with its runtime.
struct Running {
    shared: Arc<Shared>,
    /// Its `wakes_at` is reset already, and may be a successor's by now.
    ended: bool,
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.ended {
            self.shared.keeper.schedule().wakes_at = None;
        }
    }
}

/// Looks after leases until there are none.
async fn run(section: Arc<Section>) {
    let mut running = Running {
        shared: section.shared.clone(),
        ended: false,
    };
    // It was needed to find the manager only, and must not outlive its own release.
    drop(section);
    let shared = running.shared.clone();
    // The machine may have slept since the lease came that this task was started for.
    let mut last = None;
    let mut idle = false;
    loop {
        let sooner = shared.keeper.sooner.notified();
        let now = shared.clock.now();
        // After a sleep, deadlines by the boot clock are nearer than the timers know.
        let horizon = if last.is_none_or(|last| slept(last, now)) {
            now.plus(Duration::MAX).monotonic
        } else {
            now.monotonic
        };
        last = Some(now);
        let due = shared.keeper.schedule().take_due(horizon);
        for section in due {
            tend(&section, Event::Tick);
        }
        let wakes_at = {
            let mut schedule = shared.keeper.schedule();
            if schedule.due.is_empty() && idle {
                // Under the mutex: a lease that comes now starts a new task.
                schedule.wakes_at = None;
                running.ended = true;
                return;
            }
            idle = schedule.due.is_empty();
            let first = schedule.due.keys().next().map(|(at, _)| *at);
            let wakes_at = first.unwrap_or(now.monotonic + LONGEST_SLEEP);
            let wakes_at = wakes_at.min(now.monotonic + LONGEST_SLEEP);
            schedule.wakes_at = Some(wakes_at);
            wakes_at
        };
        drop(timeout_at(wakes_at, sooner).await);
    }
}

/// Whether the machine was suspended between two moments.
fn slept(earlier: Moment, later: Moment) -> bool {
    let by_boot = later.boot.saturating_sub(earlier.boot);
    let by_monotonic = later.monotonic.saturating_duration_since(earlier.monotonic);
    by_boot > by_monotonic + Duration::from_millis(10)
}

/// Does what the lease needs now and notes when it needs something next.
fn tend(section: &Arc<Section>, event: Event) {
    match section.event(event) {
        Effect::WaitUntil(at) => section.shared.keeper.look_at(section, at),
        Effect::Renew { limit, then } => {
            section.shared.keeper.look_at(section, then);
            section.spawn(Place::Home, move |section| renew(section, limit));
        }
        _ => {}
    }
}

async fn renew(section: Arc<Section>, limit: Duration) {
    let sent = section.now();
    let answer = section.ask_renew(limit).await;
    if let Err(error) = &answer {
        observe::renewal_failed(&section, error);
    }
    tend(&section, Event::Renewed { sent, answer });
}
