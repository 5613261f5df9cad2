//! One attempt of one task at one key, as its drivers see it.

use std::{
    borrow::Cow,
    future::{Future, poll_fn},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::Poll,
    thread,
    time::Duration,
};

use tokio::{
    runtime::{Handle, RuntimeFlavor, TryCurrentError},
    sync::{Mutex, Notify, SemaphorePermit, futures::Notified},
    time::{Instant, timeout},
};

use crate::{
    background::{let_others_take_it, release_in_background},
    clock::Moment,
    error::{LockError, LostCause},
    keeper,
    key::LockKey,
    local::Slot,
    manager::Shared,
    observe::{self, Request, Trail},
    options::Timing,
    owner::OwnerId,
    stall::{Polls, Pulse},
    state::{Effect, Event, Held, Loss, Outcome, Trust, Waiter},
    store::{AcquireOutcome, AcquireRequest, Queue, Released, RenewRequest, Renewal, StoreError},
};

/// An attempt, from its first question until the store has nothing of it left.
pub(crate) struct Section {
    pub(crate) shared: Arc<Shared>,
    pub(crate) timing: Timing,
    pub(crate) trail: Trail,
    /// What others are told of it besides the process; empty if it is under no attribute.
    function: Cow<'static, str>,
    slot: Arc<Slot<Arc<Section>>>,
    id: OwnerId,
    bell: Notify,
    /// Whether it counts as a waiter of its manager.
    waits: AtomicBool,
    /// Held by what sets the TTL of a lease with a `min_hold`: its renewal, or what keeps it for that.
    pub(crate) setting_ttl: Option<Arc<Mutex<()>>>,
    /// Of the body under its guard.
    pub(crate) polls: Polls,
    /// Where the attempt was made, and where what outlives its task runs.
    runtime: Handle,
}

impl Section {
    /// Enters the local table at `now`; `Err` once the manager is closed.
    pub(crate) fn enter(
        shared: &Arc<Shared>,
        key: &LockKey,
        timing: Timing,
        trail: &Trail,
        runtime: Handle,
        now: Moment,
    ) -> Result<Arc<Self>, LockError> {
        let function = trail
            .site()
            .map_or(Cow::Borrowed(""), |site| plain(site.function()));
        let trust = Trust::new(timing.ttl, |ttl| shared.store.drift(ttl));
        shared.bounds.begins_waiting(key)?;
        let section = shared.local.enter(key, |slot, state| {
            shared.bounds.may_wait_behind(state.waiting(), key)?;
            // Numbered in the order in which they enter, which is the order of their turns.
            let id = shared.owners.next();
            let section = Arc::new(Self {
                shared: shared.clone(),
                timing,
                trail: trail.clone(),
                function,
                slot: slot.clone(),
                id,
                bell: Notify::new(),
                waits: AtomicBool::new(true),
                setting_ttl: timing.min_hold.map(|_| Arc::default()),
                polls: Polls::default(),
                runtime,
            });
            let waiter = Waiter::new(id, section.clone(), timing, trust, now);
            state.enter(waiter, shared.surroundings(now));
            Ok(section)
        });
        let closed = || Err(LockError::Closed { key: key.clone() });
        section.unwrap_or_else(closed).inspect_err(|_| {
            shared.bounds.stops_waiting();
        })
    }

    /// It has its lease, or has given up: told more than once, the first time counts.
    pub(crate) fn stops_waiting(&self) {
        if self.waits.swap(false, Ordering::Relaxed) {
            self.shared.bounds.stops_waiting();
        }
    }

    /// Waits until the release of a section that was left may be sent.
    pub(crate) async fn turn_to_release(&self, is_repeated: bool) -> Option<SemaphorePermit<'_>> {
        // It must have been sent before the store forgets the lease by itself.
        let patience = || {
            let traces_until = self.slot.state().traces_until(self.id);
            let left = traces_until.map(|until| until.remaining(self.now()));
            left.unwrap_or_default()
                .saturating_sub(self.shared.response_limit)
        };
        self.shared.bounds.turn(is_repeated, patience).await
    }

    pub(crate) fn key(&self) -> &LockKey {
        &self.slot.key
    }

    pub(crate) fn now(&self) -> Moment {
        self.shared.clock.now()
    }

    /// Tells the state what happened, and does what concerns others.
    pub(crate) fn event(&self, event: Event) -> Effect {
        self.event_at(event, self.now())
    }

    /// The same for who has just read the clock, which takes longer than much else here.
    pub(crate) fn event_at(&self, event: Event, now: Moment) -> Effect {
        let mut state = self.slot.state();
        let outcome = state.on_event(self.id, event, self.shared.surroundings(now));
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
        tell_bearer(&self.shared, &self.slot, owner, event)
    }

    fn settle(&self, outcome: Outcome<Arc<Self>>, is_idle: bool) -> Effect {
        if let Some(next) = outcome.next {
            next.bell.notify_waiters();
            // The task that leaves may go on without an await, and the next one has the lease.
            let_others_take_it();
        }
        match &outcome.effect {
            Effect::Lose => self.report_loss(),
            Effect::Ring => self.bell.notify_waiters(),
            Effect::Forget(_) if is_idle => self.shared.local.forget_if_idle(&self.slot),
            _ => {}
        }
        outcome.effect
    }

    fn report_loss(&self) {
        let loss = self.slot.state().loss(self.id);
        if let Some(loss) = loss {
            observe::lost(self, &loss);
        }
        self.bell.notify_waiters();
    }

    /// The next ring. Created before the state is looked at, no ring is missed.
    pub(crate) fn ring(&self) -> Notified<'_> {
        self.bell.notified()
    }

    /// Looks how the body is that has the lease, which is being renewed, and wakes or reports it.
    pub(crate) fn look_at_body(&self, now: Moment) {
        match self.polls.look(now, self.timing.ttl) {
            Pulse::Good => {}
            Pulse::Quiet => self.bell.notify_waiters(),
            Pulse::Stalled(since) => observe::stalled(self, since),
        }
    }

    /// When a timer has to fire for `at`, as far as can be known now.
    pub(crate) fn timer(&self, at: Moment) -> Instant {
        let now = self.now();
        now.monotonic + at.remaining(now)
    }

    /// The lease if it is valid now, or how it was lost.
    pub(crate) fn check(&self) -> Result<Held, Loss> {
        self.check_at(self.now())
    }

    pub(crate) fn check_at(&self, now: Moment) -> Result<Held, Loss> {
        if !self.shared.store.is_ours(now) {
            return Err(self.left_to_parent(now));
        }
        let mut state = self.slot.state();
        let outcome = state.check(self.id, self.shared.surroundings(now));
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

    /// How a forked child loses what it has a copy of.
    fn left_to_parent(&self, now: Moment) -> Loss {
        let state = self.slot.try_state();
        let held = state.and_then(|state| state.lease(self.id));
        Loss {
            cause: LostCause::OtherProcess,
            held_for: held.map_or(Duration::ZERO, |held| held.since.elapsed(now)),
        }
    }

    pub(crate) fn lost_error(&self, loss: Loss) -> LockError {
        LockError::Lost {
            key: self.key().clone(),
            held_for: loss.held_for,
            cause: loss.cause,
        }
    }

    pub(crate) async fn ask_acquire(
        &self,
        owner: OwnerId,
        limit: Duration,
        queue: bool,
        now: Moment,
    ) -> Result<AcquireOutcome, StoreError> {
        let store = self.shared.store.at(now)?;
        let request = AcquireRequest::new(self.key(), owner, self.timing.ttl)
            .queue(if queue { Queue::ForLease } else { Queue::No })
            .label(&self.shared.label)
            .function(&self.function);
        let answer = store.acquire(request);
        self.within(limit, Request::Acquire, answer).await
    }

    pub(crate) fn release_at_once(&self, owner: OwnerId) -> bool {
        // Freed now it would be free too early; its TTL at least keeps others out.
        let is_kept = self.kept_for().is_some();
        let store = self.shared.store.at(self.now());
        !is_kept && store.is_ok_and(|store| store.release_at_once(self.key(), owner))
    }

    /// Gives the lease back, or leaves it to the store for the rest of its `min_hold`: this process
    /// may end, and does not have to wait for that.
    pub(crate) async fn ask_release(
        &self,
        owner: OwnerId,
        mut now: Moment,
    ) -> Result<Released, StoreError> {
        let limit = self.shared.response_limit;
        // A renewal that is carried out after it would put the lease's TTL in place of the rest, and keep the
        // lock for longer. That is all it would do, so one without an answer is not awaited for ever.
        let _alone = match &self.setting_ttl {
            Some(setting) if self.kept_for().is_some() => {
                let alone = timeout(limit, setting.lock()).await.ok();
                now = self.now();
                alone
            }
            _ => None,
        };
        let store = self.shared.store.at(now)?;
        let Some(rest) = self.kept_for() else {
            let release = store.release(self.key(), owner);
            return self.within(limit, Request::Release, release).await;
        };
        // The lease may end long before that time would be over, so as for a renewal, time for another
        // try has to be left.
        let limit = limit.min(self.timing.ttl / 3);
        let keep = store.renew_one(self.renewal(owner, rest));
        let answer = self.within(limit, Request::Keep, keep).await?;
        if answer == Renewal::Renewed {
            observe::kept(self, rest);
        }
        Ok(match answer {
            Renewal::Renewed => Released::WasHeld,
            Renewal::NotOwner => Released::WasGone,
        })
    }

    pub(crate) fn renewal(&self, owner: OwnerId, ttl: Duration) -> RenewRequest<'_> {
        RenewRequest::new(self.key(), owner, ttl)
            .label(&self.shared.label)
            .function(&self.function)
    }

    /// Of several leases, all are there at `now`: from now on nobody else gets this one before its
    /// `min_hold` has passed, and its `max_hold` runs.
    pub(crate) fn end_trial(self: &Arc<Self>, now: Moment) {
        let keep = self.slot.state().end_trial(self.id, now);
        if let Some(keep) = keep {
            keeper::keep(self, keep, now);
        }
    }

    fn kept_for(&self) -> Option<Duration> {
        self.timing.min_hold?;
        let now = self.now();
        self.slot.state().kept_for(self.id, now)
    }

    /// The answer to a request, or that there was none in time.
    async fn within<T>(
        &self,
        limit: Duration,
        request: Request,
        answer: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let sent = request.sent();
        let mut answer = pin!(answer);
        // A store in memory answers at once, and needs no timer; any other has sent the request.
        let answer = match poll_fn(|context| Poll::Ready(answer.as_mut().poll(context))).await {
            Poll::Ready(answer) => answer,
            // One timer is enough for a request.
            Poll::Pending if self.shared.store_gives_up_within(limit) => answer.await,
            Poll::Pending => timeout(limit, answer)
                .await
                .unwrap_or_else(|_| Err(StoreError::timed_out(limit))),
        };
        match &answer {
            Ok(_) => sent.answered(),
            Err(error) => observe::request_failed(self, request, error),
        }
        answer
    }

    /// Gives back what the task left behind: the lease, the place in the queue, the local entry.
    ///
    /// Needs no runtime to be called from. If none is left that could send the release, the
    /// store's TTL has to do.
    pub(crate) fn leave_in_background(self: &Arc<Self>) {
        let gone = |error: TryCurrentError| error.is_thread_local_destroyed();
        if Handle::try_current().is_err_and(gone) {
            // This is a destructor of a thread that has forgotten tokio already, whose clock panics
            // here once a test has paused it. Any other thread will do.
            let section = self.clone();
            let elsewhere = thread::Builder::new();
            if elsewhere.spawn(move || section.leave()).is_ok() {
                return;
            }
        }
        self.leave();
    }

    fn leave(self: &Arc<Self>) {
        self.stops_waiting();
        let now = self.now();
        if !self.shared.store.is_ours(now) {
            // It is the parent's to give back.
            return;
        }
        if let Effect::Release { owner } = self.event_at(Event::Left, now) {
            self.shared.keeper.remove(owner);
            release_in_background(self, owner);
        }
        observe::left(self, now);
    }

    /// Whether the answer to a question is still of use: neither has the manager closed, nor has
    /// another task gone on in place of this one.
    pub(crate) fn is_asking(&self) -> bool {
        self.slot.state().is_asking(self.id)
    }

    /// Who bears the claim of `owner` by now.
    pub(crate) fn bearer(&self, owner: OwnerId) -> Option<Arc<Self>> {
        self.slot.state().bearer(owner)
    }

    /// Whether a section of this key has the lease of `owner`, as far as anybody has looked.
    pub(crate) fn is_held_by(&self, owner: OwnerId) -> bool {
        self.slot.state().is_held_by(owner)
    }

    /// Where the manager's work for this attempt can run: where the attempt was made, where the
    /// manager was, unless that is to be avoided, and where the caller is.
    pub(crate) fn runtimes(&self, avoid_home: bool) -> Vec<Handle> {
        let home = self.shared.home.clone().filter(|_| !avoid_home);
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

/// Tells the state what happened to the claim of `owner`; `None` if nobody bears it any more.
pub(crate) fn tell_bearer(
    shared: &Shared,
    slot: &Slot<Arc<Section>>,
    owner: OwnerId,
    event: Event,
) -> Option<(Arc<Section>, Effect)> {
    let around = shared.surroundings(shared.clock.now());
    let mut state = slot.state();
    let (bearer, outcome) = state.on_claim(owner, event, around)?;
    let is_idle = state.is_idle();
    drop(state);
    let effect = bearer.settle(outcome, is_idle);
    Some((bearer, effect))
}

/// Whether a runtime has workers of its own: one of a single thread may be kept without being run.
pub(crate) fn runs_by_itself(runtime: &Handle) -> bool {
    runtime.runtime_flavor() != RuntimeFlavor::CurrentThread
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
