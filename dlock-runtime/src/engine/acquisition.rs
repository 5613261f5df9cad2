//! One attempt of one task at one key, as its drivers see it.

mod requests;
mod untaken;

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
    pool::{self, PoolProbe},
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

/// The state that all acquisitions of one manager share.
pub(crate) type Engine = Core<Acquisition>;

/// An attempt, from its first request until the store keeps nothing of it.
pub(crate) struct Acquisition {
    pub(crate) core: Arc<Engine>,
    pub(crate) timing: Timing,
    pub(crate) trail: Trail,
    /// The function that other processes see beside the process; empty without the attribute.
    function: Cow<'static, str>,
    entry: Arc<KeyEntry<Arc<Acquisition>>>,
    id: AttemptId,
    wakes: Notify,
    /// `true` while the attempt counts as a waiter of its manager.
    waits: AtomicBool,
    /// Locked while the TTL of a lease with a `min_hold` is set: by a renewal, or by the request that keeps
    /// the lease for the rest of its `min_hold`.
    pub(crate) setting_ttl: Option<Arc<Mutex<()>>>,
    /// The polls of the body under its guard.
    pub(crate) polls: Polls,
    pool_probe: PoolProbe,
    /// The runtime on which the attempt was created. Its work continues there when its task has ended.
    runtime: Handle,
}

impl Acquisition {
    /// Enters the local table at `now`. Returns `Err` once the manager is closed.
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
        core.bounds.begins_waiting(key)?;
        let acquisition = core.table.enter(key, timing.mode, |entry, state| {
            let fewer_wait_than = |bound| state.fewer_wait_than(bound);
            core.bounds.may_wait_behind(fewer_wait_than, key)?;
            let (acquisition, waiter) =
                Self::new(core, entry, timing, trail, function, runtime, now);
            state.enter(waiter, core.context(now));
            Ok(acquisition)
        });
        let closed = || Err(LockError::Closed { key: key.clone() });
        acquisition.unwrap_or_else(closed).inspect_err(|_| {
            core.bounds.stops_waiting();
        })
    }

    /// Creates an attempt, which counts as a waiter of its manager, and what stands for it in the state.
    fn new(
        core: &Arc<Engine>,
        entry: &Arc<KeyEntry<Arc<Self>>>,
        timing: Timing,
        trail: &Trail,
        function: Cow<'static, str>,
        runtime: Handle,
        now: Moment,
    ) -> (Arc<Self>, LocalWaiter<Arc<Self>>) {
        // Numbered in the order of entry, which is the order of the turns.
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
            pool_probe: PoolProbe::default(),
            runtime,
        });
        let validity = Validity::new(timing.ttl, |ttl| core.store.drift(ttl));
        let waiter = LocalWaiter::new(id, acquisition.clone(), timing, validity, now);
        (acquisition, waiter)
    }

    /// Records that the attempt has its lease or has given up. Only the first call counts.
    pub(crate) fn stops_waiting(&self) {
        if self.waits.swap(false, Ordering::Relaxed) {
            self.core.bounds.stops_waiting();
        }
    }

    /// Waits until the background release of a body may be sent.
    pub(crate) async fn turn_to_release(&self, is_repeated: bool) -> Option<SemaphorePermit<'_>> {
        // The request must be sent before the store deletes the lease itself.
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

    /// Returns the events of this acquisition, for logs and metrics.
    pub(crate) fn events(&self) -> LeaseEvents<'_> {
        LeaseEvents {
            key: self.key(),
            trail: &self.trail,
        }
    }

    pub(crate) fn now(&self) -> Moment {
        self.core.clock.now()
    }

    /// Passes an event to the state and does what concerns other attempts.
    pub(crate) fn event(&self, event: Event) -> Effect {
        self.event_at(event, self.now())
    }

    /// Does the same for a driver that has just read the clock, which takes longer than most of this code.
    pub(crate) fn event_at(&self, event: Event, now: Moment) -> Effect {
        let mut state = self.entry.state();
        let outcome = state.on_event(self.id, event, self.core.context(now));
        let is_idle = state.is_idle();
        drop(state);
        self.settle(outcome, is_idle, now)
    }

    /// Does the same for the claim of `owner`, whichever attempt for this key holds that claim now.
    pub(crate) fn event_of_claim(
        &self,
        owner: OwnerId,
        event: Event,
    ) -> Option<(Arc<Self>, Effect)> {
        tell_bearer(&self.core, &self.entry, owner, event)
    }

    fn settle(&self, outcome: Outcome<Arc<Self>>, is_idle: bool, now: Moment) -> Effect {
        for other in &outcome.also_lost {
            other.report_loss();
        }
        let woken = outcome.next.iter().chain(&outcome.invited);
        let woken = woken.map(|next| next.wakes.notify_waiters()).count();
        if woken > 0 {
            // The task that leaves may continue without an await, and the next task has the lease.
            let_others_take_it();
        }
        if let (Effect::Forget(None), Some(next)) = (&outcome.effect, &outcome.next) {
            next.is_given_lease(now);
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

    /// Returns a future for the next wake-up. Create it before the state is read, so that no wake-up is
    /// missed.
    pub(crate) fn woken(&self) -> Notified<'_> {
        self.wakes.notified()
    }

    /// Returns the attempts that use the lease of `owner`.
    pub(crate) fn users(&self, owner: OwnerId) -> Vec<Arc<Self>> {
        self.entry.state().users(owner)
    }

    /// Looks at the progress of the body, and wakes or reports it.
    pub(crate) fn look_at_body(&self, now: Moment) {
        match self.polls.look(now, self.timing.ttl) {
            Liveness::Good => {}
            Liveness::Quiet => self.wakes.notify_waiters(),
            Liveness::Stalled(since) => self.events().stalled(since),
        }
    }

    /// Looks whether the body that holds the key needs a thread of `pool` in vain. A thread of that runtime has waited for the
    /// key since `since`.
    pub(crate) fn look_at_pool(&self, pool: &Handle, since: Moment, now: Moment) {
        if since.elapsed(now) < pool::LONG {
            return;
        }
        let mut entries = self.core.table.find(self.key().as_str());
        let holder = entries.find_map(|entry| {
            let state = entry.state();
            let holder = state.holders().find(|it| it.runtime.id() == pool.id());
            holder.cloned()
        });
        let Some(holder) = holder else { return };
        if let Some(since) = holder.pool_probe.look(pool, now) {
            holder.events().pool_is_full(since);
        }
    }

    /// Returns when a timer has to fire for `at`, as far as is known now.
    pub(crate) fn timer(&self, at: Moment) -> Instant {
        let now = self.now();
        now.monotonic + at.remaining(now)
    }

    /// Returns the lease if it is valid now, or how it was lost.
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
            // Only a lease that is being released is neither held nor lost.
            state.loss(self.id).unwrap_or(Loss {
                cause: LostCause::Expired,
                held_for: Duration::ZERO,
            })
        });
        drop(state);
        self.settle(outcome, false, now);
        held
    }

    /// Returns the loss of a lease of which a forked child has a copy.
    fn left_to_parent(&self, now: Moment) -> Loss {
        let state = self.entry.try_state();
        let held = state.and_then(|state| state.lease(self.id));
        Loss {
            cause: LostCause::OtherProcess,
            held_for: held.map_or(Duration::ZERO, |held| held.since.elapsed(now)),
        }
    }

    /// Returns the caller's error if the lease is not valid at `now`.
    pub(crate) fn ensure_at(&self, now: Moment) -> Result<(), LockError> {
        let held = self.check_at(now);
        held.map(drop).map_err(|loss| self.lost_error(loss))
    }

    /// Keeps the lease from being handed over, and returns the owner under which the store knows it.
    pub(crate) fn bind(&self) -> Result<OwnerId, LockError> {
        self.ensure_at(self.now())?;
        let owner = self.entry.state().bind(self.id);
        owner.ok_or_else(|| {
            self.lost_error(Loss {
                cause: LostCause::Expired,
                held_for: Duration::ZERO,
            })
        })
    }

    /// Leaves the lease to the store: from now on, no task of this process takes it over or releases it.
    pub(crate) fn leave_to_store(&self) {
        self.entry.state().leave_to_store(self.id);
    }

    pub(crate) fn is_left_to_store(&self) -> bool {
        self.entry.state().is_left_to_store(self.id)
    }

    /// Returns `true` if a message or a failed renewal says that the lease may be gone.
    pub(crate) fn is_doubted(&self) -> bool {
        self.entry.state().is_doubted(self.id)
    }

    /// Waits until a lease on trial is not doubted any more: a renewal has confirmed it, or it is lost.
    pub(crate) async fn settled(&self) {
        loop {
            let woken = self.woken();
            // A doubted lease may have come to its end.
            if self.check().is_err() || !self.is_doubted() {
                return;
            }
            woken.await;
        }
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

    /// Records that all leases of a call are held at `now`. From then on, no other client acquires this one
    /// before its `min_hold` has passed, and its `max_hold` runs. Returns what the renewer has to know.
    pub(crate) fn end_trial(&self, now: Moment) -> Option<RenewAt> {
        self.entry.state().end_trial(self.id, now)
    }

    /// Returns the rest of a `min_hold` for which the store has to keep the lease.
    fn kept_for(&self) -> Option<Duration> {
        self.timing.min_hold?;
        let now = self.now();
        self.entry.state().kept_for(self.id, now)
    }

    /// Returns `true` if an answer is still needed: the manager is open, and no other task continues in place
    /// of this one.
    pub(crate) fn is_asking(&self) -> bool {
        self.entry.state().is_asking(self.id)
    }

    /// Returns the acquisition that holds the claim of `owner` now.
    pub(crate) fn bearer(&self, owner: OwnerId) -> Option<Arc<Self>> {
        self.entry.state().bearer(owner)
    }

    /// Returns `true` if a body under this key has the lease of `owner`, as far as its task has looked.
    pub(crate) fn is_held_by(&self, owner: OwnerId) -> bool {
        self.entry.state().is_held_by(owner)
    }

    /// Returns the runtimes for this attempt's work: that of the attempt, that of the manager unless it is to
    /// be avoided, and that of the caller.
    pub(crate) fn runtimes(&self, avoid_home: bool) -> Vec<Handle> {
        let home = self.core.home.clone().filter(|_| !avoid_home);
        let (here, current) = (Some(self.runtime.clone()), Handle::try_current().ok());
        let mut runtimes: Vec<_> = [here, home, current].into_iter().flatten().collect();
        runtimes.sort_by_key(|runtime| !runs_by_itself(runtime));
        runtimes
    }
}

/// Returns the name of a function as other processes see it: in ASCII, and the end of a long name, which is
/// its most specific part.
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

/// Passes an event to every attempt and returns how many lost their lease by it.
pub(crate) fn tell_all(core: &Engine, event: impl Fn() -> Event) -> usize {
    let entries = core.table.all();
    let acquisitions = entries.iter().flat_map(|entry| entry.state().tasks());
    let losses = acquisitions.filter(|acquisition| acquisition.event(event()) == Effect::Lose);
    losses.count()
}

/// Lets those attempts poll for which a message of the store may have been lost.
pub(crate) fn look_again(core: &Engine) {
    for entry in core.table.all() {
        let told = entry.state().told_by_store();
        for acquisition in told {
            acquisition.event(Event::LookAgain);
        }
    }
}

/// Passes an event about the claim of `owner` to the state. Returns `None` if no attempt holds the claim any
/// more.
pub(crate) fn tell_bearer(
    core: &Engine,
    entry: &KeyEntry<Arc<Acquisition>>,
    owner: OwnerId,
    event: Event,
) -> Option<(Arc<Acquisition>, Effect)> {
    let now = core.clock.now();
    let mut state = entry.state();
    let (bearer, outcome) = state.on_claim(owner, event, core.context(now))?;
    let is_idle = state.is_idle();
    drop(state);
    let effect = bearer.settle(outcome, is_idle, now);
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
        assert_eq!(plain("shop::{closure#0} "), "shop::{closure_0}_");
    }
}
