//! One attempt at a key: its phases, and every decision about it.
//!
//! **Safety.** A deadline is counted from the moment *before* the request was sent that the store
//! has confirmed, and a failed request never moves it. What got no answer may have been carried
//! out: the attempt is then released, whatever became of it.

mod hold;

use std::{sync::Arc, time::Duration};

use tokio::sync::Notify;

use self::hold::Hold;
use super::{Denial, Effect, Event, Held, Loss, Surroundings};
use crate::{
    clock::Moment,
    error::LostCause,
    fence::FencingToken,
    options::{Timing, Wait},
    owner::OwnerId,
    random::jittered,
    store::{ALIVE, Acquisition, Holder, Released, StoreError, StoreErrorKind},
};

/// The longest time between two questions of a waiter, which keep its place in the queue.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// The pause after the first failed request; it doubles up to [`LOOK_AGAIN`].
const FIRST_PAUSE: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) owner: OwnerId,
    timing: Timing,
    drift: Duration,
    entered: Moment,
    /// When the wait is over; `None` for ever.
    give_up: Option<Moment>,
    /// Until when the store may keep something of this attempt without another request.
    traces_until: Option<Moment>,
    /// Nobody else is to get the lease before.
    keep_until: Option<Moment>,
    failures: u32,
    /// The last answer that was no grant, for the error if the wait ends.
    refusal: Refusal,
    phase: Phase,
    /// Rung whenever somebody else's event changes the phase.
    pub(super) bell: Arc<Notify>,
}

#[derive(Debug)]
enum Phase {
    /// A request is under way.
    Asking {
        /// The store had news since: the answer may be out of date already.
        hinted: bool,
        /// [`Attempt::traces_until`] as it is if this request leaves nothing behind.
        traces_before: Option<Moment>,
    },
    /// The next question is due at `look_at`.
    Waiting {
        look_at: Moment,
    },
    Holding(Hold),
    Lost(Loss),
    Leaving,
}

#[derive(Clone, Debug)]
enum Refusal {
    NotAsked,
    Busy(Holder),
    Failed(StoreError),
    Closed,
}

impl Attempt {
    pub(super) fn new(
        owner: OwnerId,
        timing: Timing,
        drift: Duration,
        now: Moment,
        bell: Arc<Notify>,
    ) -> Self {
        Self {
            owner,
            timing,
            drift,
            entered: now,
            give_up: match timing.wait {
                Wait::Never => Some(now),
                Wait::For(limit) => Some(now.plus(limit)),
                Wait::Forever => None,
            },
            traces_until: None,
            keep_until: None,
            failures: 0,
            refusal: Refusal::NotAsked,
            phase: Phase::Waiting { look_at: now },
            bell,
        }
    }

    pub(super) fn lease(&self) -> Option<Held> {
        match &self.phase {
            Phase::Holding(hold) => Some(Held {
                token: hold.token,
                since: hold.since,
                deadline: hold.deadline,
            }),
            _ => None,
        }
    }

    pub(super) fn loss(&self) -> Option<Loss> {
        match &self.phase {
            Phase::Lost(loss) => Some(loss.clone()),
            _ => None,
        }
    }

    pub(super) fn kept_for(&self, now: Moment) -> Option<Duration> {
        let rest = self.keep_until?.longest_remaining(now);
        // A store counts in milliseconds, and a part of one is not to be lost.
        (!rest.is_zero()).then(|| rest + Duration::from_millis(1))
    }

    pub(super) fn is_refused(&self) -> bool {
        matches!(self.refusal, Refusal::Closed)
    }

    pub(super) fn on_event(&mut self, event: Event, around: Surroundings) -> Effect {
        match event {
            Event::Answered { sent, answer } => self.on_answer(sent, answer, around),
            Event::Woken => self.on_wake(around),
            Event::Hinted => self.on_hint(around.now),
            Event::Closed => self.on_close(around.now),
            Event::Revoked => self.on_revoke(around.now),
            Event::Tick => self.on_tick(around),
            Event::Renewed { sent, answer } => self.on_renewed(sent, answer, around),
            Event::Left => self.on_leave(around.now),
            Event::Released(answer) => self.on_released(answer, around),
            Event::Abandoned => Effect::Forget(None),
        }
    }

    /// Whether the caller waits no longer.
    fn is_over(&self, now: Moment) -> bool {
        self.give_up.is_some_and(|give_up| give_up.is_reached(now))
    }

    fn on_wake(&mut self, around: Surroundings) -> Effect {
        let Phase::Waiting { look_at } = self.phase else {
            return Effect::Nothing;
        };
        let asked = !matches!(self.refusal, Refusal::NotAsked);
        if self.is_refused() || (asked && self.is_over(around.now)) {
            return Effect::Refuse(self.denial(around.now));
        }
        if !look_at.is_reached(around.now) {
            return Effect::WaitUntil(self.give_up.map_or(look_at, |end| end.earlier(look_at)));
        }
        // A grant that takes longer than the TTL could not be trusted.
        let answer = around.response_limit.min(self.timing.ttl);
        let limit = match self.give_up {
            // Somebody who does not wait still needs the time of one answer.
            Some(give_up) if self.timing.wait != Wait::Never => {
                answer.min(give_up.remaining(around.now))
            }
            _ => answer,
        };
        self.phase = Phase::Asking {
            hinted: false,
            traces_before: self.traces_until,
        };
        self.leaves_traces(around.now);
        Effect::Ask {
            limit,
            queue: self.timing.wait != Wait::Never,
        }
    }

    fn on_answer(
        &mut self,
        sent: Moment,
        answer: Result<Acquisition, StoreError>,
        around: Surroundings,
    ) -> Effect {
        let Phase::Asking {
            hinted,
            traces_before,
        } = self.phase
        else {
            // Refused meanwhile. What was granted is given back when the caller leaves.
            return self.on_wake(around);
        };
        match answer {
            Ok(Acquisition::Granted { fence }) => match FencingToken::from_fence(fence) {
                Some(token) => self.hold(token, sent, around),
                None => self.on_failure(no_token(fence), around),
            },
            Ok(Acquisition::Busy(holder)) => {
                if self.timing.wait == Wait::Never {
                    // The store keeps nothing of an owner that did not ask for a place.
                    self.traces_until = traces_before;
                }
                self.on_busy(holder, hinted, around)
            }
            Err(error) => {
                if error.left_nothing() {
                    self.traces_until = traces_before;
                }
                self.on_failure(error, around)
            }
        }
    }

    /// A request is about to be sent that the store may carry out, whatever we hear of it.
    fn leaves_traces(&mut self, now: Moment) {
        self.traces_until = Some(now.plus(self.timing.ttl.max(ALIVE)));
    }

    fn on_busy(&mut self, holder: Holder, hinted: bool, around: Surroundings) -> Effect {
        self.failures = 0;
        let pause = match holder.ttl {
            // The hint came after the store had looked.
            _ if hinted => Duration::ZERO,
            // Just after the lease has ended, not just before.
            Some(ttl) if ttl < LOOK_AGAIN => ttl + Duration::from_millis(1),
            _ => LOOK_AGAIN,
        };
        self.refusal = Refusal::Busy(holder);
        self.look_again_in(jittered(pause, around.random), around)
    }

    fn on_failure(&mut self, error: StoreError, around: Surroundings) -> Effect {
        let is_final = error.is_final();
        // The last question of a wait may be cut short, and says less than what was known before.
        let cut_short = error.kind() == StoreErrorKind::TimedOut && self.is_over(around.now);
        if !cut_short || matches!(self.refusal, Refusal::NotAsked) {
            self.refusal = Refusal::Failed(error);
        }
        let pause = self.back_off(LOOK_AGAIN, around);
        if is_final {
            self.phase = Phase::Waiting {
                look_at: around.now,
            };
            return Effect::Refuse(self.denial(around.now));
        }
        self.look_again_in(pause, around)
    }

    fn look_again_in(&mut self, pause: Duration, around: Surroundings) -> Effect {
        self.phase = Phase::Waiting {
            look_at: around.now.plus(pause),
        };
        self.on_wake(around)
    }

    /// The pause after one more failure in a row.
    fn back_off(&mut self, longest: Duration, around: Surroundings) -> Duration {
        let doubled = FIRST_PAUSE.saturating_mul(1 << self.failures.min(10));
        self.failures += 1;
        jittered(doubled.min(longest), around.random)
    }

    fn denial(&self, now: Moment) -> Denial {
        let waited = self.entered.elapsed(now);
        match self.refusal.clone() {
            Refusal::Busy(holder) => Denial::Busy { waited, holder },
            Refusal::Failed(reason) => Denial::Unavailable { waited, reason },
            // Nobody is refused before the store was asked, unless the manager closes.
            Refusal::Closed | Refusal::NotAsked => Denial::Closed,
        }
    }

    fn on_hint(&mut self, now: Moment) -> Effect {
        match &mut self.phase {
            Phase::Asking { hinted, .. } => {
                *hinted = true;
                Effect::Nothing
            }
            Phase::Waiting { look_at } => {
                *look_at = look_at.earlier(now);
                Effect::Ring
            }
            // A release that failed may be sent again.
            Phase::Leaving => Effect::Ring,
            _ => Effect::Nothing,
        }
    }

    fn on_close(&mut self, now: Moment) -> Effect {
        if !matches!(self.phase, Phase::Asking { .. } | Phase::Waiting { .. }) {
            return Effect::Nothing;
        }
        self.refusal = Refusal::Closed;
        self.phase = Phase::Waiting { look_at: now };
        Effect::Ring
    }

    fn on_revoke(&mut self, now: Moment) -> Effect {
        match self.phase {
            Phase::Holding(_) => self.lose(LostCause::ShutDown, now),
            _ => self.on_close(now),
        }
    }

    fn on_leave(&mut self, now: Moment) -> Effect {
        if matches!(self.phase, Phase::Leaving) {
            return Effect::Nothing;
        }
        self.phase = Phase::Leaving;
        self.failures = 0;
        match self.traces_until {
            Some(until) => {
                // The last request may have been carried out at the very end of its time.
                self.traces_until = Some(until.later(now.plus(LOOK_AGAIN)));
                Effect::Release
            }
            None => Effect::Forget(None),
        }
    }

    fn on_released(&mut self, answer: Option<Released>, around: Surroundings) -> Effect {
        let now = around.now;
        if answer.is_some() || self.traces_until.is_none_or(|until| until.is_reached(now)) {
            return Effect::Forget(answer);
        }
        Effect::WaitUntil(now.plus(self.back_off(LOOK_AGAIN, around)))
    }
}

fn no_token(fence: u64) -> StoreError {
    StoreError::new(
        StoreErrorKind::BadAnswer,
        format!("the store counted a fence of {fence}, which makes no fencing token"),
    )
}
