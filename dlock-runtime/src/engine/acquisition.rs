//! One attempt of one task at one key, as its drivers see it.

mod requests;

use std::{
    borrow::Cow,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{
    runtime::Handle,
    sync::{Mutex, Notify, SemaphorePermit, futures::Notified},
    time::Instant,
};

use super::{
    core::Core,
    spawn::{let_others_take_it, runs_by_itself},
    stall::{Liveness, Polls},
    table::KeyEntry,
};
use crate::{
    attempt::AttemptId,
    clock::Moment,
    error::{LockError, LostCause},
    key::LockKey,
    observe::{LeaseEvents, Trail},
    options::Timing,
    owner::OwnerId,
    state::{Effect, Event, HeldLease, LocalWaiter, Loss, Outcome, RenewAt, Validity},
};

/// The state that the acquisitions of one manager share.
pub(crate) type Engine = Core<Acquisition>;

/// An attempt, from its first question until the store has nothing of it left.
pub(crate) struct Acquisition {
    pub(crate) core: Arc<Engine>,
    pub(crate) timing: Timing,
    pub(crate) trail: Trail,
    /// The function that others are shown besides the process; empty if it is under no attribute.
    function: Cow<'static, str>,
    entry: Arc<KeyEntry<Arc<Acquisition>>>,
    id: AttemptId,
    wakes: Notify,
    /// `true` while it counts as a waiter of its manager.
    waits: AtomicBool,
    /// Held by what sets the TTL of a lease with a `min_hold`: its renewal, or what keeps it for that.
    pub(crate) setting_ttl: Option<Arc<Mutex<()>>>,
    /// Of the body under its guard.
    pub(crate) polls: Polls,
    /// The runtime where the attempt was made, and where its work goes on when its task has ended.
    runtime: Handle,
}

impl Acquisition {
    /// Enters the local table at `now`; `Err` once the manager is closed.
    pub(crate) fn enter(
        core: &Arc<Engine>,
        key: &LockKey,
        timing: Timing,
        trail: &Trail,
        runtime: Handle,
        now: Moment,
    ) -> Result<Arc<Self>, LockError> {
        let function = trail
            .site()
            .map_or(Cow::Borrowed(""), |site| plain(site.function()));
        let validity = Validity::new(timing.ttl, |ttl| core.store.drift(ttl));
        core.bounds.begins_waiting(key)?;
        let acquisition = core.table.enter(key, |entry, state| {
            core.bounds.may_wait_behind(state.waiting(), key)?;
            // Numbered in the order in which they enter, which is the order of their turns.
            let id = core.attempts.next();
            let acquisition = Arc::new(Self {
                core: core.clone(),
                timing,
                trail: trail.clone(),
                function,
                entry: entry.clone(),
                id,
                wakes: Notify::new(),
                waits: AtomicBool::new(true),
                setting_ttl: timing.min_hold.map(|_| Arc::default()),
                polls: Polls::default(),
                runtime,
            });
            let waiter = LocalWaiter::new(id, acquisition.clone(), timing, validity, now);
            state.enter(waiter, core.context(now));
            Ok(acquisition)
        });
        let closed = || Err(LockError::Closed { key: key.clone() });
        acquisition.unwrap_or_else(closed).inspect_err(|_| {
            core.bounds.stops_waiting();
        })
    }

    /// It has its lease, or has given up: told more than once, the first time counts.
    pub(crate) fn stops_waiting(&self) {
        if self.waits.swap(false, Ordering::Relaxed) {
            self.core.bounds.stops_waiting();
        }
    }

    /// Waits until the release of a section that was left may be sent.
    pub(crate) async fn turn_to_release(&self, is_repeated: bool) -> Option<SemaphorePermit<'_>> {
        // It must have been sent before the store forgets the lease by itself.
        let patience = || {
            let traces_until = self.entry.state().traces_until(self.id);
            let left = traces_until.map(|until| until.remaining(self.now()));
            left.unwrap_or_default()
                .saturating_sub(self.core.response_limit)
        };
        self.core.bounds.turn(is_repeated, patience).await
    }

    pub(crate) fn key(&self) -> &LockKey {
        &self.entry.key
    }

    /// The events of this acquisition, for logs and metrics.
    pub(crate) fn events(&self) -> LeaseEvents<'_> {
        LeaseEvents {
            key: self.key(),
            trail: &self.trail,
        }
    }

    pub(crate) fn now(&self) -> Moment {
        self.core.clock.now()
    }

    /// Tells the state what happened, and does what concerns others.
    pub(crate) fn event(&self, event: Event) -> Effect {
        self.event_at(event, self.now())
    }

    /// The same for a driver that has just read the clock, which takes longer than much else here.
    pub(crate) fn event_at(&self, event: Event, now: Moment) -> Effect {
        let mut state = self.entry.state();
        let outcome = state.on_event(self.id, event, self.core.context(now));
        let is_idle = state.is_idle();
        drop(state);
        self.settle(outcome, is_idle)
    }

    /// The same for the claim of `owner`, whichever section of this key bears it now.
    pub(crate) fn event_of_claim(
        &self,
        owner: OwnerId,
        event: Event,
    ) -> Option<(Arc<Self>, Effect)> {
        tell_bearer(&self.core, &self.entry, owner, event)
    }

    fn settle(&self, outcome: Outcome<Arc<Self>>, is_idle: bool) -> Effect {
        if let Some(next) = outcome.next {
            next.wakes.notify_waiters();
            // The task that leaves may go on without an await, and the next one has the lease.
            let_others_take_it();
        }
        match &outcome.effect {
            Effect::Lose => self.report_loss(),
            Effect::Wake => self.wakes.notify_waiters(),
            Effect::Forget(_) if is_idle => self.core.table.forget_if_idle(&self.entry),
            _ => {}
        }
        outcome.effect
    }

    fn report_loss(&self) {
        let loss = self.entry.state().loss(self.id);
        if let Some(loss) = loss {
            self.events().lost(&loss);
        }
        self.wakes.notify_waiters();
    }

    /// The next wake. Created before the state is looked at, it misses none.
    pub(crate) fn woken(&self) -> Notified<'_> {
        self.wakes.notified()
    }

    /// Looks how the body is that has the lease, which is being renewed, and wakes or reports it.
    pub(crate) fn look_at_body(&self, now: Moment) {
        match self.polls.look(now, self.timing.ttl) {
            Liveness::Good => {}
            Liveness::Quiet => self.wakes.notify_waiters(),
            Liveness::Stalled(since) => self.events().stalled(since),
        }
    }

    /// When a timer has to fire for `at`, as far as can be known now.
    pub(crate) fn timer(&self, at: Moment) -> Instant {
        let now = self.now();
        now.monotonic + at.remaining(now)
    }

    /// The lease if it is valid now, or how it was lost.
    pub(crate) fn check(&self) -> Result<HeldLease, Loss> {
        self.check_at(self.now())
    }

    pub(crate) fn check_at(&self, now: Moment) -> Result<HeldLease, Loss> {
        if !self.core.store.is_ours(now) {
            return Err(self.left_to_parent(now));
        }
        let mut state = self.entry.state();
        let outcome = state.check(self.id, self.core.context(now));
        let held = state.lease(self.id).ok_or_else(|| {
            // Only a lease that is being given back is neither held nor lost.
            state.loss(self.id).unwrap_or(Loss {
                cause: LostCause::Expired,
                held_for: Duration::ZERO,
            })
        });
        drop(state);
        self.settle(outcome, false);
        held
    }

    /// The loss of a lease of which a forked child has a copy.
    fn left_to_parent(&self, now: Moment) -> Loss {
        let state = self.entry.try_state();
        let held = state.and_then(|state| state.lease(self.id));
        Loss {
            cause: LostCause::OtherProcess,
            held_for: held.map_or(Duration::ZERO, |held| held.since.elapsed(now)),
        }
    }

    /// The error of the caller if the lease is not valid at `now`.
    pub(crate) fn ensure_at(&self, now: Moment) -> Result<(), LockError> {
        let held = self.check_at(now);
        held.map(drop).map_err(|loss| self.lost_error(loss))
    }

    /// Waits until the lease is lost.
    pub(crate) async fn lost(&self) -> LockError {
        loop {
            let woken = self.woken();
            if let Err(error) = self.ensure_at(self.now()) {
                return error;
            }
            woken.await;
        }
    }

    pub(crate) fn lost_error(&self, loss: Loss) -> LockError {
        LockError::Lost {
            key: self.key().clone(),
            held_for: loss.held_for,
            cause: loss.cause,
        }
    }

    /// Of several leases, all are there at `now`: from now on no other client gets this one before its
    /// `min_hold` has passed, and its `max_hold` runs. Returns what the renewer has to know of that.
    pub(crate) fn end_trial(&self, now: Moment) -> Option<RenewAt> {
        self.entry.state().end_trial(self.id, now)
    }

    /// The rest of a `min_hold` for which the store has to keep the lease.
    fn kept_for(&self) -> Option<Duration> {
        self.timing.min_hold?;
        let now = self.now();
        self.entry.state().kept_for(self.id, now)
    }

    /// `true` if the answer to a question is still of use: neither has the manager closed, nor has
    /// another task gone on in place of this one.
    pub(crate) fn is_asking(&self) -> bool {
        self.entry.state().is_asking(self.id)
    }

    /// The acquisition that bears the claim of `owner` by now.
    pub(crate) fn bearer(&self, owner: OwnerId) -> Option<Arc<Self>> {
        self.entry.state().bearer(owner)
    }

    /// `true` if a body under this key has the lease of `owner`, as far as its task has looked.
    pub(crate) fn is_held_by(&self, owner: OwnerId) -> bool {
        self.entry.state().is_held_by(owner)
    }

    /// Where the manager's work for this attempt can run: where the attempt was made, where the
    /// manager was, unless that is to be avoided, and where the caller is.
    pub(crate) fn runtimes(&self, avoid_home: bool) -> Vec<Handle> {
        let home = self.core.home.clone().filter(|_| !avoid_home);
        let (here, current) = (Some(self.runtime.clone()), Handle::try_current().ok());
        let mut runtimes: Vec<_> = [here, home, current].into_iter().flatten().collect();
        runtimes.sort_by_key(|runtime| !runs_by_itself(runtime));
        runtimes
    }
}

/// The name of a function as it is told to others: ASCII, and of a long one the end, which says most.
fn plain(function: &'static str) -> Cow<'static, str> {
    const LONGEST: usize = 128;
    let is_plain = |c: char| c.is_ascii_graphic() && c != '#';
    let function = if function.chars().all(is_plain) {
        Cow::Borrowed(function)
    } else {
        Cow::Owned(function.replace(|c| !is_plain(c), "_"))
    };
    let over = function.len().saturating_sub(LONGEST);
    match function {
        Cow::Borrowed(function) => Cow::Borrowed(&function[over..]),
        Cow::Owned(function) => Cow::Owned(function[over..].to_owned()),
    }
}

/// Tells every attempt; returns how many lost their lease by it.
pub(crate) fn tell_all(core: &Engine, event: impl Fn() -> Event) -> usize {
    let entries = core.table.all();
    let acquisitions = entries.iter().flat_map(|entry| entry.state().tasks());
    let losses = acquisitions.filter(|acquisition| acquisition.event(event()) == Effect::Lose);
    losses.count()
}

/// Tells the state what happened to the claim of `owner`; `None` if no attempt bears it any more.
pub(crate) fn tell_bearer(
    core: &Engine,
    entry: &KeyEntry<Arc<Acquisition>>,
    owner: OwnerId,
    event: Event,
) -> Option<(Arc<Acquisition>, Effect)> {
    let context = core.context(core.clock.now());
    let mut state = entry.state();
    let (bearer, outcome) = state.on_claim(owner, event, context)?;
    let is_idle = state.is_idle();
    drop(state);
    let effect = bearer.settle(outcome, is_idle);
    Some((bearer, effect))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_told_in_ascii_and_of_a_long_one_the_end() {
        assert_eq!(plain("shop::settle"), "shop::settle");
        assert_eq!(plain("shop::zahlung_pr\u{fc}fen"), "shop::zahlung_pr_fen");
        let long: &'static str = "a".repeat(200).leak();
        let long: &'static str = format!("{long}::settle").leak();
        let told = plain(long);
        assert!(told.len() == 128 && told.ends_with("a::settle"), "{told}");
    }
}
