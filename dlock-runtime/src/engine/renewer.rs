//! Renews the leases of a manager and detects when one ends. One task serves all leases of a manager.
//!
//! The task runs on dlock's renewal thread, which application code cannot block. It runs on a runtime of the
//! application if a test has paused the clock, or if the manager is configured so.
//!
//! The task sleeps until the first lease is due, but at most [`LONGEST_SLEEP`], so that it soon notices that
//! the machine was suspended. It ends when it has had no lease for that long. A short body therefore costs an
//! entry in a map, and neither spawns nor wakes a task.
//!
//! On the application's runtimes, the renewer prefers the one on which the manager was created. There, a task
//! that a worker wakes is put in a slot from which no other worker steals. One more task is spawned after it
//! to push it out of that slot.
//!
//! If the time of day jumps ahead of the other clocks, every lease is renewed at once: a virtual machine that
//! was paused may have no other clock that shows it.
//!
//! A renewal, from top to bottom:
//!
//! 1. The task takes a lease that is due from the [`schedule`], with the event `Tick`.
//! 2. [`renewal_on_event`] passes the event to the state of the key. `KeyState::on_claim` finds the attempt that has the lease,
//!    and its `on_tick` decides, in `state/attempt/holding.rs`: wait, renew, or give the lease up.
//! 3. [`renewal_on_effect`] does that. Before a renewal it notes the deadline of the lease as the time of the next step, so a
//!    renewal without an answer needs no other timer.
//! 4. The [`queue`] groups what is due, and [`renewals`] sends each group to the store, on a task of its own.
//! 5. The answer is the event `Renewed`, and takes the same way from 2 on: `on_renewed` counts the lease from the time at
//!    which the request was sent, and says when the next step is due.

mod queue;
mod renewals;
pub(crate) mod schedule;
#[cfg(test)]
mod tests;

use std::{
    sync::{Arc, PoisonError, atomic::Ordering},
    time::{Duration, SystemTime},
};

use tokio::{
    runtime::Handle,
    time::{Instant, timeout_at},
};

use self::{
    queue::Due,
    schedule::{LONGEST_SLEEP, RenewerTask},
};
use super::{
    acquisition::{Acquisition, Engine},
    release,
    spawn::{let_others_take_it, runs_by_itself},
};
use crate::{
    clock::Moment,
    lane, observe,
    owner::OwnerId,
    state::{Effect, Event, RenewAt},
};

/// If the time of day advances further than the other clocks by more than this, it has jumped.
const JUMP: Duration = Duration::from_secs(1);

/// Adds a lease to its manager's schedule. `acquisition` has just received it.
pub(crate) fn note(acquisition: &Arc<Acquisition>, renew_at: RenewAt, now: Moment) {
    if !acquisition.core.renewer.note(acquisition, renew_at, now) {
        start(acquisition);
    }
}

/// Ensures that a task renews the leases, before a body relies on that at `now`.
///
/// The machine may have been suspended since the task has read the clocks. Its timers are then late, and it is
/// woken to read them now instead of within a second.
pub(crate) fn ensure(acquisition: &Arc<Acquisition>, now: Moment) {
    let renewer = &acquisition.core.renewer;
    let schedule = renewer.schedule();
    let runs = schedule.runs_until(now.monotonic).is_some();
    let is_late = schedule.looked().is_some_and(|looked| slept(looked, now));
    drop(schedule);
    if !runs {
        start(acquisition);
    } else if is_late {
        renewer.wake();
    }
}

/// Starts the task on the renewal thread, otherwise preferably on the manager's runtime, because a handler
/// may block its own runtime.
fn start(acquisition: &Arc<Acquisition>) {
    let core = &acquisition.core;
    let renewer = &core.renewer;
    // Other threads must not take a task for running while its runtime may still refuse it.
    let _alone = renewer
        .starting
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    let avoids_home = renewer.schedule().avoids_home;
    let home = core
        .home
        .clone()
        .filter(|home| !avoids_home && runs_by_itself(home));
    let users = home.into_iter().chain(acquisition.runtimes(avoids_home));
    let users = users.map(|runtime| (runtime, false));
    let lane = lane_of(core).map(|lane| (lane, true));
    for (runtime, is_lane) in lane.into_iter().chain(users) {
        let Some(generation) = renewer.begin() else {
            // The task may have read the schedule before the entry was added.
            renewer.wake();
            return;
        };
        renewer.is_on_lane.store(is_lane, Ordering::Relaxed);
        let running = Running {
            core: core.clone(),
            generation,
            has_waited: false,
        };
        runtime.spawn(running.run());
        if !is_lane {
            let_others_take_it();
        }
        if renewer.accept(generation) {
            return;
        }
    }
}

/// Returns the renewal thread's runtime, unless that thread is disabled or would measure the manager's leases
/// by another clock.
fn lane_of(core: &Engine) -> Option<Handle> {
    let is_wanted = match core.renewal_thread {
        Some(is_wanted) => is_wanted,
        None => !lane::has_virtual_clock(),
    };
    is_wanted.then(lane::runtime).flatten()
}

/// The task itself. It is created before it is spawned, so its drop reports the end even if the runtime ends
/// before the first poll.
struct Running {
    core: Arc<Engine>,
    generation: u64,
    /// `true` once it has passed a timer: a runtime may have no timers.
    has_waited: bool,
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut schedule = self.core.renewer.schedule();
        let own = |task: &mut RenewerTask| task.generation == self.generation;
        let died = schedule.task.take_if(own).is_some_and(|task| task.accepted);
        // A task that panics at its first timer would panic again and again. Elapsed time is not a criterion:
        // printing a panic message may take longer than everything else.
        let panicked = std::thread::panicking() && !self.has_waited;
        let hopeless = panicked && schedule.avoids_home;
        schedule.avoids_home |= panicked;
        // Otherwise the task has ended regularly, or `start` continues with the next runtime.
        let orphans = if died && !hopeless {
            schedule.all()
        } else {
            Vec::new()
        };
        drop(schedule);
        for (owner, acquisition) in orphans {
            // If any acquisition knows a live runtime, this one does: its own.
            start(&acquisition.bearer(owner).unwrap_or(acquisition));
            if self
                .core
                .renewer
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
    /// Renews leases until there are none.
    async fn run(mut self) {
        let (core, renewer) = (&self.core, &self.core.renewer);
        let mut days = None;
        let mut idle = false;
        loop {
            let sooner = renewer.sooner.notified();
            let now = core.clock.now();
            if renewer.is_on_lane()
                && let Some(ahead) = jump(&mut days, core.clock.time_of_day(), now)
            {
                self.doubt_all(ahead);
            }
            let due = {
                let mut schedule = renewer.schedule();
                let task = schedule.task.as_ref().map(|task| task.generation);
                if task != Some(self.generation) {
                    // Another thread assumed that this task had died, and has started a successor.
                    return;
                }
                // After a suspension, deadlines by the boot clock are nearer than the timers show. The machine may
                // also have been suspended before the first look.
                let horizon = if schedule.look(now).is_none_or(|last| slept(last, now)) {
                    now.plus(Duration::MAX).monotonic
                } else {
                    now.monotonic
                };
                schedule.take_due(horizon)
            };
            let renewals = due.into_iter().filter_map(|(owner, acquisition)| {
                renewal_on_event(&acquisition, owner, Event::Tick)
            });
            renewals::renew(core, renewals.collect());
            let wakes_at = {
                let mut schedule = renewer.schedule();
                if schedule.due.is_empty() && idle {
                    // Under the mutex: a lease that is added now starts a new task.
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

    /// Requests a renewal of every lease: the machine may have been paused without any clock that measures
    /// deadlines showing it.
    fn doubt_all(&self, ahead: Duration) {
        observe::clock_jumped(ahead);
        let all = self.core.renewer.schedule().all().into_iter();
        let renewals = all.filter_map(|(owner, acquisition)| {
            renewal_on_event(&acquisition, owner, Event::Doubted)
        });
        renewals::renew(&self.core, renewals.collect());
    }
}

/// Returns by how much the time of day has advanced further than the monotonic clock since the last call, if
/// it has jumped.
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

/// Returns `true` if the machine was suspended between two moments.
fn slept(earlier: Moment, later: Moment) -> bool {
    let by_boot = later.boot.saturating_sub(earlier.boot);
    let by_monotonic = later.monotonic.saturating_duration_since(earlier.monotonic);
    by_boot > by_monotonic + Duration::from_millis(10)
}

/// Passes an event about the lease of `owner` to its state, does what that decides, and sends the renewal that is due.
fn on_event(acquisition: &Acquisition, owner: OwnerId, event: Event) {
    let due = renewal_on_event(acquisition, owner, event);
    renewals::renew(&acquisition.core, due.into_iter().collect());
}

/// Does the same after an event that `bearer` has received from elsewhere.
pub(crate) fn on_effect(bearer: Arc<Acquisition>, owner: OwnerId, effect: &Effect) {
    let core = bearer.core.clone();
    let due = renewal_on_effect(bearer, owner, effect);
    renewals::renew(&core, due.into_iter().collect());
}

/// Passes an event to the state, does what that decides, and returns the renewal that is due.
fn renewal_on_event(
    acquisition: &Acquisition,
    owner: OwnerId,
    event: Event,
) -> Option<Due<Acquisition>> {
    let (bearer, effect) = acquisition.event_of_claim(owner, event)?;
    renewal_on_effect(bearer, owner, &effect)
}

/// Does what the state has decided, and returns the renewal that is due.
fn renewal_on_effect(
    bearer: Arc<Acquisition>,
    owner: OwnerId,
    effect: &Effect,
) -> Option<Due<Acquisition>> {
    let (at, limit) = match *effect {
        Effect::WaitUntil(at) => (at, None),
        Effect::Renew { limit, then, .. } => (then, Some(limit)),
        Effect::GiveBack { owner } => {
            release::give_back(&bearer, owner);
            return None;
        }
        // By a message: its task may not be polled.
        Effect::Wake => (bearer.untaken()?.at, None),
        _ => return None,
    };
    let now = bearer.now();
    if !note_while_held(&bearer, RenewAt { owner, at }, now) {
        start(&bearer);
    }
    let limit = limit?;
    for user in bearer.users(owner) {
        user.look_at_body(now);
    }
    Some(Due {
        acquisition: bearer,
        on_answer: on_event,
        owner,
        limit,
        deadline: now.monotonic + at.remaining(now),
    })
}

/// Schedules the next step of a lease that `acquisition` has held, for as long as its claim holds it. Returns `false` if no task
/// of the renewer runs.
pub(crate) fn note_while_held(
    acquisition: &Arc<Acquisition>,
    renew_at: RenewAt,
    now: Moment,
) -> bool {
    let RenewAt { owner, .. } = renew_at;
    let renewer = &acquisition.core.renewer;
    let runs = renewer.note(acquisition, renew_at, now);
    if acquisition.is_held_by(owner) {
        return runs;
    }
    // It was released between the event and this entry.
    renewer.remove(owner);
    // An acquisition that entered in the meantime has lost its own entry by this removal.
    !acquisition.is_held_by(owner) || renewer.note(acquisition, RenewAt { owner, at: now }, now)
}
