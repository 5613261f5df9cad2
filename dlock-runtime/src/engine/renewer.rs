//! Keeps leases alive and notices when one ends: one task for all leases of a manager.
//!
//! The task is on a thread of its own, the lane, which nothing of a user's can hold up; where a test has paused the
//! clock, or the manager is set so, on a runtime of the user's.
//!
//! It sleeps until the first lease is due, and at most [`LONGEST_SLEEP`], so that a machine
//! that was suspended finds out soon. It ends when there has been nothing to keep for that long;
//! so a short section costs an entry in a map and neither spawns nor wakes anything.

mod renewals;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    sync::{
        Arc, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, SystemTime},
};

use tokio::{
    runtime::Handle,
    sync::Notify,
    time::{Instant, timeout_at},
};

use self::renewals::{Due, Renewals};
use crate::{
    api::manager::Shared,
    clock::Moment,
    engine::{
        acquisition::{Section, runs_by_itself},
        lane,
        release::let_others_take_it,
    },
    observe,
    owner::OwnerId,
    state::{Effect, Event, Keep},
    sync::{Mutex, MutexGuard},
};

const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// A time of day that runs ahead of the other clocks by more than this has jumped.
const JUMP: Duration = Duration::from_secs(1);

/// The leases of a manager, by the time they have to be looked at.
///
/// They go by the owner that the store knows, so that a lease which is handed from section to section
/// stays where it is.
#[derive(Default)]
pub(crate) struct Keeper {
    schedule: Mutex<Schedule>,
    /// Held while a task is started, until its runtime has taken it or all have refused.
    starting: Mutex<()>,
    /// Rung when something is due before the task would wake.
    sooner: Notify,
    renewals: Renewals,
    /// Whether the task was last started on the lane.
    is_on_lane: AtomicBool,
}

#[derive(Default)]
struct Schedule {
    /// With each of them, a section that it has been held by.
    due: BTreeMap<(Instant, OwnerId), Arc<Section>>,
    at: BTreeMap<OwnerId, Instant>,
    task: Option<Task>,
    generation: u64,
    /// Set when the task has panicked on the manager's runtime, which may have no timers.
    avoids_home: bool,
}

/// The task that runs, as far as others need to know it.
struct Task {
    generation: u64,
    wakes_at: Instant,
    /// Whether its runtime was seen to have taken it.
    accepted: bool,
}

impl Schedule {
    /// When the task wakes; `None` if there is none, or none that still gets to run: a runtime of
    /// one thread may be kept without being run.
    fn runs_until(&self, now: Instant) -> Option<Instant> {
        let task = self.task.as_ref().filter(|task| task.accepted)?;
        let overdue = now.saturating_duration_since(task.wakes_at);
        (overdue <= LONGEST_SLEEP).then_some(task.wakes_at)
    }

    fn remove(&mut self, owner: OwnerId) -> Option<Arc<Section>> {
        let at = self.at.remove(&owner)?;
        self.due.remove(&(at, owner))
    }

    /// Takes out what is due at `now`.
    fn take_due(&mut self, now: Instant) -> Vec<(OwnerId, Arc<Section>)> {
        let mut due = Vec::new();
        while let Some(entry) = self.due.first_entry().filter(|entry| entry.key().0 <= now) {
            let (_, owner) = *entry.key();
            self.at.remove(&owner);
            due.push((owner, entry.remove()));
        }
        due
    }

    fn all(&self) -> Vec<(OwnerId, Arc<Section>)> {
        let due = self.due.iter();
        due.map(|((_, owner), section)| (*owner, section.clone()))
            .collect()
    }
}

/// Takes a lease into its manager's care; `section` has just entered it.
pub(crate) fn keep(section: &Arc<Section>, keep: Keep, now: Moment) {
    section.shared.keeper.look_at(section, keep, now);
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

    /// Looks at the lease when it is due, or earlier.
    fn look_at(&self, section: &Arc<Section>, keep: Keep, now: Moment) {
        let Keep { owner, at } = keep;
        let at = now.monotonic + at.remaining(now);
        let mut schedule = self.schedule();
        // Who has the lease by now may have noted an earlier time.
        let noted = schedule.at.get(&owner);
        let at = noted.map_or(at, |noted| at.min(*noted));
        let replaced = schedule.remove(owner);
        schedule.at.insert(owner, at);
        schedule.due.insert((at, owner), section.clone());
        let wakes_at = schedule.runs_until(now.monotonic);
        drop(schedule);
        drop(replaced);
        match wakes_at {
            None => start(section),
            Some(wakes_at) if at < wakes_at => self.wake(),
            Some(_) => {}
        }
    }

    fn wake(&self) {
        self.sooner.notify_one();
        if !self.is_on_lane() {
            let_others_take_it();
        }
    }

    fn is_on_lane(&self) -> bool {
        self.is_on_lane.load(Ordering::Relaxed)
    }

    /// Notes a new task; `None` if there is one that runs.
    fn begin(&self) -> Option<u64> {
        let mut schedule = self.schedule();
        if schedule.runs_until(Instant::now()).is_some() {
            return None;
        }
        schedule.generation += 1;
        let generation = schedule.generation;
        let wakes_at = Instant::now();
        schedule.task = Some(Task {
            generation,
            wakes_at,
            accepted: false,
        });
        Some(generation)
    }

    /// Notes that the runtime has taken the task of this generation; `false` if it has dropped it
    /// at once.
    fn accept(&self, generation: u64) -> bool {
        match &mut self.schedule().task {
            Some(task) if task.generation == generation => {
                task.accepted = true;
                true
            }
            _ => false,
        }
    }
}

/// Makes sure that somebody looks after the leases, before a body relies on that.
pub(crate) fn ensure(section: &Arc<Section>) {
    let runs = section
        .shared
        .keeper
        .schedule()
        .runs_until(Instant::now())
        .is_some();
    if !runs {
        start(section);
    }
}

/// Starts the task: on the lane, or else preferably where the manager was made, as a handler may hog its own
/// runtime.
fn start(section: &Arc<Section>) {
    let shared = &section.shared;
    let keeper = &shared.keeper;
    // Nobody takes a task for running whose runtime may yet refuse it.
    let _alone = keeper
        .starting
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    let avoids_home = keeper.schedule().avoids_home;
    let home = shared
        .home
        .clone()
        .filter(|home| !avoids_home && runs_by_itself(home));
    let users = home.into_iter().chain(section.runtimes(avoids_home));
    let users = users.map(|runtime| (runtime, false));
    let lane = lane_of(shared).map(|lane| (lane, true));
    for (runtime, is_lane) in lane.into_iter().chain(users) {
        let Some(generation) = keeper.begin() else {
            // It may have looked at the schedule before the entry that it is needed for.
            keeper.wake();
            return;
        };
        keeper.is_on_lane.store(is_lane, Ordering::Relaxed);
        let running = Running {
            shared: shared.clone(),
            generation,
            has_waited: false,
        };
        runtime.spawn(running.run());
        if !is_lane {
            let_others_take_it();
        }
        if keeper.accept(generation) {
            return;
        }
    }
}

/// The lane, unless it would measure the manager's leases by another clock, or is not wanted.
fn lane_of(shared: &Shared) -> Option<Handle> {
    let is_wanted = match shared.renewal_thread {
        Some(is_wanted) => is_wanted,
        None => !lane::has_virtual_clock(),
    };
    is_wanted.then(lane::runtime).flatten()
}

/// The task itself. It is made before it is spawned, so that its drop tells even when its runtime
/// has ended before the first poll.
struct Running {
    shared: Arc<Shared>,
    generation: u64,
    /// Whether it has got past a timer, which a runtime need not have.
    has_waited: bool,
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut schedule = self.shared.keeper.schedule();
        let own = |task: &mut Task| task.generation == self.generation;
        let died = schedule.task.take_if(own).is_some_and(|task| task.accepted);
        // One that panics at its first timer would do so again and again. Time does not tell: what a
        // panic prints may take longer than anything else.
        let panicked = std::thread::panicking() && !self.has_waited;
        let hopeless = panicked && schedule.avoids_home;
        schedule.avoids_home |= panicked;
        // Else it has ended by itself, or `start` goes on with the next runtime.
        let orphans = if died && !hopeless {
            schedule.all()
        } else {
            Vec::new()
        };
        drop(schedule);
        for (owner, section) in orphans {
            // It knows a runtime that lives, if anybody does: its own.
            start(&section.bearer(owner).unwrap_or(section));
            if self
                .shared
                .keeper
                .schedule()
                .runs_until(Instant::now())
                .is_some()
            {
                return;
            }
        }
    }
}

impl Running {
    /// Looks after leases until there are none.
    async fn run(mut self) {
        let (shared, keeper) = (&self.shared, &self.shared.keeper);
        // The machine may have slept since the lease came that this task was started for.
        let mut last = None;
        let mut days = None;
        let mut idle = false;
        loop {
            let sooner = keeper.sooner.notified();
            let now = shared.clock.now();
            // After a sleep, deadlines by the boot clock are nearer than the timers know.
            let horizon = if last.is_none_or(|last| slept(last, now)) {
                now.plus(Duration::MAX).monotonic
            } else {
                now.monotonic
            };
            last = Some(now);
            if keeper.is_on_lane()
                && let Some(ahead) = jump(&mut days, shared.clock.time_of_day(), now)
            {
                self.doubt_all(ahead);
            }
            let due = {
                let mut schedule = keeper.schedule();
                let task = schedule.task.as_ref().map(|task| task.generation);
                if task != Some(self.generation) {
                    // It was taken for dead, and has a successor.
                    return;
                }
                schedule.take_due(horizon)
            };
            let renewals = due
                .into_iter()
                .filter_map(|(owner, section)| look(&section, owner, Event::Tick));
            renewals::renew(shared, renewals.collect());
            let wakes_at = {
                let mut schedule = keeper.schedule();
                if schedule.due.is_empty() && idle {
                    // Under the mutex: a lease that comes now starts a new task.
                    schedule.task = None;
                    return;
                }
                idle = schedule.due.is_empty();
                let latest = now.monotonic + LONGEST_SLEEP;
                let first = schedule.due.keys().next().map_or(latest, |(at, _)| *at);
                let wakes_at = first.min(latest);
                if let Some(task) = &mut schedule.task {
                    task.wakes_at = wakes_at;
                }
                wakes_at
            };
            drop(timeout_at(wakes_at, sooner).await);
            self.has_waited = true;
        }
    }

    /// Has every lease renewed: the machine may have stood still, and no clock that counts says so.
    fn doubt_all(&self, ahead: Duration) {
        observe::clock_jumped(ahead);
        let all = self.shared.keeper.schedule().all().into_iter();
        let renewals = all.filter_map(|(owner, section)| look(&section, owner, Event::Doubted));
        renewals::renew(&self.shared, renewals.collect());
    }
}

/// By how much the time of day has run ahead of the monotonic clock since the last call, if it has jumped.
fn jump(
    last: &mut Option<(SystemTime, Instant)>,
    day: Option<SystemTime>,
    now: Moment,
) -> Option<Duration> {
    let day = day?;
    let (last_day, last) = last.replace((day, now.monotonic))?;
    let by_day = day.duration_since(last_day).ok()?;
    let ahead = by_day.saturating_sub(now.monotonic.saturating_duration_since(last));
    (ahead > JUMP).then_some(ahead)
}

/// Whether the machine was suspended between two moments.
fn slept(earlier: Moment, later: Moment) -> bool {
    let by_boot = later.boot.saturating_sub(earlier.boot);
    let by_monotonic = later.monotonic.saturating_duration_since(earlier.monotonic);
    by_boot > by_monotonic + Duration::from_millis(10)
}

/// Does what the lease of `owner` needs now and notes when it needs something next.
pub(crate) fn tend(section: &Section, owner: OwnerId, event: Event) {
    let due = look(section, owner, event);
    renewals::renew(&section.shared, due.into_iter().collect());
}

/// The same, but for the renewal that it needs.
fn look(section: &Section, owner: OwnerId, event: Event) -> Option<Due> {
    let (bearer, effect) = section.event_of_claim(owner, event)?;
    follow(bearer, owner, &effect)
}

/// Does what follows for the keeper from what its `bearer` has learnt of a lease.
pub(crate) fn heard(bearer: Arc<Section>, owner: OwnerId, effect: &Effect) {
    let shared = bearer.shared.clone();
    renewals::renew(&shared, follow(bearer, owner, effect).into_iter().collect());
}

fn follow(bearer: Arc<Section>, owner: OwnerId, effect: &Effect) -> Option<Due> {
    let (at, limit) = match *effect {
        Effect::WaitUntil(at) => (at, None),
        Effect::Renew { limit, then, .. } => (then, Some(limit)),
        _ => return None,
    };
    let (keeper, now) = (&bearer.shared.keeper, bearer.now());
    keeper.look_at(&bearer, Keep { owner, at }, now);
    if !bearer.is_held_by(owner) {
        // It was given back between the event and this entry.
        keeper.remove(owner);
    }
    if limit.is_some() {
        bearer.look_at_body(now);
    }
    limit.map(|limit| Due {
        section: bearer,
        owner,
        limit,
        deadline: now.monotonic + at.remaining(now),
    })
}
