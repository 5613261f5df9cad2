//! The attempt that sends requests or holds the lease: its phases, and every decision about it.
//!
//! **Safety.** A deadline counts from the moment *before* the confirmed request was sent, and a failed
//! request never moves it. A request without an answer may have been carried out: the claim is then released
//! in any case.

mod handover;
mod hold;
mod holding;
mod pause;
mod sharer;
mod sharing;
mod untaken;

use std::{collections::BTreeMap, time::Duration};

use self::{hold::Hold, sharer::Sharer};
use super::{
    claim::{Claim, LOOK_AGAIN, LastAnswer, SOON},
    event::{Context, Denial, Effect, Event, HeldLease, Loss, RenewAt},
    waiter::LocalWaiter,
};
use crate::{
    answer::{AcquireOutcome, Holder, Released},
    attempt::AttemptId,
    clock::Moment,
    error::{LostCause, StoreError, StoreErrorKind},
    options::Wait,
    owner::OwnerId,
    random::jittered,
};

/// The time after the end of a lease within which its waiters ask: not all at once, and not much later.
const SPREAD: Duration = Duration::from_millis(25);

#[derive(Debug)]
pub(super) struct Attempt<T> {
    pub(super) waiter: LocalWaiter<T>,
    pub(super) claim: Claim,
    /// No other client may acquire the lease before this time.
    keep_until: Option<Moment>,
    phase: Phase,
    /// Other tasks that use the lease.
    sharers: BTreeMap<AttemptId, Sharer<T>>,
    /// The last attempt that waited when the body began. It and those before it may share the lease for as long
    /// as it is held.
    invited: Option<AttemptId>,
    /// The lease is not released: code outside this process has taken it over.
    pub(super) is_left_to_store: bool,
    /// It asks beside the attempt in front, without a place in the store's queue.
    is_beside: bool,
}

#[derive(Debug)]
enum Phase {
    /// A request is in flight.
    Asking {
        since: Moment,
        /// A wake-up message that has arrived since the request was sent.
        news: Option<EarlyHint>,
        /// The value of [`Claim::traces_until`] if this request leaves nothing in the store.
        traces_before: Option<Moment>,
        /// When the request ends, with or without an answer.
        until: Moment,
    },
    /// The next request is due at `look_at`.
    Waiting {
        look_at: Moment,
    },
    Holding(Hold),
    Lost(Loss),
    Leaving,
}

/// A wake-up message that arrived while a request is in flight, and that may be older than its answer.
#[derive(Clone, Copy, Debug)]
enum EarlyHint {
    Granted { fence: u64, number: u64 },
    LookAgain,
}

impl EarlyHint {
    /// Returns `true` if a lease that the request is granted may be gone.
    fn is_doubt(self) -> bool {
        matches!(self, Self::Granted { fence: 0, .. })
    }
}

impl<T> Attempt<T> {
    /// Creates an attempt with its own claim: the one that it had kept, or a new one.
    ///
    /// **Safety.** No two claims have the same owner id. The store would take the second claim for the first,
    /// whose release may be in flight, and would not count a new fence. Each new claim therefore draws a new
    /// owner id.
    pub(super) fn new(mut waiter: LocalWaiter<T>, context: Context<'_>) -> Self {
        let claim = if let Some(kept) = waiter.kept.take() {
            *kept
        } else {
            Claim::new(context.owners.next(), waiter.timing, waiter.validity)
        };
        Self::waiting(waiter, claim, context.now)
    }

    /// Creates an attempt that asks beside the one in front.
    pub(super) fn beside(waiter: LocalWaiter<T>, context: Context<'_>) -> Self {
        let attempt = Self::new(waiter, context);
        Self {
            is_beside: true,
            ..attempt
        }
    }

    /// Creates an attempt whose predecessor in this process has released its claim.
    pub(super) fn after_others(waiter: LocalWaiter<T>, context: Context<'_>) -> Self {
        let mut attempt = Self::new(waiter, context);
        attempt.claim.last_answer = LastAnswer::Busy(Holder::here());
        attempt
    }

    fn waiting(waiter: LocalWaiter<T>, claim: Claim, look_at: Moment) -> Self {
        Self {
            waiter,
            claim,
            keep_until: None,
            phase: Phase::Waiting { look_at },
            sharers: BTreeMap::new(),
            invited: None,
            is_left_to_store: false,
            is_beside: false,
        }
    }

    pub(super) fn id(&self) -> AttemptId {
        self.waiter.id
    }

    /// Returns `true` if the claim is still needed: it is neither lost nor being released.
    pub(super) fn is_active(&self) -> bool {
        !matches!(self.phase, Phase::Lost(_) | Phase::Leaving)
    }

    /// Returns `true` if there is a lease, even if the task has not seen it yet.
    pub(super) fn is_holding(&self) -> bool {
        self.holding().is_some()
    }

    /// Returns when the acquire request was sent that is in flight.
    pub(super) fn asking_since(&self) -> Option<Moment> {
        match self.phase {
            Phase::Asking { since, .. } => Some(since),
            _ => None,
        }
    }

    /// Returns `true` if an acquire request is in flight.
    pub(super) fn is_asking(&self) -> bool {
        self.asking_since().is_some()
    }

    /// Returns `true` if the store has let it in neither to the key nor to the queue, and keeps nothing of it.
    pub(super) fn is_put_off(&self) -> bool {
        matches!(self.phase, Phase::Waiting { .. }) && self.wants_no_place(self.claim.traces_until)
    }

    /// Returns `true` if its requests ask for no place in the store's queue.
    ///
    /// After a request without an answer, the store may have let it in. It must go on to ask then, and keep a place.
    fn wants_no_place(&self, traces_before: Option<Moment>) -> bool {
        let asks_once = self.waiter.timing.wait == Wait::Never;
        asks_once || (self.is_beside && traces_before.is_none())
    }

    pub(super) fn lease(&self) -> Option<HeldLease> {
        let hold = self.holding()?;
        hold.is_entered().then(|| HeldLease {
            token: hold.token,
            since: hold.since,
            deadline: hold.deadline(),
        })
    }

    /// Keeps the lease from other tasks of this process, because something outside depends on it. Returns the owner
    /// under which the store knows it.
    pub(super) fn bind(&mut self) -> Option<OwnerId> {
        let Phase::Holding(hold) = &mut self.phase else {
            return None;
        };
        hold.is_bound = true;
        Some(self.claim.owner)
    }

    /// Leaves the lease to the store, and keeps it from other tasks of this process.
    pub(super) fn leave_to_store(&mut self) {
        self.bind();
        self.is_left_to_store = true;
    }

    /// Returns `true` if there is a lease, and it may be gone.
    pub(super) fn is_doubted(&self) -> bool {
        self.holding().is_some_and(|hold| !hold.is_trusted())
    }

    /// Returns the remaining validity of the lease, if it is held.
    pub(super) fn remaining(&self, now: Moment) -> Option<Duration> {
        self.holding().map(|hold| hold.remaining(now))
    }

    pub(super) fn loss(&self) -> Option<Loss> {
        match &self.phase {
            Phase::Lost(loss) => Some(loss.clone()),
            _ => None,
        }
    }

    /// Records that all leases of a call are held and the body begins. Returns when the renewer has to check,
    /// if that may be earlier than scheduled.
    pub(super) fn end_trial(&mut self, now: Moment) -> Option<RenewAt> {
        self.waiter.timing.on_trial = false;
        self.keep();
        self.begin_max_hold(now)
    }

    fn keep(&mut self) {
        if let (Some(hold), Some(min_hold)) = (self.holding(), self.waiter.timing.min_hold) {
            self.keep_until = Some(hold.since.plus(min_hold));
        }
    }

    pub(super) fn kept_for(&self, now: Moment) -> Option<Duration> {
        let rest = self.keep_until?.longest_remaining(now);
        // A store counts in milliseconds, and a fraction must not be cut off.
        (!rest.is_zero()).then(|| rest + Duration::from_millis(1))
    }

    pub(super) fn on_event(&mut self, event: Event, context: Context<'_>) -> Effect {
        match event {
            Event::Answered { sent, answer } => self.on_answer(sent, answer, context),
            Event::Woken => self.on_wake(context),
            Event::Doubted => self.on_doubt(context),
            Event::Granted { fence: 0, .. } if self.is_holding() => self.on_doubt(context),
            Event::Granted { fence, number } => self.on_grant(fence, number, context.now),
            Event::LookAgain => self.on_look_again(context.now),
            Event::Closed => self.on_close(context.now),
            Event::CutShort => self.on_cut_short(context.now),
            Event::Tick => self.on_tick(context),
            Event::Renewed { sent, answer } => self.on_renewed(sent, answer, context),
            Event::Left => self.on_leave(context.now),
            Event::Released(answer) => self.on_released(answer, context),
            Event::Abandoned => Effect::Forget(None),
        }
    }

    fn on_wake(&mut self, context: Context<'_>) -> Effect {
        if self.holding().is_some_and(Hold::is_entered) {
            return Effect::Nothing;
        }
        if self.waiter.refused {
            return Effect::Refuse(Denial::Closed);
        }
        if let entered @ Effect::Enter { .. } = self.on_lease(context.now) {
            return entered;
        }
        let Phase::Waiting { look_at } = self.phase else {
            return Effect::Nothing;
        };
        let asked = !matches!(self.claim.last_answer, LastAnswer::NotAsked);
        let is_over = self.waiter.is_over(context.now);
        if is_over && asked && !self.waiter.owes_last_look() {
            return Effect::Refuse(self.denial(context.now));
        }
        if !is_over && !look_at.is_reached(context.now) {
            let give_up = self.waiter.give_up;
            return Effect::WaitUntil(give_up.map_or(look_at, |end| end.earlier(look_at)));
        }
        self.ask(context)
    }

    fn ask(&mut self, context: Context<'_>) -> Effect {
        let timing = &self.waiter.timing;
        // A grant that takes longer than the TTL could not be valid.
        let answer = context.response_limit.min(timing.ttl);
        let limit = match self.waiter.give_up {
            // A caller that does not wait still needs the time of one answer.
            Some(give_up) if timing.wait != Wait::Never => {
                let rest = give_up.remaining(context.now);
                answer.min(rest.max(self.waiter.begins_last_look(context.now)))
            }
            _ => answer,
        };
        let queue = !self.wants_no_place(self.claim.traces_until);
        self.phase = Phase::Asking {
            since: context.now,
            news: None,
            traces_before: self.claim.traces_until,
            until: context.now.plus(limit),
        };
        self.claim.leaves_traces(context.now);
        self.claim.pause = None;
        Effect::Ask {
            owner: self.claim.owner,
            limit,
            queue,
        }
    }

    fn on_answer(
        &mut self,
        sent: Moment,
        answer: Result<AcquireOutcome, StoreError>,
        context: Context<'_>,
    ) -> Effect {
        let Phase::Asking {
            news,
            traces_before,
            ..
        } = self.phase
        else {
            // The attempt was refused in the meantime. A granted lease is released when the caller leaves.
            return self.on_wake(context);
        };
        match answer {
            Ok(AcquireOutcome::Granted { .. }) if news.is_some_and(EarlyHint::is_doubt) => {
                // The answer may be older than the message. That to another request is not.
                self.phase = Phase::Waiting {
                    look_at: context.now,
                };
                self.on_wake(context)
            }
            Ok(AcquireOutcome::Granted { fence, .. }) => self.hold(fence, sent, context),
            Ok(AcquireOutcome::Busy(holder)) => {
                if self.wants_no_place(traces_before) {
                    // The store keeps nothing of an owner that did not request a place.
                    self.claim.traces_until = traces_before;
                }
                self.on_busy(sent, holder, news, context)
            }
            Err(error) => {
                if error.left_nothing() {
                    self.claim.traces_until = traces_before;
                }
                self.on_failure(sent, error, news, context)
            }
        }
    }

    fn on_busy(
        &mut self,
        sent: Moment,
        holder: Holder,
        news: Option<EarlyHint>,
        context: Context<'_>,
    ) -> Effect {
        let jittered = |pause| jittered(pause, context.random.next_u64());
        let pause = match self.claim.ends_in(&holder, context.now) {
            // This caller has no place in the queue. The next attempt that requests one should get it at
            // once.
            _ if self.waiter.timing.wait == Wait::Never => Duration::ZERO,
            // Just after the lease has ended, and not just before.
            Some(ttl) if ttl < SOON => {
                let ended = ttl + Duration::from_millis(1);
                // The jitter is a quarter.
                let spread = ended.min(4 * SPREAD);
                ended.saturating_sub(spread) + jittered(spread)
            }
            _ => jittered(LOOK_AGAIN),
        };
        self.claim.refreshed(sent, holder);
        self.look_again_in(pause, sent, news, context)
    }

    fn on_failure(
        &mut self,
        sent: Moment,
        error: StoreError,
        news: Option<EarlyHint>,
        context: Context<'_>,
    ) -> Effect {
        let is_final = error.is_final();
        // The last request of a wait may be cut short, and its result is less precise than the earlier one.
        let cut_short =
            error.kind() == StoreErrorKind::TimedOut && self.waiter.is_over(context.now);
        let too_soon = self.waiter.timing.wait != Wait::Never && !context.is_answer_due(sent);
        match self.claim.last_answer {
            LastAnswer::NotAsked if cut_short && too_soon => {
                self.claim.last_answer = LastAnswer::Busy(Holder::default());
            }
            LastAnswer::Busy(_) | LastAnswer::Failed(_) if cut_short => {}
            _ => self.claim.last_answer = LastAnswer::Failed(error),
        }
        let pause = self.claim.back_off(LOOK_AGAIN, context.random);
        if is_final {
            self.phase = Phase::Waiting {
                look_at: context.now,
            };
            return Effect::Refuse(self.denial(context.now));
        }
        self.look_again_in(pause, sent, news, context)
    }

    /// Records the answer to the request that was sent at `sent`. The request is repeated after `pause`, but
    /// at the end of the wait at the latest.
    fn look_again_in(
        &mut self,
        pause: Duration,
        sent: Moment,
        news: Option<EarlyHint>,
        context: Context<'_>,
    ) -> Effect {
        let look_at = context.now.plus(pause);
        let last_look = self
            .waiter
            .plan_last_look(sent.elapsed(context.now), context.now);
        self.phase = Phase::Waiting {
            look_at: last_look.map_or(look_at, |last| last.earlier(look_at)),
        };
        match news {
            Some(EarlyHint::Granted { fence, number }) => {
                drop(self.on_grant(fence, number, context.now));
            }
            Some(EarlyHint::LookAgain) => drop(self.on_look_again(context.now)),
            None => {}
        }
        self.on_wake(context)
    }

    fn denial(&self, now: Moment) -> Denial {
        self.waiter.denial(&self.claim.last_answer, now)
    }

    fn on_look_again(&mut self, now: Moment) -> Effect {
        match &mut self.phase {
            Phase::Asking { news, .. } => {
                news.get_or_insert(EarlyHint::LookAgain);
                Effect::Nothing
            }
            Phase::Waiting { look_at } => {
                *look_at = look_at.earlier(now);
                Effect::Wake
            }
            // A release that failed may be sent again.
            Phase::Leaving => Effect::Wake,
            _ => Effect::Nothing,
        }
    }

    fn on_close(&mut self, now: Moment) -> Effect {
        match &self.phase {
            Phase::Asking { .. } | Phase::Waiting { .. } => {
                self.phase = Phase::Waiting { look_at: now };
            }
            Phase::Holding(hold) if !hold.is_entered() => {}
            _ => return Effect::Nothing,
        }
        self.waiter.refused = true;
        Effect::Wake
    }

    fn on_cut_short(&mut self, now: Moment) -> Effect {
        match &self.phase {
            Phase::Holding(hold) if hold.is_entered() => self.lose(LostCause::ShutDown, now),
            _ => self.on_close(now),
        }
    }

    fn on_leave(&mut self, now: Moment) -> Effect {
        let owner = self.claim.owner;
        if matches!(self.phase, Phase::Leaving) {
            // The driver that should have sent the release is gone.
            return Effect::Release { owner };
        }
        self.phase = Phase::Leaving;
        self.claim.succeeded();
        match self.claim.traces_until {
            Some(until) => {
                // The last request may have been carried out at the very end of its time.
                self.claim.traces_until = Some(until.later(now.plus(LOOK_AGAIN)));
                Effect::Release { owner }
            }
            None => Effect::Forget(None),
        }
    }

    fn on_released(&mut self, answer: Option<Released>, context: Context<'_>) -> Effect {
        let now = context.now;
        let traces_until = self.claim.traces_until;
        if answer.is_some() || traces_until.is_none_or(|until| until.is_reached(now)) {
            return Effect::Forget(answer);
        }
        Effect::WaitUntil(now.plus(self.claim.back_off(LOOK_AGAIN, context.random)))
    }
}
